"""Named random streams.

Every random draw of a cell comes from a stream keyed by purpose, environment and seed (and step), never by
the method's name: two methods with one seed meet the same tasks and the same sampling noise, and a resumed run
needs no saved generator state.
"""

from __future__ import annotations

import hashlib

#: Task seeds below this bound belong to the training split, the others to the evaluation split.
EVAL_SEED_START = 1 << 30


def stream_seed(purpose: str, *key: str | int) -> int:
    """A 63-bit seed that depends on `purpose` and every part of `key`, the same on every machine."""
    text = "\x1f".join([purpose, *map(str, key)])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def train_task_seed(*key: str | int) -> int:
    """A task seed of the training split: in [0, 2**30)."""
    return stream_seed("task", "train", *key) % EVAL_SEED_START


def eval_task_seed(*key: str | int) -> int:
    """A task seed of the evaluation split: in [2**30, 2**31)."""
    return EVAL_SEED_START + stream_seed("task", "eval", *key) % EVAL_SEED_START

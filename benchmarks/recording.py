"""What recording everything costs: share of step time, and bytes per token row on disk.

    python benchmarks/recording.py

Runs one cell of the cpu tier per environment, with and without records, in turn, on one thread.
"""

from __future__ import annotations

import os

os.environ["OMP_NUM_THREADS"] = "1"

import statistics
import tempfile
from pathlib import Path

import pyarrow.parquet as pq
import torch

from arena.envs import ENVS
from arena.recipe import parse_overrides, resolve
from arena.training import Phase
from arena.training.bc import clone
from arena.training.cell import run_cell

STEPS, ROUNDS = 6, 3


def quiet(step: int, steps: int, success: float | None, phase: Phase = "steps", /) -> None:
    """No progress."""


def measure(env: str, root: Path) -> str:
    """One line of the table in benchmarks/README.md."""
    recipe = resolve(
        "cpu", env, "grpo", 0, parse_overrides([f"steps={STEPS}", "bc.steps=200", "eval.episodes=8"])
    )
    clone(recipe, root / "bc", quiet)
    seconds: dict[bool, list[float]] = {True: [], False: []}
    for k in range(ROUNDS):
        for enabled, values in seconds.items():
            cell = recipe.model_copy(update={"record": recipe.record.model_copy(update={"enabled": enabled})})
            directory = root / f"{enabled}-{k}"
            run_cell(cell, directory, root / "bc", quiet)
            steps = pq.read_table(directory / "steps.parquet").to_pandas().iloc[1:]
            values.append((steps.seconds_step - steps.seconds_eval).sum())
    files = list((root / "True-0" / "tokens").iterdir())
    rows = sum(pq.read_metadata(path).num_rows for path in files)
    size = sum(path.stat().st_size for path in files)
    whole = sum(
        p.stat().st_size for t in ("tokens", "turns", "episodes") for p in (root / "True-0" / t).iterdir()
    )
    ratios = [a / b - 1 for a, b in zip(seconds[True], seconds[False], strict=True)]
    share = steps_share(root / "True-0")
    return (
        f"{env}: writing records is {share:.1%} of step time; step time with over without records "
        f"{statistics.median(ratios):+.1%} (median of {ROUNDS} pairs); {size / rows:.1f} bytes per token row, "
        f"{whole / rows:.1f} with episodes and turns"
    )


def steps_share(directory: Path) -> float:
    """Share of step time spent on building and writing records."""
    steps = pq.read_table(directory / "steps.parquet").to_pandas().iloc[1:]
    return steps.seconds_record.sum() / (steps.seconds_step - steps.seconds_eval).sum()


if __name__ == "__main__":
    torch.set_num_threads(1)
    for name in sorted(ENVS):
        with tempfile.TemporaryDirectory() as folder:
            print(measure(name, Path(folder)), flush=True)

"""Resumable state: policy, optimiser and counters in one atomic file. Random streams need no state."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import PreTrainedModel

from arena.records.files import write_atomic

STATE_FILE = "checkpoint/state.pt"


@dataclass(frozen=True)
class Counters:
    """Where a cell stands: finished steps and response tokens sampled since step 1."""

    step: int
    tokens_sampled: int


def save_checkpoint(
    directory: Path, model: PreTrainedModel, optimizer: torch.optim.Optimizer, counters: Counters
) -> None:
    """Write the state of a cell after a finished step."""
    state = {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "step": counters.step,
        "tokens_sampled": counters.tokens_sampled,
    }
    write_atomic(directory / STATE_FILE, lambda path: torch.save(state, path))


def load_checkpoint(
    directory: Path, model: PreTrainedModel, optimizer: torch.optim.Optimizer
) -> Counters | None:
    """Load the last checkpoint into model and optimiser; None where there is none."""
    path = directory / STATE_FILE
    if not path.exists():
        return None
    state = torch.load(path, weights_only=True)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    return Counters(state["step"], state["tokens_sampled"])

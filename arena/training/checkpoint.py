"""Resumable state: policy, critic, their optimisers and counters in one atomic file. Random streams need no state."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import PreTrainedModel

from arena.records.files import write_atomic
from arena.training.values import CriticModel

STATE_FILE = "checkpoint/state.pt"


@dataclass(frozen=True)
class Counters:
    """Where a cell stands: finished steps and response tokens sampled since step 1."""

    step: int
    tokens_sampled: int


def save_checkpoint(
    directory: Path,
    model: PreTrainedModel,
    optimizer: torch.optim.Optimizer,
    counters: Counters,
    critic: CriticModel | None = None,
) -> None:
    """Write the state of a cell after a finished step."""
    state = {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "step": counters.step,
        "tokens_sampled": counters.tokens_sampled,
        "critic": critic and {"model": critic.state_dict(), "optimizer": critic.optimizer.state_dict()},
    }
    write_atomic(directory / STATE_FILE, lambda path: torch.save(state, path))


def load_checkpoint(
    directory: Path,
    model: PreTrainedModel,
    optimizer: torch.optim.Optimizer,
    critic: CriticModel | None = None,
) -> Counters | None:
    """Load the last checkpoint into model, optimiser and critic; None where there is none."""
    path = directory / STATE_FILE
    if not path.exists():
        return None
    state = torch.load(path, weights_only=True)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    if critic is not None:
        critic.load_state_dict(state["critic"]["model"])
        critic.optimizer.load_state_dict(state["critic"]["optimizer"])
    return Counters(state["step"], state["tokens_sampled"])

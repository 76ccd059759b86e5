"""One tiny recipe and one behaviour-cloned start for all tests of training."""

from pathlib import Path
from typing import Any

import pytest

from arena.policy.model import frozen_copy, load_policy
from arena.policy.tokenizer import TextCodec
from arena.recipe import Recipe, merge
from arena.training import Phase
from arena.training.bc import clone
from arena.training.cell import run_cell
from arena.training.rollout import Roller

#: Everything that a tier may set is set here: tuning a tier does not touch these tests.
TINY: dict[str, Any] = {
    "tier": "test",
    "seed": 0,
    "steps": 3,
    "env": {"name": "frozen_lake", "max_turns": 7, "options": {"size": 3}},
    "model": {"hidden_size": 16, "num_layers": 1, "num_heads": 2, "num_kv_heads": 1, "intermediate_size": 32},
    "bc": {"episodes": 60, "steps": 250, "batch_size": 16, "learning_rate": 1e-2, "expert_noise": 0.3},
    "rollout": {"groups": 2, "group_size": 4, "max_response_tokens": 32, "temperature": 1.0},
    "optim": {"minibatches": 2, "learning_rate": 1e-3, "warmup": 0, "epochs": 1, "max_grad_norm": 1.0},
    "kl": {"coef": 0.01},
    "format": {"penalty": 0.1},
    "eval": {"every": 2, "episodes": 4, "temperature": 0.5},
}


def tiny(algorithm: str = "grpo", **changes: Any) -> Recipe:
    """The tiny recipe, changed: `tiny("sampo", steps=1, optim={"epochs": 2})`."""
    return Recipe.model_validate(merge({**TINY, "algorithm": algorithm}, changes))


def silent(step: int, steps: int, success: float | None, phase: Phase = "steps", /) -> None:
    """Progress that nobody reads."""


@pytest.fixture(scope="session")
def start(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("bc")
    clone(tiny(), directory, silent)
    return directory


@pytest.fixture(scope="session")
def grpo_cell(start: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The finished cell of the tiny recipe."""
    directory = tmp_path_factory.mktemp("cells") / "grpo"
    run_cell(tiny(), directory, start, silent)
    return directory


class World:
    """A policy, its reference and a roller, as a cell has them at its first step."""

    def __init__(self, start: Path) -> None:
        self.model, tokenizer = load_policy(start / "model")
        self.reference = frozen_copy(self.model)
        self.codec = TextCodec(tokenizer)
        self.roller = Roller(tiny().env, tiny().rollout, self.codec)


@pytest.fixture
def world(start: Path) -> World:
    return World(start)

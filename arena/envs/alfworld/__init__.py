"""ALFWorld: household tasks in text. `env` is the environment, `world` its rules, `conformance` compares with the
original engine."""

from __future__ import annotations

from arena.envs.alfworld.env import AlfWorld
from arena.envs.alfworld.world import TASK_TYPES

__all__ = ["TASK_TYPES", "AlfWorld"]

"""Which evaluation episodes have the same task: seeds differ, and the tasks a small environment draws from them repeat.

Of FrozenLake's 192 evaluation lakes about 105 are distinct. Episodes on one lake are no independent draws, so a
standard error that takes them for such is too small, by up to a factor of 2 (benchmarks/degradation.py). Records hold
task seeds and no contents; those are asked of the environment, in which a seed is the same task on every machine.
"""

from __future__ import annotations

import math
from collections import Counter
from functools import lru_cache

import pandas as pd

from arena.envs import make_env
from arena.errors import UsageError
from arena.recipe import EnvConfig
from arena.records.reader import Cell


def task_numbers(cell: Cell, evals: pd.DataFrame) -> dict[int, int] | None:
    """By evaluation episode of ONE cell, a number that episodes whose tasks have the same content share.

    `evals`: the cell's rows of `load_evals`. None where contents are not known: the environment is not Arena's own,
    its packages or data are not here, or no recipe or task seed was recorded.
    """
    if cell.recipe is None or cell.recipe.env.code or evals.empty or evals.task_seed.isna().any():
        return None
    drawn = evals.drop_duplicates("episode")
    numbers = _numbers(cell.recipe.env.model_dump_json(), tuple(map(int, drawn.task_seed)))
    return dict(zip(map(int, drawn.episode), numbers, strict=True)) if numbers else None


def largest_error(tasks: dict[int, int]) -> float:
    """The largest standard error that a share of successes can have, if all episodes of a task end alike."""
    counts = Counter(tasks.values()).values()
    return math.sqrt(0.25 * sum(n**2 for n in counts)) / len(tasks)


@lru_cache(maxsize=256)
def _numbers(config: str, seeds: tuple[int, ...]) -> tuple[int, ...] | None:
    """Of each seed's task; kept, because the methods of a seed share their tasks."""
    contents: dict[tuple[str, str], int] = {}
    try:
        env = make_env(EnvConfig.model_validate_json(config))
        starts = [env.reset(seed=seed) for seed in seeds]
    except (UsageError, ImportError, OSError, ValueError):
        return None  # records are read on machines that cannot run what made them
    env.close()
    return tuple(contents.setdefault((seen, info["anchor"]), len(contents)) for seen, info in starts)

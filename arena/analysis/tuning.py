"""How a trial of a method's settings is scored, and which trial is chosen.

Collapse shows late and in the spread, so a trial is judged by its end: by how high success stands there, and by how
much it moves.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd


@dataclass(frozen=True)
class Score:
    """Success on held-out tasks at the end of a trial: mean and spread over `values` evaluations, shares in [0, 1]."""

    mean: float
    spread: float
    values: int

    @property
    def lower(self) -> float:
        """Mean minus one spread: what trials are ranked by."""
        return self.mean - self.spread


def late_score(evaluations: pd.DataFrame, temperature: float) -> Score | None:
    """The score of ONE method's finished cells in one environment, all seeds, from their rows of `success_by_eval`.

    Evaluations at `temperature` in the last fifth of a cell's steps count, the last one always: those after
    four fifths of its last evaluation's step. `mean` is their mean over seeds (each seed has as many); `spread` the
    population standard deviation (divisor n) over all of them, evaluations and seeds together, 0 for a single
    one. None if there is none.
    """
    at = evaluations[evaluations.temperature == temperature]
    last = at.groupby("seed").step.transform("max")
    late = at[(5 * at.step > 4 * last) | (at.step == last)]
    if late.empty:
        return None
    return Score(float(late.success.mean()), float(late.success.std(ddof=0)), len(late))


def change(settings: Mapping[str, Any], tier: Mapping[str, Any]) -> tuple[int, float]:
    """How far settings are from the tier's, field by field: how many differ, then the sum of |log(value / tier's)|.

    Only positive numbers have the logarithm; of other values it is 0.
    """
    differing = [(value, tier[field]) for field, value in settings.items() if value != tier[field]]
    return len(differing), sum(_distance(value, old) for value, old in differing)


def _distance(value: Any, old: Any) -> float:
    numbers = all(isinstance(v, int | float) and not isinstance(v, bool) and v > 0 for v in (value, old))
    return abs(math.log(value / old)) if numbers else 0.0


def choose(scores: Sequence[Score], changes: Sequence[tuple[int, float]]) -> int:
    """The trial with the highest mean minus one spread. Of equals the one with the smaller `change`, then the first."""
    ranks = [
        (-round(score.lower, 9), fields, round(size, 9))
        for score, (fields, size) in zip(scores, changes, strict=True)
    ]
    return ranks.index(min(ranks))

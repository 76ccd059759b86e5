"""The test of ARLArena's collapse diagnosis: the share of KL in sequences of A<0 and ratio<1, before a collapse."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import pandas as pd

from arena.analysis.degradation import RULE
from arena.analysis.summary import summarise_cells
from arena.analysis.tokens import falling_share
from arena.claims.base import Criterion, Outcome, judge, not_run, on_some
from arena.claims.cells import Need, Pool, enough
from arena.claims.contrast import balanced, not_counted
from arena.records.reader import Cell

#: Points of the step's KL. The groups are nine: one of equal shares has 11.
_BOUNDS = Criterion(smallest=5.0)


@dataclass(frozen=True)
class ShareRises:
    """In cells that collapse, the share just before the onset less that in all earlier steps.

    "Just before" are the `CollapseRule.training_window` steps before the onset, so that nothing is taken from after it.
    With `control`, a method that is not expected to collapse, the same difference over the same steps of its cell
    of that environment and seed is taken off: shares may rise for all that trains.
    """

    label: str
    tier: str
    algos: tuple[str, ...]
    envs: tuple[str, ...]
    control: str | None = None

    @property
    def needs(self) -> tuple[Need, ...]:
        """The cells that collapse, and those they are held against."""
        return (Need(self.tier, self.algos + ((self.control,) if self.control else ()), self.envs),)

    def test(self, cells: Pool) -> Outcome:
        """One value per seed: the mean over its collapsed cells."""
        (need,) = self.needs
        held = {env: {algo: cells.find(need, env, algo) for algo in need.algos} for env in self.envs}
        seeds, envs = balanced(
            {env: set.intersection(*map(set, by_algo.values())) for env, by_algo in held.items()}
        )
        missing = cells.missing(self.needs, enough(seeds) if seeds else ())
        if not seeds:
            return not_run(self.label, "points", missing)
        rises: dict[int, list[float]] = {seed: [] for seed in seeds}
        for env, seed, algo in product(envs, seeds, self.algos):
            cell = held[env][algo][seed]
            onset = _onset(cells, cell)
            if onset is not None:
                other = held[env][self.control][seed] if self.control else None
                rises[seed].append(_rise(cells, cell, onset) - (_rise(cells, other, onset) if other else 0.0))
        collapsed = [rise for values in rises.values() for rise in values]
        known = {seed: [x for x in values if not math.isnan(x)] for seed, values in rises.items()}
        by_seed = {seed: float(np.mean(values)) for seed, values in known.items() if values}
        told = f"{len(collapsed)} of {len(seeds) * len(envs) * len(self.algos)} cells collapsed"
        if unknown := sum(map(math.isnan, collapsed)):
            told += f", {unknown} of them without tokens or without steps before"
        told = "; ".join([told, *not_counted(cells, self.needs, envs)])
        complete = len(envs) == len(self.envs)
        outcome = judge(self.label, by_seed, _BOUNDS, "points", told, complete=complete)
        return replace(on_some(outcome, envs, self.envs), missing=missing)


def _onset(cells: Pool, cell: Cell) -> int | None:
    records = cells.records(cell)
    step = summarise_cells([cell], records.steps, records.evals).collapse_step.iloc[0]
    return None if pd.isna(step) else int(step)


def _rise(cells: Pool, cell: Cell, onset: int) -> float:
    """Points of the KL share; NaN without tokens or without earlier steps."""
    shares = falling_share(cells.groups(cell))
    first = onset - RULE.training_window
    return 100 * float(shares.loc[first : onset - 1].mean() - shares.loc[: first - 1].mean())

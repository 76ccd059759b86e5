"""The test of ActFocus's diagnosis: energy of a token class against the variance of rewards, as a correlation."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from arena.analysis.energy import correlations, task_table
from arena.claims.base import Criterion, Outcome, judge, not_run, on_some
from arena.claims.cells import Need, Pool, enough
from arena.claims.contrast import balanced, not_counted
from arena.records.reader import Cell, map_cells

#: Cohen's small correlation is the smallest of interest; two thirds of his medium one (0.3) still counts as none: the
#: 80 tasks of a cell's first steps give it an error of 0.11.
_SOME, _NONE = Criterion(smallest=0.1), Criterion(smallest=0.2, alike=True)


@dataclass(frozen=True)
class EnergyCorrelation:
    """Whether a measure of `arena.analysis.energy` correlates with the variance of the reward over a task's rollouts.

    Spearman's, over the tasks of a cell's first steps, as that module has it: there the policy is close to the
    reference, the paper's setting. A seed's value is the mean over environments. Claimed is that it is positive, or
    (`none`) 0.
    """

    label: str
    tier: str
    algo: str
    envs: tuple[str, ...]
    measure: str
    none: bool = False

    @property
    def needs(self) -> tuple[Need, ...]:
        """The cells of the method."""
        return (Need(self.tier, (self.algo,), self.envs),)

    def test(self, cells: Pool) -> Outcome:
        """One value per seed."""
        (need,) = self.needs
        found = {
            env: {
                seed: _correlation(cells, cell, self.measure)
                for seed, cell in cells.find(need, env, self.algo).items()
            }
            for env in self.envs
        }
        known = {env: {s: r for s, r in by_seed.items() if not np.isnan(r)} for env, by_seed in found.items()}
        seeds, envs = balanced({env: set(by_seed) for env, by_seed in known.items()})
        missing = cells.missing(self.needs, enough(seeds) if seeds else ())
        if not any(found.values()):
            return not_run(self.label, "correlation", missing)
        table = pd.DataFrame({env: {seed: known[env][seed] for seed in seeds} for env in envs})
        by_env = ", ".join(f"{env} {value:+.2f}" for env, value in table.mean().items())
        told = "; ".join(
            [*([f"by environment {by_env}"] if envs else []), *not_counted(cells, self.needs, envs)]
        )
        outcome = judge(
            self.label,
            {seed: float(table.loc[seed].mean()) for seed in seeds},
            _NONE if self.none else _SOME,
            "correlation",
            told,
            complete=len(envs) == len(self.envs),
        )
        return replace(on_some(outcome, envs, self.envs), missing=missing)


def _correlation(cells: Pool, cell: Cell, measure: str) -> float:
    """NaN where energies were not recorded."""
    found = cells.once("energy", cell, lambda: _correlations(cell))
    return float(found.get(measure, np.nan))


def _correlations(cell: Cell) -> pd.Series:
    """By measure."""
    tasks = map_cells([cell], "episodes", task_table)
    if tasks.empty:
        return pd.Series(dtype=float)
    found = correlations(tasks, draws=1)  # of which only the intervals are made
    chosen = (found.level == "cell") & (found.period == "start") & (found.coefficient == "spearman")
    return found[chosen].set_index("measure").value

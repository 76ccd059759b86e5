"""The one test that most claims are: a measure of some cells against that of others, paired by environment and seed.

A seed's number is the mean over environments of the difference between the two sides, each the mean over its methods.
Cells of one seed share start, tasks and sampling noise, which pairing takes out. Every environment that counts has
all cells of every seed that counts, so that the mix is the same for each; without some of them the claim stays open.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from arena.analysis.degradation import Degradation, degradation
from arena.analysis.statistics import MIN_SEEDS_FOR_INTERVAL
from arena.analysis.summary import skipped_updates, summarise_cells
from arena.claims.base import Criterion, Outcome, judge, not_run, on_some
from arena.claims.cells import Need, Pool, Records, enough, free_fields


@dataclass(frozen=True)
class Measure:
    """A number of one cell, in `unit`; `smallest` is the smallest difference of interest, `margin` that of equivalence.

    `evaluated`: it is read from the evaluations, and so can be had at a number of sampled tokens. `relative`: a
    difference counts as a share of the other side's value, in percent. `fixed`: it does not depend on the seed.
    `timed`: cells are comparable only if what does not change learning, but may take time, is the same, too.
    """

    name: str
    unit: str
    of: Callable[[Records], float]
    smallest: float
    margin: float = math.nan
    evaluated: bool = True
    relative: bool = False
    fixed: bool = False
    timed: bool = False


def _from_path(value: Callable[[Degradation], float]) -> Callable[[Records], float]:
    """A value of the cell's degradation at its recipe's evaluation temperature, times 100; NaN without evaluations."""

    def of(records: Records) -> float:
        assert records.cell.recipe is not None
        path = degradation(records.evals, records.cell.recipe.eval.temperature)
        return math.nan if path is None else 100 * value(path)

    return of


def _state_bytes(records: Records) -> float:
    files = [file for file in (records.cell.path / "checkpoint").glob("*") if file.is_file()]
    return float(sum(file.stat().st_size for file in files)) if files else math.nan


#: Two points of success: about the smallest gain that ARLArena's Table 3 calls one (EMPG's 1.9 over GRPO, on average).
#: Five points as margin of equivalence: the error of one evaluation of 192 tasks is up to 3.6.
FINAL = Measure("final success", "points", _from_path(lambda path: path.final), 2.0, margin=5.0)
#: As for the final.
FALL = Measure("fall from peak to end", "points", _from_path(lambda path: path.drop), 2.0)
#: A tenth: of success .5, what a drop of five points is.
LOST = Measure("share of the peak lost", "% of the peak", _from_path(lambda path: path.relative_drop), 10.0)
#: 5 %: the same cell, run twice on a shared machine, differs by as much.
SECONDS = Measure(
    "seconds of rollout, scoring and update a step",
    "%",
    lambda records: float(
        records.steps[["seconds_rollout", "seconds_scoring", "seconds_update"]]
        .sum(axis=1, skipna=False)
        .mean(skipna=False)
    ),
    5.0,
    evaluated=False,
    relative=True,
    timed=True,
)
#: Weights, critic and optimiser state, as kept on disk: what a method holds whatever the batch. Peak memory is not
#: recorded.
STATE = Measure(
    "size of weights and optimiser state", "%", _state_bytes, 5.0, evaluated=False, relative=True, fixed=True
)


@dataclass(frozen=True)
class Arm:
    """Some methods under the same changes to the tier."""

    algos: tuple[str, ...]
    changes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Contrast:
    """A claim that side `a` has more, less, or the same of a measure than side `b`, on a tier, over environments."""

    label: str
    tier: str
    a: Arm
    b: Arm
    envs: tuple[str, ...]
    measure: Measure
    claimed: Literal["more", "less", "same"] = "more"

    @property
    def needs(self) -> tuple[Need, ...]:
        """The cells of both sides."""
        if self.a.changes == self.b.changes:
            return (Need(self.tier, self.a.algos + self.b.algos, self.envs, self.a.changes),)
        return tuple(Need(self.tier, side.algos, self.envs, side.changes) for side in (self.a, self.b))

    def test(self, cells: Pool) -> Outcome:
        """By steps, with the same at equal sampled tokens beside it."""
        held = {env: self._held(cells, env) for env in self.envs}
        seeds, envs = balanced({env: set(by_seed) for env, by_seed in held.items()})
        missing = cells.missing(self.needs, enough(seeds) if seeds else ())
        if not seeds:
            return not_run(self.label, self.measure.unit, missing)
        rows = {seed: [held[env][seed] for env in envs] for seed in seeds}
        told = "; ".join([self._told(rows, envs), *not_counted(cells, self.needs, envs)])
        outcome = replace(self._judge(rows, envs, told), missing=missing)
        if not self.measure.evaluated:
            return on_some(outcome, envs, self.envs)
        cut = {seed: [_at_equal_tokens(pair) for pair in pairs] for seed, pairs in rows.items()}
        equal = self._judge(cut, envs, "")
        if equal.verdict != outcome.verdict:
            told = f"{outcome.explanation}; at equal sampled tokens {equal.verdict}"
            outcome = replace(outcome, explanation=told)
        equal, outcome = (on_some(each, envs, self.envs) for each in (equal, outcome))
        return replace(outcome, equal_tokens=equal)

    def _held(self, cells: Pool, env: str) -> dict[int, Sides]:
        """By seed, the records of both sides in one environment, where all are there and can be compared."""
        found = [
            [
                cells.find(Need(self.tier, side.algos, self.envs, side.changes), env, algo)
                for algo in side.algos
            ]
            for side in (self.a, self.b)
        ]
        seeds = set.intersection(*(set(by_seed) for side in found for by_seed in side))
        return {
            seed: tuple([cells.records(by_seed[seed]) for by_seed in side] for side in found)
            for seed in seeds
            if not self.measure.timed
            or len({free_fields(by_seed[seed]) for side in found for by_seed in side}) == 1
        }

    def _judge(self, rows: Mapping[int, Sequence[Sides]], envs: Sequence[str], told: str) -> Outcome:
        measure, alike = self.measure, self.claimed == "same"
        values = {
            seed: float(np.mean([self._difference(pair) for pair in pairs])) for seed, pairs in rows.items()
        }
        bounds = Criterion(measure.margin if alike else measure.smallest, alike)
        whole = len(envs) == len(self.envs)
        return judge(self.label, values, bounds, measure.unit, told, measure.fixed, whole)

    def _difference(self, pair: Sides) -> float:
        a, b = (self._mean(side) for side in pair)
        difference = b - a if self.claimed == "less" else a - b
        return 100 * difference / b if self.measure.relative else difference

    def _mean(self, side: Sequence[Records]) -> float:
        return float(np.mean([self.measure.of(records) for records in side]))

    def _told(self, rows: Mapping[int, Sequence[Sides]], envs: Sequence[str]) -> str:
        """Both sides' means, the difference by environment, and how many cells collapsed where falls are compared."""
        pairs = [pair for by_env in rows.values() for pair in by_env]
        means = [float(np.mean([self._mean(pair[i]) for pair in pairs])) for i in (0, 1)]
        texts = [f"{self.measure.name}: {means[0]:,.4g} against {means[1]:,.4g}"]
        if len(envs) > 1:
            by_env = [np.mean([self._difference(by[i]) for by in rows.values()]) for i in range(len(envs))]
            texts.append(
                "by environment " + ", ".join(f"{env} {x:+.1f}" for env, x in zip(envs, by_env, strict=True))
            )
        if self.measure is LOST:
            texts.append(
                "collapsed " + " against ".join(_collapsed([r for p in pairs for r in p[i]]) for i in (0, 1))
            )
        if skipped := sum(len(skipped_updates(r.steps)) for pair in pairs for side in pair for r in side):
            texts.append(f"{skipped} of the cells skipped updates")
        return "; ".join(texts)


#: The records of side a and of side b, of one environment and seed.
Sides = tuple[Sequence[Records], ...]


def balanced(seeds: Mapping[str, set[int]]) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Seeds and environments to average over, of the seeds that each has: all of the ones in all of the others.

    From the environment with most seeds on, another counts if the seeds common with it are still enough for an
    interval, or as many as without it. Both empty if no environment has a seed.
    """
    kept: set[int] = set()
    envs: list[str] = []
    for env in sorted(seeds, key=lambda env: -len(seeds[env])):
        common = seeds[env] & kept if envs else seeds[env]
        if common and len(common) >= min(MIN_SEEDS_FOR_INTERVAL, len(kept)):
            kept = common
            envs.append(env)
    return tuple(sorted(kept)), tuple(env for env in seeds if env in envs)


def not_counted(cells: Pool, needs: Sequence[Need], envs: Sequence[str]) -> list[str]:
    """In words: environments that are not among those that count, and cells that did not reach their end."""
    without = [env for env in needs[0].envs if env not in envs]
    unfinished = cells.unfinished(needs)
    return ([f"without {', '.join(without)}: no cells, or no values, of these seeds"] if without else []) + (
        [f"not counted: {unfinished}"] if unfinished else []
    )


def _at_equal_tokens(pair: Sides) -> Sides:
    """All cells of one environment and seed, up to the tokens of the one that sampled fewest."""
    least = min(records.tokens for side in pair for records in side)
    return tuple([records.until(least) for records in side] for side in pair)


def _collapsed(records: Sequence[Records]) -> str:
    table = [summarise_cells([r.cell], r.steps, r.evals) for r in records]
    return f"{sum(int(row.collapse_step.notna().sum()) for row in table)} of {len(records)} cells"

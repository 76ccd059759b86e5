"""The stability margin: by what factor a method's learning rate can be raised before its runs fail.

A stress test (`arena stress`) trains a method on a grid: the tier's learning rate times a factor, the tier's updates
per rollout times another. A cell fails if it collapsed, if its last evaluation fell as far (`degradation.late_fall`),
or if it fell from its peak by more than noise and ended below its start: what it had learned is lost.

For each seed and each number of updates the threshold lies between the last factor that holds and the first that
fails, and is taken half-way in octaves (their geometric mean). A seed's margin is the mean of its thresholds over the
numbers of updates, a method's the mean over its seeds. With one number of updates that is the Spearman-Kaerber
estimate of a mean tolerance on the logarithm of the dose (D. J. Finney, Statistical Method in Biological Assay, 1978):
linear interpolation of the share of seeds that fail, without a curve to assume, and unlike the factor at which half of
the seeds fail it is a mean over seeds, so Student's interval over seeds is an interval of it.

A seed that never fails counts with the largest factor, one that fails at the smallest with that: the margin is then
said to be at least, or below, what comes out. Cells beyond a seed's first failure are not looked at, and
need not have been run: that a higher rate fails too is assumed.

A method has a margin once all its seeds do. Seeds that fail early are complete first, and one of which a cell crashed
may be its least stable: the mean over some would be biased, one way or the other.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from arena.analysis.statistics import Spread, spread_over_seeds, why_no_interval
from arena.analysis.summary import summarise_cells
from arena.errors import UsageError
from arena.records.reader import Cell, load_evals, load_steps, read_run


@dataclass(frozen=True)
class Point:
    """A point of the grid: factors of the tier's learning rate and of its updates per rollout, and its run, a folder
    relative to that of the stress test."""

    learning_rate: float
    updates: int
    run: str


@dataclass(frozen=True)
class StressGrid:
    """What a stress test trains: every environment, method and seed at every point."""

    folder: Path
    envs: tuple[str, ...]
    algos: tuple[str, ...]
    seeds: tuple[int, ...]
    points: tuple[Point, ...]

    @property
    def learning_rates(self) -> list[float]:
        """The factors of the learning rate, rising."""
        return sorted({point.learning_rate for point in self.points})

    @property
    def updates(self) -> list[int]:
        """The factors of the updates per rollout, rising."""
        return sorted({point.updates for point in self.points})


SCHEMA_VERSION = 1


def grid_file(run: Path) -> Path:
    """Where a stress test says what it trains, and what came out."""
    return run / "stress.json"


def grid_json(grid: StressGrid, about: Mapping[str, Any]) -> dict[str, Any]:
    """The content of `stress.json`: what `about` says of the launch, the grid, and each method's results so far."""
    return {
        "schema_version": SCHEMA_VERSION,
        **about,
        "envs": grid.envs,
        "algos": grid.algos,
        "seeds": grid.seeds,
        "points": [asdict(point) for point in grid.points],
        "results": [as_json(stability) for stability in stabilities(grid)],
    }


def read_grid(run: Path) -> StressGrid | None:
    """The grid of the stress test in the run folder `run`; None if it holds none. Raises UsageError if unreadable."""
    path = grid_file(run)
    if not path.is_file():
        return None
    try:
        fields = json.loads(path.read_text())
        if fields["schema_version"] != SCHEMA_VERSION:
            raise ValueError(f"schema_version {fields['schema_version']}, not {SCHEMA_VERSION}")
        points = tuple(Point(p["learning_rate"], p["updates"], p["run"]) for p in fields["points"])
        return StressGrid(run, *(tuple(fields[key]) for key in ("envs", "algos", "seeds")), points)
    except (ValueError, TypeError, KeyError) as error:
        raise UsageError(
            f"{path} cannot be read ({error!r}). Delete it; `arena stress` writes it anew."
        ) from None


@dataclass(frozen=True)
class Ending:
    """How a finished cell ended. `failed` is None without evaluations, and where they do not tell a fall from noise;
    `gain` is final success minus that of the start, both at the recipe's evaluation temperature, a share."""

    collapsed: bool
    failed: bool | None
    gain: float | None


#: Environment, method, seed, factor of the learning rate, factor of the updates.
Key = tuple[str, str, int, float, int]


def endings(grid: StressGrid) -> dict[Key, Ending]:
    """The ending of every finished cell of the grid."""
    found = {}
    for point, every in _by_point(grid):
        cells = [cell for cell in every if cell.finished]
        summary = summarise_cells(cells, load_steps(cells), load_evals(cells))
        for cell, (_, row) in zip(cells, summary.iterrows(), strict=True):
            found[_key(cell, point)] = _ending(row)
    return found


def crashed_cells(grid: StressGrid) -> list[Key]:
    """The cells of the grid that ended with an error."""
    return [_key(cell, point) for point, cells in _by_point(grid) for cell in cells if cell.state == "failed"]


def _by_point(grid: StressGrid) -> Iterator[tuple[Point, list[Cell]]]:
    for point in grid.points:
        run = grid.folder / point.run
        if (run / "manifest.json").is_file():
            yield point, [c for c in read_run(run).cells if c.env in grid.envs and c.algo in grid.algos]


def _key(cell: Cell, point: Point) -> Key:
    return cell.env, cell.algo, cell.seed, point.learning_rate, point.updates


def _ending(row: pd.Series) -> Ending:
    collapsed = not pd.isna(row.collapse_step)
    gain = None if pd.isna(row.final) else float(row.final - row.start)
    if pd.isna(row.degraded):
        return Ending(collapsed, None, gain)
    lost = row.degraded and row.final < row.start
    return Ending(collapsed, bool(collapsed or row.late_fall or lost), gain)


def is_beyond(grid: StressGrid, found: Mapping[Key, Ending], key: Key) -> bool:
    """Whether a lower learning rate of the same environment, method, seed and updates has failed."""
    *cell, rate, updates = key
    lower = [r for r in grid.learning_rates if r < rate]
    return any((v := found.get((*cell, r, updates))) and v.failed for r in lower)


@dataclass(frozen=True)
class Threshold:
    """Octaves (log2 of a factor of the learning rate) up to which runs hold. `at_least`: some did not fail on the
    grid, so it may be higher; `below`: some failed at the lowest factor, so it is lower."""

    octaves: float
    at_least: bool = False
    below: bool = False

    def __str__(self) -> str:
        sign = (
            "~ " if self.at_least and self.below else ">= " if self.at_least else "< " if self.below else ""
        )
        return f"{sign}{factor_text(self.octaves)}"


def factor_text(octaves: float) -> str:
    """1.5 octaves as 2.8x."""
    return f"{2**octaves:.2g}x"


def threshold(rates: Sequence[float], failed: Sequence[bool | None]) -> Threshold | None:
    """Between the last of the rising factors `rates` that holds and the first that fails, half-way in octaves.

    `failed`: of ONE seed and number of updates, by factor; None where it is not known. What comes after the first
    failure is not looked at. None if it takes a factor that is not known.
    """
    first = next((k for k, fails in enumerate(failed) if fails is not False), None)
    if first is None:
        return Threshold(math.log2(rates[-1]), at_least=True)
    if failed[first] is None:
        return None
    if first == 0:
        return Threshold(math.log2(rates[0]), below=True)
    return Threshold((math.log2(rates[first - 1]) + math.log2(rates[first])) / 2)


def _mean(thresholds: Sequence[Threshold]) -> Threshold:
    return Threshold(
        float(np.mean([t.octaves for t in thresholds])),
        any(t.at_least for t in thresholds),
        any(t.below for t in thresholds),
    )


@dataclass(frozen=True)
class MapCell:
    """A method in an environment at a point of the grid.

    How many seeds are finished, collapsed and failed, and how many are beyond: not run, as they failed at a lower
    learning rate. `gain` is the mean over finished seeds.
    """

    learning_rate: float
    updates: int
    finished: int
    collapsed: int
    failed: int
    beyond: int
    gain: float | None

    @property
    def lost(self) -> int:
        """Seeds that failed without a collapse."""
        return self.failed - self.collapsed


@dataclass(frozen=True)
class Stability:
    """A method in an environment: its map, the margin of each seed that is complete, and of how many seeds.

    `crashed`: cells that ended with an error, of the seeds that are not complete.
    """

    env: str
    algo: str
    cells: tuple[MapCell, ...]
    by_seed: Mapping[int, Threshold]
    seeds: int
    crashed: int = 0

    @property
    def margin(self) -> Threshold | None:
        """The method's margin: the mean over its seeds; None until all are complete."""
        return None if self.why_no_margin else _mean(list(self.by_seed.values()))

    @property
    def why_no_margin(self) -> str | None:
        """For the user: how many seeds are complete, and how many cells crashed; None if there is a margin."""
        if len(self.by_seed) == self.seeds:
            return None
        cells = f", {self.crashed} {'cell' if self.crashed == 1 else 'cells'} crashed" if self.crashed else ""
        return f"{len(self.by_seed)} of {self.seeds} seeds{cells}"

    @property
    def spread(self) -> Spread | None:
        """The seeds' margins in octaves, summarised; None until all are complete."""
        return None if self.why_no_margin else spread_over_seeds([t.octaves for t in self.by_seed.values()])

    @property
    def interval(self) -> tuple[float | None, float | None] | None:
        """Student's 95 % interval of the margin, octaves; an end is None where the grid bounds the margin of a seed."""
        spread, margin = self.spread, self.margin
        if not spread or not margin or not spread.interval or self.why_no_interval:
            return None
        low, high = spread.interval
        return (None if margin.below else low, None if margin.at_least else high)

    @property
    def why_no_interval(self) -> str | None:
        """For the user; None if there is an interval."""
        spread = self.spread
        return why_no_interval(spread.seeds, spread.same) if spread else self.why_no_margin

    @property
    def interval_text(self) -> str:
        """The interval as factors, or why there is none."""
        if self.interval is None:
            return self.why_no_interval or ""
        low, high = (None if end is None else factor_text(end) for end in self.interval)
        if low and high:
            return f"{low} to {high}"
        return f"from {low}" if low else f"up to {high}" if high else "bounded by the grid at both ends"


def stabilities(grid: StressGrid) -> list[Stability]:
    """One per environment and method, in the order of the grid, from what is on disk."""
    found, crashed = endings(grid), crashed_cells(grid)
    return [_stability(grid, found, env, algo, crashed) for env, algo in product(grid.envs, grid.algos)]


def _stability(
    grid: StressGrid, found: Mapping[Key, Ending], env: str, algo: str, crashed: Collection[Key] = ()
) -> Stability:
    margins = {seed: _seed_margin(grid, found, env, algo, seed) for seed in grid.seeds}
    by_seed = {seed: margin for seed, margin in margins.items() if margin}
    open_seeds = {(env, algo, seed) for seed in grid.seeds if seed not in by_seed}
    stopped = [key for key in crashed if key[:3] in open_seeds and not is_beyond(grid, found, key)]
    cells = tuple(
        _map_cell(grid, found, env, algo, rate, updates)
        for rate, updates in product(grid.learning_rates, grid.updates)
    )
    return Stability(env, algo, cells, by_seed, len(grid.seeds), len(stopped))


def _seed_margin(
    grid: StressGrid, found: Mapping[Key, Ending], env: str, algo: str, seed: int
) -> Threshold | None:
    columns = []
    for updates in grid.updates:
        column = [found.get((env, algo, seed, rate, updates)) for rate in grid.learning_rates]
        columns.append(threshold(grid.learning_rates, [v.failed if v else None for v in column]))
    known = [t for t in columns if t]
    return _mean(known) if len(known) == len(columns) else None


def _map_cell(
    grid: StressGrid, found: Mapping[Key, Ending], env: str, algo: str, rate: float, updates: int
) -> MapCell:
    keys: list[Key] = [(env, algo, seed, rate, updates) for seed in grid.seeds]
    done = [found[key] for key in keys if key in found]
    gains = [v.gain for v in done if v.gain is not None]
    return MapCell(
        rate,
        updates,
        finished=len(done),
        collapsed=sum(v.collapsed for v in done),
        failed=sum(bool(v.failed) for v in done),
        beyond=sum(key not in found and is_beyond(grid, found, key) for key in keys),
        gain=float(np.mean(gains)) if gains else None,
    )


def as_json(stability: Stability) -> dict[str, Any]:
    """For programs: factors, octaves and shares; null where there is none."""
    margin, interval = stability.margin, stability.interval
    return {
        "env": stability.env,
        "algo": stability.algo,
        "margin": margin and 2**margin.octaves,
        "octaves": margin and margin.octaves,
        "at_least": margin and margin.at_least,
        "below": margin and margin.below,
        "interval": interval and [None if end is None else 2**end for end in interval],
        "why_no_margin": stability.why_no_margin,
        "why_no_interval": stability.why_no_interval,
        "by_seed": {str(seed): asdict(t) for seed, t in stability.by_seed.items()},
        "seeds": stability.seeds,
        "crashed": stability.crashed,
        "map": [asdict(cell) for cell in stability.cells],
    }

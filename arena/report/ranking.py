"""Which method ended highest over all environments, and how sure that is: the table of the first page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from arena.analysis.statistics import (
    Estimate,
    Rank,
    Spread,
    bootstrap,
    interquartile_mean,
    ranks,
    spread_over_seeds,
    why_no_interval,
)
from arena.claims.contrast import balanced
from arena.report.document import RowGroup, Table
from arena.report.style import method_order
from arena.report.wording import DASH, MISSING, count, env_title, listing, percent, points, with_range

#: Most environments that are named, not counted.
NAMED = 3


@dataclass(frozen=True)
class Place:
    """A method's success: its rank, the interquartile mean of its runs, and the spread over seeds of its mean."""

    algo: str
    rank: Rank
    iqm: Estimate
    mean: Spread


@dataclass(frozen=True)
class Ranking:
    """Methods on the same environments and seeds, the best first. `of`: environments with a finished cell."""

    envs: tuple[str, ...]
    seeds: tuple[int, ...]
    of: int
    places: tuple[Place, ...]


def rankings(summary: pd.DataFrame) -> list[Ranking]:
    """The methods by final success; `summary` of `summarise_cells`.

    Of finished cells, on the environments and seeds that all methods with any have. Where these are too few seeds for
    an interval, and fewer environments have enough, a second ranking is over those. None if no seed is common.
    """
    done = summary[summary.state == "done"].dropna(subset="final")
    methods = method_order(list(done.algo))
    common = {
        str(env): set.intersection(*(set(rows[rows.algo == m].seed) for m in methods))
        for env, rows in done.groupby("env")
    }
    shared = {env: seeds for env, seeds in common.items() if seeds}
    every = tuple(sorted(set.intersection(*shared.values()))) if shared else ()
    covers = [(every, tuple(shared))] if every else []
    if why_no_interval(len(every)) and shared:
        fewer = balanced(shared)
        if not every or why_no_interval(len(fewer[0])) is None:
            covers.append(fewer)
    finals = done.set_index(["algo", "seed", "env"]).final
    return [_ranking(finals, methods, seeds, envs, len(common)) for seeds, envs in covers]


def _ranking(
    finals: pd.Series, methods: Sequence[str], seeds: tuple[int, ...], envs: tuple[str, ...], of: int
) -> Ranking:
    scores = {m: np.array([[finals[m, s, e] for e in envs] for s in seeds], dtype=float) for m in methods}
    places = []
    for method, rank in ranks(scores).items():
        mean = spread_over_seeds(scores[method].mean(axis=1))
        assert mean is not None
        places.append(Place(method, rank, bootstrap(interquartile_mean, scores[method]), mean))
    return Ranking(envs, seeds, of, tuple(sorted(places, key=lambda p: p.rank.rank)))


def ranking_table(summary: pd.DataFrame) -> Table:
    """A row per method, best first, with its collapses; without groups, and its caption says why, if none is ranked."""
    found = rankings(summary)
    ranked = {p.algo for r in found for p in r.places}
    rest = [m for m in method_order(list(summary.algo)) if m not in ranked]
    if not found:
        return Table("No seed is finished by every method in any environment: no ranking.", (), ())
    known = summary.dropna(subset="final")
    groups = tuple(
        RowGroup(
            _cover(r),
            tuple(_row(p, known[known.env.isin(r.envs) & (known.algo == p.algo)]) for p in r.places),
        )
        for r in found
    )
    intervals = any(p.iqm.interval for r in found for p in r.places)
    caption = (
        "Methods by success in % on held-out tasks after training, at the evaluation temperature, over environments "
        "and the seeds that every method finished. IQM: mean of the middle half of these cells. Mean: of all; below it "
        "the smallest and largest seed, or the interval. Collapsed: of all cells of these environments, and the step "
        "from which on."
    )
    if intervals:
        caption += (
            " CI, 95 %: of the mean Student's over seeds; of place and IQM the bootstrap stratified by environment. "
            "First: share of its draws in which the method is first. With few seeds place, first and IQM are too sure: "
            "of three, the interval of a mean covers 76 % in place of 95 %, and one of three equal methods is first in "
            "95 % of draws or more in 8 % of cases over four environments, in 24 % over one."
        )
    if rest:
        caption += f" Not ranked, without a finished cell: {listing(rest)}."
    header = ("Method", "Place", "First", "Success, IQM", "Success, mean", "Collapsed", "From step")
    return Table(caption, header, groups)


def _cover(found: Ranking) -> str:
    names = [env_title(e) for e in found.envs]
    envs = listing(names) if len(names) <= NAMED else f"{len(names)} of {found.of} environments"
    seeds = f"{'seed' if len(found.seeds) == 1 else 'seeds'} {listing([str(s) for s in found.seeds])}"
    why = why_no_interval(len(found.seeds))
    return f"{envs}, {seeds}{f': {why}' if why else ''}"


def _row(place: Place, cells: pd.DataFrame) -> tuple[str, ...]:
    steps = cells.collapse_step.dropna()
    onset = MISSING if steps.empty else step_range(steps)
    rank = f"{place.rank.rank:g}"
    if place.rank.interval:
        rank += f"\nCI {place.rank.interval[0]:g} to {place.rank.interval[1]:g}"
    iqm, mean = points(place.iqm.value), with_range(place.mean, points)
    if (ends := place.iqm.interval) and ends[1] - ends[0] > 1e-9:
        iqm += f"\nCI {points(ends[0])} to {points(ends[1])}"
    # In the place of the range: the table shares a page with all findings.
    if place.mean.interval and not place.mean.same:
        low, high = place.mean.interval
        mean = f"{points(place.mean.mean)}\nCI {points(low)} to {points(high)}"
    first = percent(place.rank.shares[0]) if place.rank.shares else MISSING
    collapsed = f"{len(steps)} of {len(cells)} cells"
    return place.algo, rank, first, iqm, mean, collapsed, onset


def step_range(steps: pd.Series) -> str:
    """The smallest and largest of some steps: 26–28, or 26."""
    low, high = count(float(steps.min())), count(float(steps.max()))
    return low if low == high else f"{low}{DASH}{high}"

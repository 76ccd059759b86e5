"""Statistics with seeds as the unit of replication, never episodes.

One value per seed: `spread_over_seeds`, `paired_difference` (Student's t). Scores of several environments: arrays
of runs x tasks, where a run is a seed and a task an environment, and the percentile bootstrap stratified by task of
Agarwal et al. 2021 (arXiv:2108.13264), in which each task's runs are drawn anew from that task's runs. Every draw
comes from a seeded generator: same scores, same interval. Fewer than three seeds give no interval, and
`why_no_interval` says so. Compared with rliable, and coverage measured, in benchmarks/bootstrap.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from arena.seeding import stream_seed

Scores = NDArray[np.float64]

#: Fewest seeds for which an interval is given. Two points give a t interval 13 standard errors wide on each
#: side.
MIN_SEEDS_FOR_INTERVAL = 3

#: Bootstrap draws: the ends of an interval then move by about 1 % of its width (standard deviation over generator
#: seeds, benchmarks/bootstrap.py).
DRAWS = 5000

#: Most seeds that `seeds_needed` answers with: more is no plan, and says that the difference is none.
MOST_SEEDS = 1000

#: 97.5 % quantiles of Student's t for 1, 2, ... degrees of freedom (checked against scipy in the tests).
_T_975 = (
    12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281,
    2.2010, 2.1788, 2.1604, 2.1448, 2.1314, 2.1199, 2.1098, 2.1009, 2.0930, 2.0860,
    2.0796, 2.0739, 2.0687, 2.0639, 2.0595, 2.0555, 2.0518, 2.0484, 2.0452, 2.0423,
)  # fmt: skip
_Z_975 = 1.959964

#: Draws held at once, so that memory does not grow with their number.
_CHUNK = 250


def student_quantile(freedom: int) -> float:
    """97.5 % quantile of Student's t for `freedom` >= 1; expanded above 30 (error < 0.004)."""
    if freedom <= len(_T_975):
        return _T_975[freedom - 1]
    return _Z_975 + (_Z_975**3 + _Z_975) / (4 * freedom)


def why_no_interval(seeds: int, same: bool = False) -> str | None:
    """For the user: why there is no interval for so many seeds; None if there is one.

    `same`: all seeds have one value, so that an interval would have no width, which says less of the truth than of how
    coarse the measure is.
    """
    if seeds >= MIN_SEEDS_FOR_INTERVAL:
        return f"the same in all {seeds} seeds, so no spread and no interval" if same else None
    given = {0: "no seed gives", 1: "one seed gives"}.get(seeds, f"{seeds} seeds give")
    return f"{given} no interval; it takes {MIN_SEEDS_FOR_INTERVAL}"


@dataclass(frozen=True)
class Spread:
    """One value per seed, summarised.

    `low` and `high` are the extremes; the interval is None below three seeds.
    """

    seeds: int
    mean: float
    low: float
    high: float
    interval: tuple[float, float] | None

    @property
    def same(self) -> bool:
        """Whether all seeds have one value; rounding makes no difference."""
        return self.high - self.low < 1e-9


def spread_over_seeds(values: Sequence[float] | np.ndarray | pd.Series) -> Spread | None:
    """Mean, extremes and Student-t 95 % interval of the mean; missing values are left out, None if all are.

    The interval takes the seeds as independent draws of a normal distribution.
    """
    given = np.asarray(values, dtype=float)
    given = given[~np.isnan(given)]
    if given.size == 0:
        return None
    mean = float(given.mean())
    interval = None
    if given.size >= MIN_SEEDS_FOR_INTERVAL:
        half = student_quantile(given.size - 1) * float(given.std(ddof=1)) / math.sqrt(given.size)
        interval = (mean - half, mean + half)
    return Spread(given.size, mean, float(given.min()), float(given.max()), interval)


def curve_over_seeds(frame: pd.DataFrame, value: str, by: Sequence[str]) -> pd.DataFrame:
    """Summarise `value` over the seeds of each group of `by`.

    Returns `by`, then `seeds` (how many have a value), `mean`, `low`, `high` (extremes over seeds), `ci_low`
    and `ci_high` (NaN below three seeds); groups without any value are left out.
    """
    rows = []
    for key, group in frame[[*by, value]].groupby(list(by), sort=True):
        assert isinstance(key, tuple)  # of a list of columns
        spread = spread_over_seeds(group[value])
        if spread is not None:
            ends = spread.interval or (math.nan, math.nan)
            rows.append((*key, spread.seeds, spread.mean, spread.low, spread.high, *ends))
    return pd.DataFrame(rows, columns=[*by, "seeds", "mean", "low", "high", "ci_low", "ci_high"])


@dataclass(frozen=True)
class PairedDifference:
    """B - A over seeds that both have. `differences` is in the order given; `spread` summarises it."""

    differences: tuple[float, ...]
    spread: Spread

    @property
    def why_no_interval(self) -> str | None:
        """For the user; None if there is one. No difference in any seed is one of no width: there the two are equal."""
        return why_no_interval(self.spread.seeds, self.spread.same and any(self.differences))

    @property
    def seeds_needed(self) -> int | None:
        """An estimate of how many seeds would show a mean difference of this size: see `seeds_needed`.

        None without a spread over seeds to estimate it from.
        """
        if self.spread.same:
            return None
        return seeds_needed(self.spread.mean, float(np.std(self.differences, ddof=1)))


def paired_difference(a: ArrayLike, b: ArrayLike) -> PairedDifference:
    """B - A of one value per seed, both in the same order of seeds, with Student's interval of the mean difference.

    Pairing takes out what the seeds share: start, tasks and sampling noise. Raises ValueError if the two do not
    match, are empty, or a value is missing.
    """
    a, b = np.asarray(a, dtype=float), np.asarray(b, dtype=float)
    if a.shape != b.shape or a.ndim != 1 or not a.size or np.isnan([a, b]).any():
        raise ValueError(f"pairs take one value per seed on both sides, none missing: {a} and {b}")
    spread = spread_over_seeds(b - a)
    assert spread is not None
    return PairedDifference(tuple((b - a).tolist()), spread)


def seeds_needed(mean: float, deviation: float, power: float = 0.8) -> int | None:
    """Seeds for which a paired t test at 5 % finds a true mean difference of `mean` in a share `power` of experiments.

    `deviation`: standard deviation of the difference between seeds. The smallest n from three on for which
    `_noncentrality(n - 1, power)` deviation / sqrt(n) <= |mean|; None above `MOST_SEEDS`. Mean and deviation are
    estimates of few seeds themselves, so it is an order of magnitude.
    """
    for n in range(MIN_SEEDS_FOR_INTERVAL, MOST_SEEDS + 1):
        if 0 < abs(mean) >= _noncentrality(n - 1, power) * deviation / math.sqrt(n):
            return n
    return None


def _noncentrality(freedom: int, power: float) -> float:
    """Mean over its standard error at which noncentral t exceeds Student's 97.5 % quantile in a share of experiments.

    Johnson and Welch's approximation; of a power of 0.8 the exact one at it is 0.812 for 2 degrees of freedom, 0.804
    for 4, 0.801 for 9, never below 0.799 (the tests compute it).
    """
    t = student_quantile(freedom)
    return t * (1 - 1 / (4 * freedom)) + NormalDist().inv_cdf(power) * math.sqrt(1 + t**2 / (2 * freedom))


@dataclass(frozen=True)
class Estimate:
    """A statistic of the scores given; its 95 % interval over seeds, None below three (`why_no_interval(seeds)`)."""

    value: float
    interval: tuple[float, float] | None
    seeds: int


def mean_score(scores: Scores) -> Scores:
    """Mean over the last two axes, runs and tasks."""
    return scores.mean(axis=(-2, -1))


def interquartile_mean(scores: Scores) -> Scores:
    """Mean of the middle half of all runs x tasks (the last two axes): a quarter, rounded down, is cut at each end."""
    flat = np.sort(scores.reshape(*scores.shape[:-2], -1), axis=-1)
    cut = flat.shape[-1] // 4
    return flat[..., cut : flat.shape[-1] - cut].mean(axis=-1)


def probability_of_improvement(x: Scores, y: Scores) -> Scores:
    """P(a run of x beats one of y), equal ones counting half; mean over tasks.

    Shapes (..., runs of x, tasks) and (..., runs of y, tasks) to (...): the Mann-Whitney statistic of each task over
    the number of its pairs.
    """
    x, y = x[..., :, None, :], y[..., None, :, :]
    return ((x > y) + 0.5 * (x == y)).mean(axis=(-3, -2, -1))


def performance_profile(scores: Scores, thresholds: ArrayLike) -> Scores:
    """Share of runs x tasks above each threshold: (..., runs, tasks) to (..., thresholds)."""
    return (scores[..., None] > np.asarray(thresholds)).mean(axis=(-3, -2))


def bootstrap(
    statistic: Callable[..., Scores],
    *scores: ArrayLike,
    paired: bool = False,
    draws: int = DRAWS,
    seed: int = 0,
) -> Estimate:
    """A statistic of one or more arrays of runs x tasks, with its stratified percentile bootstrap interval.

    `statistic` takes arrays (..., runs, tasks) and returns (...). `paired`: all arrays are drawn by the same runs,
    which takes out what methods of one seed share; else each is drawn by itself. Of few seeds the interval is too
    narrow: that of a mean of three normal values covers 76 % where 95 % are meant, of five 83 %, of ten 91 %
    (benchmarks/bootstrap.py); Student's (`paired_difference`) covers 95 %, so it is the one for a single
    environment. Raises ValueError for arrays that are not runs x tasks, miss a value or do not pair.
    """
    arrays = _checked(scores, paired)
    seeds = min(a.shape[0] for a in arrays)
    drawn = _draws(statistic, arrays, paired, draws, seed) if why_no_interval(seeds) is None else None
    interval = None
    if drawn is not None:
        low, high = _ends(drawn)
        interval = (float(low), float(high))
    return Estimate(float(statistic(*arrays)), interval, seeds)


def profile_over_seeds(
    scores: ArrayLike, thresholds: Sequence[float], draws: int = DRAWS, seed: int = 0
) -> pd.DataFrame:
    """The performance profile with its pointwise bootstrap interval.

    Columns: threshold, share, ci_low, ci_high (NaN below three seeds). `scores`: runs x tasks.
    """
    arrays = _checked([scores], paired=False)

    def profile(drawn: Scores) -> Scores:
        return performance_profile(drawn, thresholds)

    low = high = np.full(len(thresholds), math.nan)
    if why_no_interval(arrays[0].shape[0]) is None:
        low, high = _ends(_draws(profile, arrays, False, draws, seed))
    columns = {"threshold": thresholds, "share": profile(arrays[0]), "ci_low": low, "ci_high": high}
    return pd.DataFrame(columns)


@dataclass(frozen=True)
class Rank:
    """A method's place, 1 the best; equal methods share the mean of their places.

    `shares`: of the bootstrap draws, the share in which it takes place 1, 2, ...; `interval` the middle 95 % of its
    place over the draws. Both None below three seeds.
    """

    rank: float
    shares: tuple[float, ...] | None
    interval: tuple[float, float] | None


def ranks(
    scores: Mapping[str, ArrayLike],
    statistic: Callable[[Scores], Scores] = interquartile_mean,
    draws: int = DRAWS,
    seed: int = 0,
) -> dict[str, Rank]:
    """Methods by `statistic`, and how sure their places are. `scores`: method -> runs x tasks, the same for all.

    Paired: a draw takes the same seeds of every method. Raises ValueError as `bootstrap`.
    """
    arrays = _checked(list(scores.values()), paired=True)

    def values(*drawn: Scores) -> Scores:
        return np.stack([statistic(d) for d in drawn], axis=-1)

    above, equal = _places(values(*arrays))
    observed = above + (equal + 1) / 2
    if why_no_interval(arrays[0].shape[0]) is not None:
        return {name: Rank(float(observed[i]), None, None) for i, name in enumerate(scores)}
    above, equal = _places(_draws(values, arrays, True, draws, seed))
    low, high = _ends(above + (equal + 1) / 2)
    place = np.arange(len(arrays))
    # Equal methods hold their common places in equal parts.
    held = (place >= above[..., None]) & (place < (above + equal)[..., None])
    shares = (held / equal[..., None]).mean(axis=0)
    return {
        name: Rank(float(observed[i]), tuple(shares[i].tolist()), (float(low[i]), float(high[i])))
        for i, name in enumerate(scores)
    }


def _places(values: Scores) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """For each of the last axis: how many are above it, and how many equal it (itself included)."""
    others, own = values[..., None, :], values[..., :, None]
    return (others > own).sum(axis=-1), (others == own).sum(axis=-1)


def _checked(scores: Sequence[ArrayLike], paired: bool) -> list[Scores]:
    arrays = [np.asarray(a, dtype=float) for a in scores]
    shapes = [a.shape for a in arrays]
    if any(len(s) != 2 or 0 in s for s in shapes) or any(np.isnan(a).any() for a in arrays):
        raise ValueError(f"scores are runs x tasks without a missing value; given shapes {shapes}")
    if len({s if paired else s[1:] for s in shapes}) > 1:
        raise ValueError(
            f"scores cover the same tasks{' and seeds' if paired else ''}; given shapes {shapes}"
        )
    return arrays


def _draws(
    statistic: Callable[..., Scores], arrays: Sequence[Scores], paired: bool, draws: int, seed: int
) -> Scores:
    """The statistic of each draw, stacked along axis 0."""
    rng = np.random.default_rng(stream_seed("bootstrap", seed))
    found = []
    for start in range(0, draws, _CHUNK):
        count = min(_CHUNK, draws - start)
        drawn, rows = [], None
        for array in arrays:
            if rows is None or not paired:
                rows = rng.integers(len(array), size=(count, *array.shape))
            drawn.append(np.take_along_axis(array[None], rows, axis=1))
        found.append(statistic(*drawn))
    return np.concatenate(found)


def _ends(drawn: Scores) -> tuple[Scores, Scores]:
    low, high = np.quantile(drawn, [0.025, 0.975], axis=0)
    return low, high

"""The bootstrap of arena.analysis.statistics: beside rliable's, and how often its intervals cover.

    python -m pip install rliable "pandas<3"    # in an environment of its own; arch, which it takes, needs that pandas
    python benchmarks/bootstrap.py [rliable] [energy]

Without a word it measures coverage, and how often one of equal methods seems to be the first, and needs no rliable.
With `rliable` it also prints both sides' interval ends for the scores that tests/analysis/test_statistics.py pins, and
the spread of ours over generator seeds (the Monte-Carlo error). Arena is taken from the checkout; of it, this needs
numpy and pandas. `energy` adds the coverage of arena.analysis.energy's intervals, which takes two minutes and an
environment that Arena is installed in.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from arena.analysis import statistics as ours


def example_scores() -> tuple[np.ndarray, np.ndarray]:
    """Two methods of 10 runs x 4 tasks."""
    rng = np.random.default_rng(7)
    level = np.array([0.3, 0.5, 0.6, 0.8])
    return rng.normal(level, 0.1, (10, 4)).clip(0, 1), rng.normal(level + 0.03, 0.1, (10, 4)).clip(0, 1)


def beside_rliable() -> None:
    """Point estimates and interval ends, rliable with 50,000 draws, ours with 50,000 and, five times, with 5,000."""
    from rliable import library, metrics

    x, y = example_scores()
    thresholds = [0.25, 0.5, 0.75]

    def profile(scores: np.ndarray) -> np.ndarray:
        return np.array([library.run_score_deviation(scores, t) for t in thresholds])

    print(
        f"{'statistic':24} {'value':>17} {'low':>17} {'high':>17}   spread of our ends at {ours.DRAWS} draws"
    )
    cases: list[tuple[str, Callable, Callable, list]] = [
        ("mean", ours.mean_score, lambda s: np.array([metrics.aggregate_mean(s)]), [x]),
        ("interquartile mean", ours.interquartile_mean, lambda s: np.array([metrics.aggregate_iqm(s)]), [x]),
        (
            "P(y > x)",
            ours.probability_of_improvement,
            lambda a, b: np.array([metrics.probability_of_improvement(a, b)]),
            [y, x],
        ),
    ]
    for name, mine, theirs, scores in cases:
        np.random.seed(0)  # rliable draws from the global state
        given = {"s": scores[0] if len(scores) == 1 else scores}
        points, ends = library.get_interval_estimates(given, theirs, reps=50_000)
        low, high = ends["s"].ravel()
        own = ours.bootstrap(mine, *scores, draws=50_000)
        again = np.array([ours.bootstrap(mine, *scores, seed=s).interval for s in range(1, 6)]).std(axis=0)
        print(
            _line(name, (points["s"].item(), own.value), (low, own.interval[0]), (high, own.interval[1])),
            again.round(5),
        )
    np.random.seed(0)
    points, ends = library.get_interval_estimates({"s": x}, profile, reps=50_000)
    own = ours.profile_over_seeds(x, thresholds, draws=50_000)
    for i, row in enumerate(own.itertuples()):
        low, high = ends["s"][:, i]
        print(
            _line(
                f"share above {row.threshold}",
                (points["s"][i], row.share),
                (low, row.ci_low),
                (high, row.ci_high),
            )
        )


def _line(name: str, *pairs: tuple[float, float]) -> str:
    return f"{name:24} " + " ".join(f"{theirs:8.5f} {own:8.5f}" for theirs, own in pairs)


def coverage(experiments: int = 2000) -> None:
    """How often 95 % intervals hold the true mean, for normal and for skewed values, one task."""
    rng = np.random.default_rng(0)
    print(f"coverage of the mean in {experiments} experiments: seeds, distribution, bootstrap, Student")
    for seeds in (3, 5, 10, 20):
        for name, draw, truth in (
            ("normal", lambda n: rng.normal(0, 1, n), 0.0),
            ("beta(2, 0.5)", lambda n: rng.beta(2, 0.5, n), 0.8),
        ):
            samples = [draw(seeds) for _ in range(experiments)]
            boot = [ours.bootstrap(ours.mean_score, s[:, None], draws=500).interval for s in samples]
            student = [ours.spread_over_seeds(s).interval for s in samples]
            shares = [np.mean([low <= truth <= high for low, high in ends]) for ends in (boot, student)]
            print(f"{seeds:3} {name:12} {shares[0]:.3f} {shares[1]:.3f}")


def first(experiments: int = 2000) -> None:
    """How often one of three equal methods is the first in 95 % of the draws or more; normal values, paired seeds."""
    rng = np.random.default_rng(0)
    print(
        f"one of three equal methods first in 95 % of draws, {experiments} experiments: tasks, seeds, share"
    )
    for tasks in (1, 4):
        for seeds in (3, 5, 10):
            sure = 0
            for _ in range(experiments):
                scores = dict(zip("abc", rng.normal(size=(3, seeds, tasks)), strict=True))
                sure += max(rank.shares[0] for rank in ours.ranks(scores, draws=500).values()) >= 0.95
            print(f"{tasks:3} {seeds:3} {sure / experiments:.3f}")


def energy_coverage(experiments: int = 400) -> None:
    """How often the interval of an environment's correlation holds the true one: three seeds, 10 steps of 16 tasks.

    The seeds' own correlations are normal around 0.3.
    """
    import pandas as pd

    from arena.analysis.energy import MEASURES, correlations

    rng = np.random.default_rng(0)
    steps, tasks = 10, 16

    def cell(seed: int, deviation: float) -> pd.DataFrame:
        own = np.clip(rng.normal(0.3, deviation), -0.95, 0.95)
        x, noise = rng.normal(size=(2, steps * tasks))
        place = {
            "step": np.repeat(np.arange(1, steps + 1), tasks),
            "group_id": np.tile(np.arange(tasks), steps),
        }
        values = dict.fromkeys(MEASURES, np.nan) | {"energy_action": x}
        variance = own * x + np.sqrt(1 - own**2) * noise
        return pd.DataFrame(
            {"env": "e", "algo": "a", "seed": seed, **place, **values, "reward_variance": variance}
        )

    def holds(deviation: float) -> bool:
        found = correlations(pd.concat([cell(seed, deviation) for seed in range(3)]), draws=200)
        rows = found[(found.level == "env") & (found.period == "run") & (found.measure == "energy_action")]
        low, high = rows.loc[rows.coefficient == "pearson", ["low", "high"]].iloc[0]
        return low <= 0.3 <= high

    print(f"coverage of energy's correlation, three seeds, {experiments} experiments: their deviation, share")
    for deviation in (0.0, 0.1, 0.2):
        print(f"{deviation:4} {np.mean([holds(deviation) for _ in range(experiments)]):.3f}", flush=True)


if __name__ == "__main__":
    if "rliable" in sys.argv[1:]:
        beside_rliable()
    coverage()
    first()
    if "energy" in sys.argv[1:]:
        energy_coverage()

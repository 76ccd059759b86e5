"""Seeds are the unit; an interval is given only where it means something."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from arena.analysis.statistics import _T_975, curve_over_seeds, spread_over_seeds


def test_one_and_two_seeds_have_no_interval():
    one = spread_over_seeds([0.4])
    assert (one.seeds, one.mean, one.low, one.high, one.interval) == (1, 0.4, 0.4, 0.4, None)
    two = spread_over_seeds([0.4, 0.6])
    assert (two.seeds, two.mean, two.low, two.high, two.interval) == (2, 0.5, 0.4, 0.6, None)


def test_three_seeds_have_students_interval():
    spread = spread_over_seeds([0.1, 0.2, 0.3])
    # mean 0.2, standard deviation 0.1, t(0.975, 2) = 4.3027
    half = 4.3027 * 0.1 / math.sqrt(3)
    assert spread.interval == pytest.approx((0.2 - half, 0.2 + half))
    expected = stats.t.interval(0.95, 2, loc=0.2, scale=0.1 / math.sqrt(3))
    assert spread.interval == pytest.approx(expected, rel=1e-4)


def test_missing_seeds_are_left_out():
    assert spread_over_seeds([0.4, math.nan]).seeds == 1
    assert spread_over_seeds([math.nan]) is None
    assert spread_over_seeds([]) is None


def test_quantiles_are_students():
    assert pytest.approx(stats.t.ppf(0.975, np.arange(1, 31)), abs=5e-5) == _T_975


def test_many_seeds_get_an_interval_a_little_too_wide():
    values = np.random.default_rng(0).normal(size=50)
    low, high = spread_over_seeds(values).interval
    exact = stats.t.interval(0.95, 49, loc=values.mean(), scale=stats.sem(values))
    assert 1 <= (high - low) / (exact[1] - exact[0]) < 1.05


def test_curves_say_how_many_seeds_each_point_has():
    frame = pd.DataFrame(
        {
            "algo": ["a", "a", "a", "b"],
            "step": [1, 1, 2, 1],
            "seed": [0, 1, 0, 0],
            "x": [1.0, 3.0, 5.0, math.nan],
        }
    )
    curve = curve_over_seeds(frame, "x", ["algo", "step"])
    assert curve[["algo", "step", "seeds", "mean", "low", "high"]].values.tolist() == [
        ["a", 1, 2, 2.0, 1.0, 3.0],
        ["a", 2, 1, 5.0, 5.0, 5.0],
    ]
    assert curve.ci_low.isna().all()

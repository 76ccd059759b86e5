"""Seeds are the unit; an interval is given only where it means something."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from arena.analysis.statistics import (
    _T_975,
    _noncentrality,
    bootstrap,
    curve_over_seeds,
    interquartile_mean,
    mean_score,
    paired_difference,
    performance_profile,
    probability_of_improvement,
    profile_over_seeds,
    ranks,
    seeds_needed,
    spread_over_seeds,
    student_quantile,
    why_no_interval,
)
from benchmarks.bootstrap import example_scores


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


@pytest.mark.parametrize("freedom", [31, 49, 200, 1000])
def test_quantiles_beyond_the_table(freedom):
    assert student_quantile(freedom) == pytest.approx(stats.t.ppf(0.975, freedom), abs=0.004)


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


def test_no_interval_has_a_reason_for_the_user():
    assert why_no_interval(1) == "one seed gives no interval; it takes 3"
    assert why_no_interval(2) == "2 seeds give no interval; it takes 3"
    assert why_no_interval(3) is None
    assert why_no_interval(3, same=True) == "the same in all 3 seeds, so no spread and no interval"
    assert why_no_interval(2, same=True) == why_no_interval(2)


def test_paired_differences_are_b_minus_a():
    # Differences 0.1, 0.3, 0.2: mean 0.2, deviation 0.1; unpaired, the seeds would differ by 0.4.
    paired = paired_difference([0.1, 0.5, 0.9], [0.2, 0.8, 1.1])
    assert paired.differences == pytest.approx((0.1, 0.3, 0.2))
    half = 4.3027 * 0.1 / math.sqrt(3)
    assert paired.spread.interval == pytest.approx((0.2 - half, 0.2 + half))
    exact = stats.ttest_rel([0.2, 0.8, 1.1], [0.1, 0.5, 0.9]).confidence_interval()
    assert paired.spread.interval == pytest.approx(tuple(exact), rel=1e-4)


def test_pairs_that_do_not_match_are_refused():
    for a, b in (([1.0], [1.0, 2.0]), ([], []), ([1.0, math.nan], [1.0, 2.0])):
        with pytest.raises(ValueError, match="one value per seed"):
            paired_difference(a, b)


@pytest.mark.parametrize("effect", [0.15, 0.3, 0.5, 1.0, 1.5, 2.0])
def test_seeds_needed_give_the_power_promised(effect):
    # Power of the paired t test by the noncentral t distribution.
    def power(n):
        return stats.nct.sf(stats.t.ppf(0.975, n - 1), n - 1, effect * math.sqrt(n))

    n = seeds_needed(-effect, 1.0)
    assert power(n) >= 0.8
    # One seed fewer does not do, but where the approximation errs, by 0.012 at most.
    assert power(n - 1) < 0.812


def test_the_power_is_four_of_five_for_any_number_of_seeds():
    power = [
        stats.nct.sf(stats.t.ppf(0.975, n - 1), n - 1, _noncentrality(n - 1, 0.8)) for n in range(3, 200)
    ]
    assert power[0] == pytest.approx(0.812, abs=5e-4)
    assert power[2] == pytest.approx(0.804, abs=5e-4)
    # Above 30 degrees of freedom the quantile of t is expanded.
    assert min(power) > 0.799


def test_seeds_needed_has_an_end():
    assert seeds_needed(0.0, 0.1) is None
    assert seeds_needed(0.001, 1.0) is None
    assert seeds_needed(0.1, 0.0) == 3
    # Two seeds 0.1 and 0.3: mean 0.2, deviation 0.1414.
    # n = 6: 2.5706 x 19/20 + 0.8416 sqrt(1 + 2.5706^2 / 10) = 3.527; x 0.1414 / 2.449 = 0.204 > 0.2
    # n = 7: 2.4469 x 23/24 + 0.8416 sqrt(1 + 2.4469^2 / 12) = 3.375; x 0.1414 / 2.646 = 0.180
    assert paired_difference([0.0, 0.0], [0.1, 0.3]).seeds_needed == 7
    # Without a spread there is nothing to estimate from.
    assert paired_difference([0.0], [0.1]).seeds_needed is None
    assert paired_difference([0.6, 0.5, 0.4], [0.7, 0.6, 0.5]).seeds_needed is None


def test_the_interquartile_mean_cuts_a_quarter_at_each_end():
    # Eight values: two cut at each end, the mean of 2, 3, 4, 5 is left.
    assert interquartile_mean(np.array([[0.0, 5], [1, 4], [2, 90], [3, 80]])) == 3.5
    # Five values: one cut at each end.
    assert interquartile_mean(np.array([[9.0], [1], [2], [3], [0]])) == 2.0
    stacked = np.arange(24.0).reshape(3, 4, 2)
    assert interquartile_mean(stacked) == pytest.approx([3.5, 11.5, 19.5])
    assert interquartile_mean(stacked[1]) == stats.trim_mean(stacked[1], 0.25, axis=None)


def test_probability_of_improvement_counts_pairs():
    x, y = np.array([[1.0, 0.5], [3.0, 0.5]]), np.array([[2.0, 0.5], [0.0, 0.5], [3.0, 0.5]])
    # Task 0: 1 beats one of three, 3 beats two and equals one: (1 + 2.5) / 6. Task 1: all equal, one half.
    assert probability_of_improvement(x, y) == pytest.approx((3.5 / 6 + 0.5) / 2)
    assert probability_of_improvement(x, y) + probability_of_improvement(y, x) == pytest.approx(1)


def test_profiles_are_shares_above_a_threshold():
    scores = np.array([[0.2, 0.6], [0.4, 0.9]])
    assert performance_profile(scores, [0.1, 0.4, 0.9]).tolist() == [1.0, 0.5, 0.0]


def test_the_bootstrap_of_a_mean_has_all_27_draws_of_three():
    # Of 0, 0, 1 a draw has k ones with chance (8, 12, 6, 1) / 27: 2.5 % and 97.5 % are k = 0 and 3.
    estimate = bootstrap(mean_score, [[0.0], [0.0], [1.0]])
    assert (estimate.value, estimate.interval, estimate.seeds) == (pytest.approx(1 / 3), (0.0, 1.0), 3)
    assert bootstrap(mean_score, [[0.0], [1.0]]).interval is None


def test_tasks_are_strata():
    # Runs within a task agree: drawing from that task's runs alone changes nothing.
    assert bootstrap(mean_score, [[0.0, 1.0]] * 3).interval == (0.5, 0.5)


def test_paired_arrays_are_drawn_by_the_same_seeds():
    x = np.random.default_rng(0).normal(size=(6, 2))

    def gap(a, b):
        return mean_score(b) - mean_score(a)

    paired = bootstrap(gap, x, x + 0.25, paired=True)
    assert paired.interval == pytest.approx((0.25, 0.25))
    low, high = bootstrap(gap, x, x + 0.25).interval
    assert high - low > 0.5


def test_the_bootstrap_depends_on_its_seed_alone():
    x = np.random.default_rng(0).normal(size=(6, 2))
    np.random.seed(1)
    one = bootstrap(mean_score, x)
    np.random.seed(2)
    assert bootstrap(mean_score, x) == one
    assert bootstrap(mean_score, x, seed=1).interval != one.interval


#: rliable 1.2.0, 50,000 draws: python benchmarks/bootstrap.py rliable. The tolerance is five times the Monte-Carlo
#: error of our 5,000 draws that the same command prints.
@pytest.mark.parametrize(
    ("statistic", "arrays", "value", "low", "high", "tolerance"),
    [
        (mean_score, "x", 0.51048, 0.48617, 0.53472, 0.0022),
        (interquartile_mean, "x", 0.50112, 0.46495, 0.53887, 0.003),
        (probability_of_improvement, "yx", 0.73250, 0.61500, 0.84000, 0.01),
    ],
)
def test_rliable_finds_the_same(statistic, arrays, value, low, high, tolerance):
    given = dict(zip("xy", example_scores(), strict=True))
    estimate = bootstrap(statistic, *(given[name] for name in arrays))
    assert estimate.value == pytest.approx(value, abs=5e-6)
    assert estimate.interval == pytest.approx((low, high), abs=tolerance)


def test_rliable_finds_the_same_profile():
    profile = profile_over_seeds(example_scores()[0], [0.25, 0.5, 0.75])
    assert profile.values.tolist() == [
        pytest.approx(row)
        for row in ([0.25, 0.925, 0.85, 1.0], [0.5, 0.475, 0.375, 0.575], [0.75, 0.15, 0.075, 0.225])
    ]
    assert profile_over_seeds([[0.3, 0.6]], [0.5])[["ci_low", "ci_high"]].isna().all(axis=None)


def test_ranks_of_clear_equal_and_few():
    clear = ranks({"low": [[0.1]] * 3, "high": [[0.9]] * 3})
    assert (clear["high"].rank, clear["high"].shares, clear["high"].interval) == (1.0, (1.0, 0.0), (1.0, 1.0))
    assert clear["low"].shares == (0.0, 1.0)
    equal = ranks({"a": [[0.5]] * 3, "b": [[0.5]] * 3, "c": [[0.1]] * 3})
    assert (equal["a"].rank, equal["a"].shares) == (1.5, (0.5, 0.5, 0.0))
    assert ranks({"a": [[0.5]], "b": [[0.6]]})["a"].shares is None


def test_rank_shares_are_those_of_all_draws():
    # b - a is -1, 0, 2 on the three seeds. Of the 27 paired draws its sum is positive in 16, zero in 4 (0 0 0 and
    # the three orders of -1 -1 2), negative in 7; equal ones share the places.
    found = ranks({"a": [[1.0], [0], [0]], "b": [[0.0], [0], [2]]}, mean_score, draws=40_000)
    assert found["b"].rank == 1.0
    assert found["b"].shares == pytest.approx(((16 + 2) / 27, (7 + 2) / 27), abs=0.01)
    assert sum(found["a"].shares) == pytest.approx(1)


def test_scores_must_be_complete_and_cover_the_same():
    with pytest.raises(ValueError, match="runs x tasks without a missing value"):
        bootstrap(mean_score, [[0.1], [math.nan], [0.2]])
    with pytest.raises(ValueError, match="runs x tasks"):
        bootstrap(mean_score, [0.1, 0.2, 0.3])
    with pytest.raises(ValueError, match="same tasks and seeds"):
        ranks({"a": [[0.1]] * 3, "b": [[0.1]] * 4})

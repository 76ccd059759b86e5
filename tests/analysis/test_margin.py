"""Margins by hand."""

import math

import pandas as pd
import pytest

from arena.analysis.margin import (
    Ending,
    Point,
    StressGrid,
    Threshold,
    _ending,
    _stability,
    as_json,
    read_grid,
    threshold,
)
from arena.errors import UsageError

HOLDS, FAILS = Ending(False, False, 0.1), Ending(True, True, -0.4)


@pytest.mark.parametrize(
    ("failed", "expected", "text"),
    [
        ([False, False, True], Threshold(1.5), "2.8x"),  # sqrt(2 x 4)
        ([False, True, None], Threshold(0.5), "1.4x"),
        ([False, True, False], Threshold(0.5), "1.4x"),  # the first failure counts
        ([False, False, False], Threshold(2.0, at_least=True), ">= 4x"),
        ([True, None, None], Threshold(0.0, below=True), "< 1x"),
    ],
)
def test_a_threshold_lies_between_the_last_that_holds_and_the_first_that_fails(failed, expected, text):
    assert threshold([1, 2, 4], failed) == expected
    assert str(expected) == text


def test_a_threshold_takes_every_factor_up_to_the_failure():
    assert threshold([1, 2, 4], [False, None, True]) is None
    assert threshold([1, 2, 4], [None, True, True]) is None
    assert threshold([1, 2, 4], [False, False, None]) is None


def made(tmp_path, columns, seeds=(0, 1, 2), crashed=()):
    """A stability of rates 1, 2, 4 from, by (seed, updates), how many of them hold; the rest is beyond the failure.

    `crashed`: (seed, rate, updates) of cells that did.
    """
    rates, counts = (1.0, 2.0, 4.0), sorted({updates for _, updates in columns})
    points = tuple(Point(r, u, f"{r}-{u}") for r in rates for u in counts)
    found = {}
    for (seed, updates), holds in columns.items():
        for k, rate in enumerate(rates[: holds + 1]):
            found["sokoban", "grpo", seed, rate, updates] = HOLDS if k < holds else FAILS
    grid = StressGrid(tmp_path, ("sokoban",), ("grpo",), seeds, points)
    return _stability(grid, found, "sokoban", "grpo", [("sokoban", "grpo", *key) for key in crashed])


def test_a_margin_is_the_mean_over_updates_and_seeds_with_students_interval(tmp_path):
    # Octaves 1.5 and 0.5, 1.5 and 1.5, 0.5 and 0.5: by seed 1, 1.5, 0.5.
    columns = {(0, 1): 2, (0, 2): 1, (1, 1): 2, (1, 2): 2, (2, 1): 1, (2, 2): 1}
    found = made(tmp_path, columns)
    assert found.by_seed == {0: Threshold(1.0), 1: Threshold(1.5), 2: Threshold(0.5)}
    assert found.margin == Threshold(1.0)
    # Mean 1, standard deviation 0.5, t = 4.3027 of two degrees of freedom: half of it over the root of three.
    half = 4.3027 * 0.5 / 3**0.5
    assert found.interval == pytest.approx((1 - half, 1 + half), abs=1e-4)
    assert found.interval_text == "0.85x to 4.7x"  # 2**-0.2421 and 2**2.2421
    # Spearman-Kaerber of the first column: shares that fail 0, 1/3, 1 at 0, 1, 2 octaves.
    first = made(tmp_path, {key: holds for key, holds in columns.items() if key[1] == 1})
    assert first.margin.octaves == pytest.approx(1 / 3 * 0.5 + 2 / 3 * 1.5)


def test_the_map_counts_what_ran_and_what_lies_beyond(tmp_path):
    cells = {c.learning_rate: c for c in made(tmp_path, {(0, 1): 2, (1, 1): 0, (2, 1): 1}).cells}
    counts = {rate: (c.finished, c.collapsed, c.failed, c.beyond) for rate, c in cells.items()}
    assert counts == {1.0: (3, 1, 1, 0), 2.0: (2, 1, 1, 1), 4.0: (1, 1, 1, 2)}
    assert [c.gain for c in cells.values()] == pytest.approx([(0.1 + 0.1 - 0.4) / 3, -0.15, -0.4])


def test_a_margin_that_the_grid_bounds_says_so(tmp_path):
    never = made(tmp_path, {(seed, 1): 3 for seed in range(3)})
    assert (str(never.margin), never.interval) == (">= 4x", None)
    assert never.interval_text == "the same in all 3 seeds, so no spread and no interval"
    some = made(tmp_path, {(0, 1): 3, (1, 1): 2, (2, 1): 2})
    assert (str(some.margin), some.interval[1]) == (">= 3.2x", None)  # 2 ** (5 / 3)
    assert some.interval_text.startswith("from ")
    low = made(tmp_path, {(0, 1): 0, (1, 1): 1, (2, 1): 1})
    assert (str(low.margin), low.interval[0]) == ("< 1.3x", None)  # 2 ** (1 / 3)
    assert low.interval_text.startswith("up to ")
    both = made(tmp_path, {(0, 1): 0, (1, 1): 1, (2, 1): 3})
    assert (str(both.margin), both.interval_text) == ("~ 1.8x", "bounded by the grid at both ends")
    assert str(made(tmp_path, {(0, 1): 0}, seeds=(0,)).margin) == "< 1x"


def test_few_or_unfinished_seeds(tmp_path):
    one = made(tmp_path, {(0, 1): 2, (0, 2): 2}, seeds=(0,))
    assert (one.margin, one.interval_text) == (Threshold(1.5), "one seed gives no interval; it takes 3")
    half = made(tmp_path, {(0, 1): 2, (0, 2): 2, (1, 1): 2}, seeds=(0, 1))
    assert list(half.by_seed) == [0]  # seed 1 has nothing with twice the updates
    none = as_json(made(tmp_path, {(1, 1): 2}, seeds=(0,)))
    assert (none["margin"], none["octaves"], none["interval"], none["by_seed"]) == (None, None, None, {})
    assert (none["why_no_margin"], none["why_no_interval"]) == ("0 of 1 seeds", "0 of 1 seeds")


def test_a_fall_that_may_be_noise_is_not_judged():
    row = {"collapse_step": math.nan, "degraded": None, "late_fall": None, "start": 0.9, "final": 0.1}
    assert _ending(pd.Series(row)) == Ending(False, None, pytest.approx(-0.8))
    nothing = dict.fromkeys(row, math.nan)
    assert _ending(pd.Series(nothing)) == Ending(False, None, None)


def test_a_margin_is_not_given_of_some_seeds(tmp_path):
    # The two seeds that failed early are complete; the third may hold, or raise where it would have failed.
    early = made(tmp_path, {(0, 1): 0, (1, 1): 0})
    assert (early.margin, early.spread, early.interval, early.interval_text) == (
        None,
        None,
        None,
        "2 of 3 seeds",
    )
    # Beyond the failure of seed 0 a crash is of no account.
    crashed = made(tmp_path, {(0, 1): 0, (1, 1): 0}, crashed=[(2, 1.0, 1), (0, 4.0, 1), (7, 1.0, 1)])
    assert (crashed.margin, crashed.why_no_margin) == (None, "2 of 3 seeds, 1 cell crashed")
    found = as_json(crashed)
    assert (found["margin"], found["crashed"], list(found["by_seed"])) == (None, 1, ["0", "1"])


def test_a_run_without_a_grid_has_none_and_a_broken_one_is_named(tmp_path):
    assert read_grid(tmp_path) is None
    (tmp_path / "stress.json").write_text('{"schema_version": 0}')
    with pytest.raises(UsageError, match=r"stress.json cannot be read \(.*schema_version 0, not 1"):
        read_grid(tmp_path)
    (tmp_path / "stress.json").write_text('{"schema_version": 1}')
    with pytest.raises(UsageError, match=r"stress\.json cannot be read \(KeyError\('points'\)\)"):
        read_grid(tmp_path)

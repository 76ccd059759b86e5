"""Scores of trials by hand, and which trial is chosen."""

import math

import pandas as pd
import pytest

from arena.analysis.tuning import Score, change, choose, late_score


def evaluations(rows):
    """Rows of (seed, temperature, step, success)."""
    return pd.DataFrame(rows, columns=["seed", "temperature", "step", "success"])


def test_evaluations_of_the_last_fifth_count_with_all_seeds():
    rows = [(0, 0.5, 0, 0.9), (0, 0.5, 8, 0.9), (0, 0.5, 9, 0.6), (0, 0.5, 10, 0.8), (0, 1.0, 10, 0.1)]
    rows += [(1, 0.5, 0, 0.9), (1, 0.5, 8, 0.9), (1, 0.5, 9, 0.5), (1, 0.5, 10, 0.1), (1, 1.0, 9, 0.1)]
    score = late_score(evaluations(rows), 0.5)
    # .6 .8 .5 .1: mean .5, deviations .1 .3 0 -.4
    assert score.mean == pytest.approx(0.5)
    assert score.spread == pytest.approx(math.sqrt((0.01 + 0.09 + 0 + 0.16) / 4))
    assert score.values == 4
    assert score.lower == pytest.approx(0.5 - math.sqrt(0.065))
    assert late_score(evaluations(rows), 1.0).values == 2


def test_the_last_evaluation_counts_alone_where_they_are_rare():
    """As in the cpu tier: every 11 of 44 steps."""
    rows = [(0, 0.5, step, step / 100) for step in (0, 11, 22, 33, 44)]
    assert late_score(evaluations(rows), 0.5) == Score(0.44, 0.0, 1)
    two = late_score(evaluations([*rows, (1, 0.5, 0, 0.0), (1, 0.5, 44, 0.64)]), 0.5)
    assert (two.mean, two.spread, two.values) == (pytest.approx(0.54), pytest.approx(0.1), 2)


def test_no_evaluation_no_score():
    assert late_score(evaluations([(0, 1.0, 10, 0.5)]), 0.5) is None
    assert late_score(evaluations([]), 0.5) is None


def test_changes_are_counted_then_measured():
    tier = {"rate": 6e-4, "coef": 0.0, "layout": "turn", "on": True, "epochs": 1}
    assert change(tier, tier) == (0, 0.0)
    assert change({"rate": 12e-4}, tier) == (1, pytest.approx(math.log(2)))
    assert change({"rate": 3e-4, "epochs": 4}, tier) == (2, pytest.approx(math.log(2) + math.log(4)))
    assert change({"coef": 0.5, "layout": "trajectory", "on": False}, tier) == (3, 0.0)


@pytest.mark.parametrize(
    ("scores", "changes", "chosen"),
    [
        # The highest mean minus spread, not the highest mean.
        ([(0.5, 0.0), (0.9, 0.5), (0.7, 0.1)], [(0, 0.0)] * 3, 2),
        # Equals: fewer fields changed, however far; then less far; then the first.
        ([(0.5, 0.0), (0.6, 0.1), (0.7, 0.2)], [(2, 0.1), (1, 0.9), (1, 0.7)], 2),
        ([(0.5, 0.0), (0.6, 0.1)], [(1, 0.9), (2, 0.1)], 0),
        ([(0.5, 0.0), (0.6, 0.1)], [(1, 0.7), (1, 0.7)], 0),
        # Equal but for rounding is equal.
        ([(0.1 + 0.2, 0.0), (0.3, 0.0)], [(1, 0.0), (0, 0.0)], 1),
        # A collapsed trial is steady, and not chosen.
        ([(0.0, 0.0), (0.2, 0.1)], [(0, 0.0), (3, 9.0)], 1),
    ],
)
def test_the_choice(scores, changes, chosen):
    assert choose([Score(mean, spread, 4) for mean, spread in scores], changes) == chosen

"""Degradation of hand-made cells."""

import math

import pandas as pd
import pytest

from arena.analysis.success import degradation, success_by_eval, with_tokens

IDENTITY = {"env": "e", "algo": "a", "seed": 0}


def scores(rows, episodes=100):
    """Rows of (temperature, step, success)."""
    frame = pd.DataFrame(rows, columns=["temperature", "step", "success"])
    return frame.assign(**IDENTITY, episodes=episodes)


def test_success_is_the_mean_over_the_episodes_of_an_evaluation():
    evals = pd.DataFrame(
        {
            "temperature": [0.5] * 4 + [1.0],
            "step": [0] * 4 + [0],
            "success": [True, False, False, False, True],
        }
    ).assign(**IDENTITY)
    table = success_by_eval(evals)
    assert table[["temperature", "step", "success", "episodes"]].values.tolist() == [
        [0.5, 0, 0.25, 4],
        [1.0, 0, 1.0, 1],
    ]


def test_degradation_of_a_rise_and_fall():
    path = scores(
        [
            (0.0, 0, 0.45),
            (0.5, 0, 0.40),
            (1.0, 0, 0.30),
            (0.5, 10, 0.60),
            (0.5, 20, 0.60),
            (0.5, 30, 0.15),
            (1.0, 30, 0.1),
        ]
    )
    result = degradation(path, 0.5)
    assert (result.start, result.best_start, result.best_start_temperature) == (0.40, 0.45, 0.0)
    assert (result.peak, result.peak_step, result.final, result.final_step) == (0.60, 10, 0.15, 30)
    assert result.drop == pytest.approx(0.45)
    assert result.relative_drop == pytest.approx(0.75)
    assert result.drop_noise == pytest.approx(math.sqrt(0.6 * 0.4 / 100 + 0.15 * 0.85 / 100))
    assert result.gain == pytest.approx(-0.30)
    assert result.gain_noise == pytest.approx(math.sqrt(0.45 * 0.55 / 100 + 0.15 * 0.85 / 100))
    assert (result.degraded, result.improved) == (True, False)
    at_one = degradation(path, 1.0)
    assert (at_one.start, at_one.peak, at_one.peak_step, at_one.final) == (0.30, 0.30, 0, 0.1)


def test_a_drop_within_noise_is_not_degradation():
    result = degradation(scores([(0.5, 0, 0.50), (0.5, 10, 0.55), (0.5, 20, 0.50)], episodes=32), 0.5)
    assert result.drop == pytest.approx(0.05)
    assert not result.degraded


def test_a_method_that_never_succeeds_has_no_relative_drop():
    result = degradation(scores([(0.5, 0, 0.0), (0.5, 10, 0.0)]), 0.5)
    assert (result.drop, result.relative_drop, result.degraded) == (0.0, 0.0, False)


def test_no_evaluation_no_degradation():
    assert degradation(scores([(0.5, 0, 0.5)]), 1.0) is None
    assert degradation(scores([]), 0.5) is None
    assert degradation(scores([(0.5, 10, 0.5), (1.0, 0, 0.5)]), 0.5) is None


def test_tokens_before_each_evaluation():
    steps = pd.DataFrame({"step": [1, 2], "tokens_sampled_total": [100, 250]}).assign(**IDENTITY)
    table = with_tokens(scores([(0.5, 0, 0.1), (0.5, 2, 0.2), (0.5, 3, 0.2)]), steps)
    assert table.tokens.tolist()[:2] == [0, 250]
    assert math.isnan(table.tokens[2])


def test_a_gain_counts_when_it_exceeds_two_standard_errors():
    # 0.5 to 0.6 with 100 episodes: the standard error is sqrt((0.25 + 0.24) / 100) = 0.07
    assert not degradation(scores([(0.5, 0, 0.5), (0.5, 10, 0.6)]), 0.5).improved
    assert degradation(scores([(0.5, 0, 0.5), (0.5, 10, 0.65)]), 0.5).improved

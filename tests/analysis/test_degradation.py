"""Degradation and collapse of hand-made cells: success by task, so that the paired error can be worked by hand."""

import math

import numpy as np
import pandas as pd
import pytest

from arena.analysis.degradation import (
    RULE,
    CollapseRule,
    collapse_onset,
    collapse_step,
    degradation,
    late_fall,
)


def evals(rows, tasks=100):
    """Rows of (temperature, step, share): the first tasks succeed, as many as the share says."""
    frames = [
        pd.DataFrame(
            {
                "temperature": temperature,
                "step": step,
                "episode": range(tasks),
                "success": np.arange(tasks) < round(share * tasks),
            }
        )
        for temperature, step, share in rows
    ]
    return pd.concat(frames, ignore_index=True)


def at_half(*shares):
    """An evaluation every 10 steps at temperature 0.5."""
    return evals([(0.5, 10 * i, share) for i, share in enumerate(shares)])


def test_a_rise_and_fall():
    path = evals(
        [
            (0.0, 0, 0.45),
            (0.5, 0, 0.40),
            (1.0, 0, 0.30),
            (0.5, 10, 0.60),
            (0.5, 20, 0.70),
            (0.5, 30, 0.50),
            (0.5, 40, 0.13),
            (1.0, 40, 0.1),
        ]
    )
    result = degradation(path, 0.5)
    assert (result.start, result.best_start, result.best_start_temperature) == (0.40, 0.45, 0.0)
    # The running mean of two evaluations is largest for 0.60 and 0.70.
    assert (result.peak, result.peak_from, result.peak_step) == (pytest.approx(0.65), 10, 20)
    assert (result.final, result.final_step) == (0.13, 40)
    assert result.drop == pytest.approx(0.52)
    assert result.relative_drop == pytest.approx(0.8)
    assert result.gain == pytest.approx(0.13 - 0.45)
    assert (result.degraded, result.improved) == (True, False)
    at_one = degradation(path, 1.0)
    assert (at_one.start, at_one.peak, at_one.peak_step, at_one.final) == (0.30, 0.30, 0, 0.1)


def test_the_error_of_a_drop_is_paired():
    # Of 100 tasks 47 are lost, 10 half of the time (0.60 and 0.70) and 43 are not won anyway: differences of 1, 0.5, 0.
    result = degradation(at_half(0.4, 0.6, 0.7, 0.13), 0.5)
    differences = [1.0] * 47 + [0.5] * 10 + [0.0] * 43
    assert result.drop == pytest.approx(np.mean(differences))
    assert result.drop_noise == pytest.approx(np.std(differences, ddof=1) / 10)
    # Start and end: 27 tasks lost.
    assert result.gain_noise == pytest.approx(np.std([1.0] * 27 + [0.0] * 73, ddof=1) / 10)


def test_episodes_of_one_task_count_together():
    # Two tasks of two episodes: lost 1, 1 and 0, 0. Mean 0.5, sums of deviations 1 and -1: sqrt(2 / 1 x 2) / 4 = 0.5.
    path = evals([(0.5, 0, 0.5), (0.5, 10, 0.0)], tasks=4)
    assert degradation(path, 0.5, tasks={0: 0, 1: 0, 2: 7, 3: 7}).drop_noise == pytest.approx(0.5)
    # On their own: deviation sqrt(1 / 3), over the root of 4.
    apart = degradation(path, 0.5, tasks={0: 0, 1: 1, 2: 2, 3: 3})
    assert apart.drop_noise == pytest.approx(math.sqrt(1 / 3) / 2)
    assert apart == degradation(path, 0.5)
    # One task says nothing of noise, however many episodes it has.
    assert math.isnan(degradation(path, 0.5, tasks=dict.fromkeys(range(4), 0)).drop_noise)
    # Each of 100 tasks twice: the error of 100 tasks.
    twice = evals([(0.5, 0, 0.5), (0.5, 10, 0.4)], tasks=200)
    pairs = {episode: episode // 2 for episode in range(200)}
    once = degradation(at_half(0.5, 0.4), 0.5)
    assert degradation(twice, 0.5, tasks=pairs).drop_noise == pytest.approx(once.drop_noise)


def test_what_ends_highest_has_not_fallen():
    rising = degradation(at_half(0.3, 0.5, 0.7), 0.5)
    assert (rising.peak, rising.peak_step, rising.drop) == (0.7, 20, 0.0)
    falling = degradation(at_half(0.5, 0.3, 0.2), 0.5)
    assert (falling.peak, falling.peak_from, falling.peak_step) == (0.5, 0, 0)
    assert falling.drop == pytest.approx(0.3)


def test_one_lucky_evaluation_is_smoothed():
    # 0.50, one evaluation at 0.54, 0.50: by that evaluation a drop of 0.04, smoothed 0.02.
    path = at_half(0.50, 0.54, 0.50)
    assert degradation(path, 0.5).drop == pytest.approx(0.02)
    assert degradation(path, 0.5, CollapseRule(window=1)).drop == pytest.approx(0.04)


def test_a_drop_counts_when_it_exceeds_its_errors():
    # k of 100 tasks lost: mean k / 100, error sqrt(p (1 - p) / 99); 8 lost: 0.08 and 0.0273; 9: 0.09 and 0.0288.
    assert not degradation(at_half(0.5, 0.5, 0.42), 0.5).degraded
    assert degradation(at_half(0.5, 0.5, 0.41), 0.5).degraded


def test_a_gain_counts_when_it_exceeds_two_errors():
    # 3 of 100 won: 0.03 and 0.0171; 5: 0.05 and 0.0219.
    assert not degradation(at_half(0.5, 0.53), 0.5).improved
    assert degradation(at_half(0.5, 0.55), 0.5).improved


def test_a_method_that_never_succeeds_has_no_relative_drop():
    result = degradation(at_half(0.0, 0.0), 0.5)
    assert (result.drop, result.relative_drop, result.degraded) == (0.0, 0.0, False)


def test_one_task_says_nothing_of_noise():
    result = degradation(evals([(0.5, 0, 1.0), (0.5, 10, 0.0)], tasks=1), 0.5)
    assert result.drop == 1.0
    assert math.isnan(result.drop_noise)
    success = pd.Series(1.0, range(1, 21))
    assert (result.degraded, result.halved, late_fall(result, success)) == (None, None, None)
    assert collapse_step(result, success) is None
    # No drop is no fall; less than half of the peak, by whatever noise, no collapse.
    level = degradation(evals([(0.5, 0, 1.0), (0.5, 10, 1.0)], tasks=1), 0.5)
    assert (level.degraded, late_fall(level, success)) == (False, False)
    less = degradation(
        evals([(0.5, 0, 1.0), (0.5, 10, 0.6)], tasks=10), 0.5, tasks=dict.fromkeys(range(10), 0)
    )
    assert (less.degraded, less.halved, late_fall(less, success)) == (None, False, False)


def test_no_evaluation_no_degradation():
    assert degradation(at_half(0.5), 1.0) is None
    assert degradation(at_half(0.5).iloc[:0], 0.5) is None
    assert degradation(evals([(0.5, 10, 0.5), (1.0, 0, 0.5)]), 0.5) is None


def training(*parts):
    """Success of each training step from 1: parts of (steps, success)."""
    values = [value for count, value in parts for _ in range(count)]
    return pd.Series(values, index=range(1, len(values) + 1), dtype=float)


def test_the_onset_is_where_training_success_falls_for_good():
    # From 0.8 to 0 after step 10: means of five are 0.64 at step 11 and 0.48, below 0.75 x 0.8 = 0.6, at step 12.
    assert collapse_onset(training((10, 0.8), (10, 0.0))) == 12
    # A fall that recovers is none; the fall at the end begins anew: 0.64 at step 31, 0.48 at 32.
    assert collapse_onset(training((10, 0.8), (10, 0.0), (10, 0.8), (5, 0.0))) == 32
    assert collapse_onset(training((10, 0.8), (10, 0.0), (10, 0.8))) is None


def test_without_a_fall_there_is_no_onset():
    assert collapse_onset(training((4, 0.8))) is None
    assert collapse_onset(training((20, 0.0))) is None
    # The level is three quarters of 0.8.
    assert collapse_onset(training((10, 0.8), (10, 0.61))) is None
    assert collapse_onset(training((10, 0.8), (10, 0.59))) == 15
    assert collapse_onset(training((10, 0.8), (2, math.nan), (10, 0.0))) == 14


def test_a_collapse_is_a_fall_by_half_that_lasts():
    fallen = training((10, 0.8), (10, 0.0))
    half = degradation(at_half(0.4, 0.6, 0.6, 0.3), 0.5)
    assert half.relative_drop == RULE.fall == 0.5
    assert collapse_step(half, fallen) == 12
    assert collapse_step(degradation(at_half(0.4, 0.6, 0.6, 0.31), 0.5), fallen) is None
    # Training success that stays up does not show that the last evaluation lasts.
    assert collapse_step(half, training((20, 0.8))) is None
    # From 0.02 to 0 is all of it, and noise: two of 100 tasks.
    assert collapse_step(degradation(at_half(0.02, 0.02, 0.0), 0.5), fallen) is None
    assert collapse_step(None, fallen) is None


def test_the_onset_is_not_before_the_peak():
    # The peak is the mean of 0.7 and 0.75, at steps 33 and 44.
    shares = enumerate((0.4, 0.5, 0.6, 0.7, 0.75, 0.1))
    path = degradation(evals([(0.5, 11 * i, share) for i, share in shares]), 0.5)
    assert (path.peak_from, path.peak_step) == (33, 44)
    # Success of the first steps never comes back: 0.45, three quarters of 0.6, is not met from step 11 on. After step
    # 33 the largest mean is 0.42, the level 0.315; means of steps 51 and 52: (4 x 0.42 + 0.1) / 5 = 0.356, 0.292.
    success = training((6, 0.6), (44, 0.42), (5, 0.1))
    assert collapse_onset(success) == 11
    assert collapse_step(path, success) == 52
    # It may begin between the two evaluations of the peak: 0.9 to 0.5 at steps 10 and 20, then nothing. The mean of
    # step 10 is 0.8; 0.64 at step 11, 0.48 at 12.
    early = degradation(at_half(0.4, 0.9, 0.5, 0.0), 0.5)
    assert (early.peak_from, early.peak_step) == (10, 20)
    assert collapse_step(early, training((10, 0.8), (20, 0.0))) == 12


def test_a_fall_in_the_last_steps_is_neither_a_collapse_nor_none():
    path = degradation(at_half(0.75, 0.75, 0.0), 0.5)
    assert path.relative_drop == 1.0
    # Nothing in the last step only: the mean of five is 0.6, above three quarters of 0.75 = 0.5625.
    last = training((19, 0.75), (1, 0.0))
    assert (collapse_step(path, last), late_fall(path, last)) == (None, True)
    # In the last two: 0.45.
    two = training((18, 0.75), (2, 0.0))
    assert (collapse_step(path, two), late_fall(path, two)) == (20, False)
    # Too short a run for a mean.
    assert late_fall(path, training((2, 0.75), (2, 0.0)))
    # 0.6 to 0.31 is no fall by half, 0.02 to 0 is noise.
    assert not late_fall(degradation(at_half(0.6, 0.6, 0.31), 0.5), last)
    assert not late_fall(degradation(at_half(0.02, 0.02, 0.0), 0.5), last)
    assert not late_fall(None, last)

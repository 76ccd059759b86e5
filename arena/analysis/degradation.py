"""How much of its best success a cell lost by its end, whether that is more than noise, and whether it collapsed.

Three things keep noise from being called degradation. The peak is smoothed: the largest running mean of `window`
evaluations, or the start or the end if that is higher. The error of the drop is paired: every evaluation has the same
tasks, so it is that of the tasks' differences, about half of what independent draws would give (0.010 to 0.029 beside
0.036 to 0.043 on eight Sokoban cells with 256 tasks). And the drop has to exceed `errors` of them, because the
peak was picked as the largest. Episodes whose tasks have the same content count together (`arena.analysis.tasks`).
What is left of the bias, and how often a policy that does not change is called degraded: benchmarks/degradation.py.

A collapse is a fall by half that lasts. Held-out evaluations decide whether there is one; training success, which has a
value for every step, says whether it lasted and since when. Where it does not show that, as for a fall in a run's last
steps, the fall is neither a collapse nor none (`late_fall`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd


@dataclass(frozen=True)
class CollapseRule:
    """All parameters, with their reasons. Falls are shares of a peak.

    `window`: evaluations in a running mean. Two, because the CPU tier has six evaluations: three would be half of
    the run and cut off the top of what rises and collapses.
    `errors`: standard errors that a drop exceeds to be called degradation. On curves of a policy that does not change,
    0.3 % of those with 6 evaluations and 1 % of those with 28 exceed three, 6 % and 15 % two.
    `gain_errors`: the same for the gain over the start at its best temperature, which was picked as the largest
    itself, so that the gain errs downward.
    `fall`: at the end at least this share of the peak is gone. What has fallen by half is below the
    start it was given (the starts of those eight cells are at 67 to 90 % of the peak): all that was learned is lost,
    and more. Two cells of CISPO at a learning rate of 8e-4 fell by all of it, within three steps.
    `training_window`: training steps in a running mean, about a tenth of the CPU tier's steps. A step's success has a
    standard deviation of about 0.1 (128 episodes of 16 tasks), the mean of five 0.05.
    `onset_fall`: the collapse begins where the running mean of training success falls by this share for good. A quarter
    is early, so that an alarm gets no credit for the fall itself, and at high success out of reach of noise: 2 % of
    curves of 0.7 that do not change end that low. The level is relative and the noise is not, so at success 0.3 it
    is 1 %, at 0.2 8 %, at 0.1 28 %, at 0.05 50 % (128 independent episodes a step).
    That is no collapse without a fall in the evaluations, and with it none of those curves was called one.
    """

    window: int = 2
    errors: float = 3.0
    gain_errors: float = 2.0
    fall: float = 0.5
    training_window: int = 5
    onset_fall: float = 0.25


RULE = CollapseRule()


@dataclass(frozen=True)
class Degradation:
    """A cell's path at one temperature. Success is a share in [0, 1]; steps are training steps finished.

    `best_start` is the largest success of the untrained start over all temperatures evaluated at step 0:
    gains below it can be had by sampling the start differently. `peak` is smoothed (see `CollapseRule`) and never below
    start and final; `peak_from` and `peak_step` are the first and last evaluation it is a mean of. `drop_noise` and
    `gain_noise` are standard errors of drop and gain over the evaluation tasks, paired; NaN for a single task.
    """

    temperature: float
    start: float
    best_start: float
    best_start_temperature: float
    peak: float
    peak_from: int
    peak_step: int
    final: float
    final_step: int
    drop_noise: float
    gain_noise: float
    rule: CollapseRule = RULE

    @property
    def drop(self) -> float:
        """Peak minus final success, as a share (times 100: points); 0 if the end is the highest."""
        return self.peak - self.final

    @property
    def relative_drop(self) -> float:
        """The drop as a share of the peak; 0 if the peak is 0."""
        return self.drop / self.peak if self.peak > 0 else 0.0

    @property
    def gain(self) -> float:
        """Final success minus that of the start at its best temperature."""
        return self.final - self.best_start

    @property
    def degraded(self) -> bool | None:
        """Whether the drop exceeds evaluation noise; None for a drop of a single task."""
        if math.isnan(self.drop_noise) and self.drop > 0:
            return None
        return self.drop > self.rule.errors * self.drop_noise

    @property
    def halved(self) -> bool | None:
        """Whether the drop also takes `fall` of the peak; None where it does and may be noise."""
        return self.relative_drop >= self.rule.fall and self.degraded

    @property
    def improved(self) -> bool:
        """Whether the gain exceeds evaluation noise."""
        return self.gain > self.rule.gain_errors * self.gain_noise


def degradation(
    evals: pd.DataFrame, temperature: float, rule: CollapseRule = RULE, tasks: Mapping[int, int] | None = None
) -> Degradation | None:
    """Degradation of ONE cell at `temperature`, from its rows of `load_evals`.

    `tasks`: by episode, a number that episodes of the same task share (`arena.analysis.tasks.task_numbers`); without
    it every episode has a task of its own. The earliest of equal peaks counts. None if the cell has no evaluation at
    that temperature, or none of its start.
    """
    outcomes = _by_episode(evals)
    if (temperature, 0) not in outcomes.index:
        return None
    numbers = np.array([tasks[episode] if tasks else episode for episode in outcomes.columns])
    path = outcomes.loc[temperature].sort_index()
    starts = outcomes.xs(0, level="step").sort_index()
    best = _highest(starts.to_numpy())
    spans, levels = _levels(path, rule.window)
    top = _highest(levels)
    peak, final, best_start = levels[top], levels[-1], starts.to_numpy()[best]
    return Degradation(
        temperature=temperature,
        start=float(levels[0].mean()),
        best_start=float(best_start.mean()),
        best_start_temperature=float(starts.index[best]),
        peak=float(peak.mean()),
        peak_from=spans[top][0],
        peak_step=spans[top][1],
        final=float(final.mean()),
        final_step=spans[-1][1],
        drop_noise=_standard_error(peak - final, numbers),
        gain_noise=_standard_error(final - best_start, numbers),
        rule=rule,
    )


def collapse_onset(success: pd.Series, rule: CollapseRule = RULE, since: int = 0) -> int | None:
    """The first training step from which the running mean of success stays below the onset's level to the end.

    `success`: of the training episodes of ONE cell, indexed by training step. The level is (1 - onset_fall) of the
    largest running mean from step `since` on; a mean belongs to its last step, when it is known. None if the end is
    above the level, or there are fewer steps than a mean takes.
    """
    means = success.dropna().sort_index().rolling(rule.training_window).mean().dropna().loc[since:]
    high = means.index[means >= (1 - rule.onset_fall) * means.max()]
    later = means.index[means.index > high[-1]] if len(high) else high
    return int(later[0]) if len(later) else None


def collapse_step(path: Degradation | None, success: pd.Series) -> int | None:
    """The training step at which ONE cell's collapse began; None if it did not collapse.

    It collapsed if the last evaluation is below the smoothed peak by at least `fall` of it and by more than noise, and
    training success (see `collapse_onset`) fell for good, after the first evaluation that the peak is a mean of. None
    as well where it is not known whether that is more than noise (`halved`).
    """
    if path is None or not path.halved:
        return None
    return collapse_onset(success, path.rule, path.peak_from)


def late_fall(path: Degradation | None, success: pd.Series) -> bool | None:
    """Whether ONE cell's last evaluation fell as a collapse does while training success does not show that it stays.

    So it is where the fall comes in the last steps, after which no running mean is known, or after the last update.
    None where neither this nor a collapse can be judged: `halved` is not known.
    """
    return path is not None and path.halved and collapse_step(path, success) is None


def _by_episode(evals: pd.DataFrame) -> pd.DataFrame:
    """Success as 0 or 1: a row per (temperature, step), a column per episode that every evaluation has."""
    return (
        evals.assign(success=evals.success.astype(float))
        .pivot(index=["temperature", "step"], columns="episode", values="success")
        .dropna(axis="columns")
    )


def _levels(path: pd.DataFrame, window: int) -> tuple[list[tuple[int, int]], np.ndarray]:
    """Candidates for the peak, each as success by episode, and the first and last step of each.

    They are the start, the running means and the end.
    """
    outcomes = path.to_numpy()
    size = min(window, len(outcomes))
    means = np.lib.stride_tricks.sliding_window_view(outcomes, size, axis=0).mean(axis=-1)
    steps = [int(step) for step in path.index]
    spans = [(steps[0], steps[0]), *zip(steps, steps[size - 1 :], strict=False), (steps[-1], steps[-1])]
    return spans, np.vstack([outcomes[:1], means, outcomes[-1:]])


def _highest(outcomes: np.ndarray) -> int:
    """The first of the rows with the largest mean; rounding makes no difference."""
    return int(outcomes.mean(axis=1).round(12).argmax())


def _standard_error(differences: np.ndarray, tasks: np.ndarray) -> float:
    """Of the mean of paired differences, one per episode, whose tasks are independent and episodes of one are not.

    The cluster-robust error; where every episode has a task of its own, the deviation over the root of their number.
    """
    _, task = np.unique(tasks, return_inverse=True)
    sums = np.bincount(task, differences - differences.mean())
    if sums.size < 2:
        return math.nan
    return math.sqrt(sums.size / (sums.size - 1) * float((sums**2).sum())) / differences.size

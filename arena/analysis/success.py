"""Success on the evaluation tasks, and how much of the best of it a cell lost by its end."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pandas as pd

from arena.records.reader import IDENTITY


def success_by_eval(evals: pd.DataFrame) -> pd.DataFrame:
    """One row per cell, temperature and evaluation, from `load_evals`.

    Columns: env, algo, seed, temperature, step, success (share of episodes), episodes.
    """
    keys = [*IDENTITY, "temperature", "step"]
    successes = evals.assign(success=evals.success.astype(float)).groupby(keys).success
    return successes.agg(success="mean", episodes="size").reset_index()


def with_tokens(evaluations: pd.DataFrame, steps: pd.DataFrame) -> pd.DataFrame:
    """Add `tokens`: response tokens the cell had sampled for training before each evaluation, 0 at step 0."""
    sampled = steps[[*IDENTITY, "step", "tokens_sampled_total"]].rename(
        columns={"tokens_sampled_total": "tokens"}
    )
    joined = evaluations.merge(sampled, on=[*IDENTITY, "step"], how="left")
    joined.loc[joined.step == 0, "tokens"] = 0
    return joined


@dataclass(frozen=True)
class Degradation:
    """A cell's path at one temperature. Success is a share in [0, 1]; steps are training steps finished.

    `best_start` is the largest success of the untrained start over all temperatures evaluated at step 0:
    gains below it can be had by sampling the start differently. `peak` is the largest evaluation, the start
    included; as the largest of several noisy values it is biased upward, and so is the drop. `drop_noise`
    and `gain_noise` are standard errors of drop and gain if both evaluations were independent binomial
    draws.
    """

    temperature: float
    start: float
    best_start: float
    best_start_temperature: float
    peak: float
    peak_step: int
    final: float
    final_step: int
    drop_noise: float
    gain_noise: float

    @property
    def drop(self) -> float:
        """Peak minus final success, as a share (times 100: points)."""
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
    def degraded(self) -> bool:
        """Whether the drop exceeds two standard errors of evaluation noise."""
        return self.drop > 2 * self.drop_noise

    @property
    def improved(self) -> bool:
        """Whether the gain exceeds two standard errors of evaluation noise."""
        return self.gain > 2 * self.gain_noise


def degradation(evaluations: pd.DataFrame, temperature: float) -> Degradation | None:
    """Degradation of ONE cell at `temperature`, from its rows of `success_by_eval`.

    The earliest of equal peaks counts. None if the cell has no evaluation at that temperature.
    """
    path = evaluations[evaluations.temperature == temperature].sort_values("step")
    starts = evaluations[evaluations.step == 0].sort_values("temperature")
    if path.empty or starts.empty or path.step.iloc[0] != 0:
        return None
    best = starts.loc[starts.success.idxmax()]
    peak = path.loc[path.success.idxmax()]
    final = path.iloc[-1]
    return Degradation(
        temperature=temperature,
        start=float(path.success.iloc[0]),
        best_start=float(best.success),
        best_start_temperature=float(best.temperature),
        peak=float(peak.success),
        peak_step=int(peak.step),
        final=float(final.success),
        final_step=int(final.step),
        drop_noise=_noise(peak, final),
        gain_noise=_noise(best, final),
    )


def _noise(*evaluations: pd.Series) -> float:
    return math.sqrt(sum(e.success * (1 - e.success) / e.episodes for e in evaluations))

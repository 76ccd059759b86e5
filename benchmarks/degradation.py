"""What noise does to arena.analysis.degradation: curves of a policy that does not change, invented.

    python benchmarks/degradation.py

Evaluations: 256 tasks, each with its own chance of success (beta distributed with mean 0.55), so that two evaluations
agree about as much as those of Sokoban cells do (correlation over tasks 0.6). Training: 0.7 with a standard deviation
of 0.11 a step, as the last 40 steps of GRPO on Sokoban have. Printed: mean drop in points (its true value is 0), and
the share of curves called degraded at 2, 2.5 and 3 errors, by number of evaluations and window; the share of training
curves with an onset of collapse.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from arena.analysis.degradation import RULE, Rule, collapse_onset, degradation

CURVES = 1000


def evaluations(count: int, rng: np.random.Generator, tasks: int = 256) -> pd.DataFrame:
    """The `evals` rows of one cell whose policy stays as it is."""
    chance = rng.beta(0.55 * 0.65, 0.45 * 0.65, tasks)
    success = rng.random((count, tasks)) < chance
    step, episode = np.indices(success.shape)
    columns = {
        "temperature": 0.5,
        "step": step.ravel(),
        "episode": episode.ravel(),
        "success": success.ravel(),
    }
    return pd.DataFrame(columns)


def main() -> None:
    rng = np.random.default_rng(0)
    print("evaluations  window  mean drop, points  called degraded at 2, 2.5, 3 errors")
    for count in (3, 6, 12, 28):
        cells = [evaluations(count, rng) for _ in range(CURVES)]
        for window in (1, 2, 3):
            paths = [degradation(cell, 0.5, Rule(window=window)) for cell in cells]
            drops = np.array([path.drop for path in paths])
            errors = np.array([path.drop_noise for path in paths])
            shares = "  ".join(f"{np.mean(drops > z * errors):.3f}" for z in (2, 2.5, 3))
            print(f"{count:11}  {window:6}  {100 * drops.mean():17.2f}  {shares}")
    for steps in (30, 55, 100):
        curves = [pd.Series(rng.normal(0.7, 0.11, steps), range(1, steps + 1)) for _ in range(CURVES)]
        onsets = np.mean([collapse_onset(curve) is not None for curve in curves])
        print(f"{steps} training steps: {onsets:.3f} with an onset (a fall by {RULE.onset_fall} that lasts)")


if __name__ == "__main__":
    main()

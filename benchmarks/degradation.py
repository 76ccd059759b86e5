"""What noise does to arena.analysis.degradation: curves of a policy that does not change, invented.

    python benchmarks/degradation.py

Evaluations: 256 tasks, each with its own chance of success (beta distributed with mean 0.55), so that two evaluations
agree about as much as those of Sokoban cells do (correlation over tasks 0.6). Training: 0.7 with a standard deviation
of 0.11 a step, as the last 40 steps of GRPO on Sokoban have; and 128 independent episodes a step, at several levels of
success. Printed: mean drop in points (its true value is 0), and the share of curves called degraded at 2, 2.5 and 3
errors, by number of evaluations and window; the share of training curves with an onset of collapse and, where the
evaluations have their level of success, of cells called collapsed or fallen at their end; last, what FrozenLake's
evaluation tasks, which repeat, do to cells whose episodes on one lake end alike: each episode counted on its own, and
by lake as `arena.analysis.tasks` has it.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from arena.analysis.degradation import (
    RULE,
    CollapseRule,
    Degradation,
    collapse_onset,
    collapse_step,
    degradation,
    late_fall,
)
from arena.analysis.tasks import largest_error
from arena.envs import make_env
from arena.recipe import EnvConfig
from arena.seeding import eval_task_seed

CURVES = 1000


def evaluations(
    count: int,
    rng: np.random.Generator,
    tasks: int = 256,
    mean: float = 0.55,
    lakes: np.ndarray | None = None,
) -> pd.DataFrame:
    """The `evals` rows of one cell whose policy stays as it is; `lakes`: of each episode, with one outcome a lake."""
    chance = rng.beta(mean * 0.65, (1 - mean) * 0.65, tasks)
    success = rng.random((count, tasks)) < chance
    if lakes is not None:
        success = success[:, lakes]
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
            paths = [degradation(cell, 0.5, CollapseRule(window=window)) for cell in cells]
            drops = np.array([path.drop for path in paths])
            errors = np.array([path.drop_noise for path in paths])
            shares = "  ".join(f"{np.mean(drops > z * errors):.3f}" for z in (2, 2.5, 3))
            print(f"{count:11}  {window:6}  {100 * drops.mean():17.2f}  {shares}")
    for steps in (30, 55, 100):
        curves = [pd.Series(rng.normal(0.7, 0.11, steps), range(1, steps + 1)) for _ in range(CURVES)]
        onsets = np.mean([collapse_onset(curve) is not None for curve in curves])
        print(f"{steps} training steps: {onsets:.3f} with an onset (a fall by {RULE.onset_fall} that lasts)")
    low_success(rng)
    repeated_lakes(rng)


def low_success(rng: np.random.Generator, steps: int = 55, episodes: int = 128) -> None:
    """Curves of independent episodes: a step's noise shrinks less than its level."""
    print("success  with an onset  collapsed  fallen at the end  (55 steps of 128 independent episodes)")
    for mean in (0.7, 0.5, 0.3, 0.2, 0.1, 0.05):
        cells = []
        for _ in range(CURVES):
            curve = pd.Series(rng.binomial(episodes, mean, steps) / episodes, range(1, steps + 1))
            path = degradation(evaluations(6, rng, mean=mean), 0.5)
            cells.append(
                (
                    collapse_onset(curve) is not None,
                    collapse_step(path, curve) is not None,
                    late_fall(path, curve),
                )
            )
        onset, collapsed, late = np.mean(cells, axis=0)
        print(f"{mean:7}  {onset:13.3f}  {collapsed:9.3f}  {late:17.3f}")


def repeated_lakes(rng: np.random.Generator, episodes: int = 192) -> None:
    """Cells with six evaluations on the tasks of FrozenLake's seeds 0, 1, 2."""
    env = make_env(EnvConfig(name="frozen_lake", max_turns=12))
    print(
        "lakes  distinct  largest error, points  degraded: by episode, by lake  improved: by episode, by lake"
    )
    for seed in range(3):
        seen = [env.reset(seed=eval_task_seed("frozen_lake", seed, i))[0] for i in range(episodes)]
        lakes = np.unique(seen, return_inverse=True)[1]
        tasks = dict(enumerate(lakes.tolist()))
        cells = [evaluations(6, rng, len(set(seen)), lakes=lakes) for _ in range(CURVES)]
        paths = [(_path(cell), _path(cell, tasks)) for cell in cells]
        degraded = np.mean([[p.degraded for p in pair] for pair in paths], axis=0)
        improved = np.mean([[p.improved for p in pair] for pair in paths], axis=0)
        words = "  ".join(f"{share[0]:.3f}, {share[1]:.3f}" for share in (degraded, improved))
        print(f"{episodes}  {len(set(seen))}  {100 * largest_error(tasks):.1f}  {words}")


def _path(cell: pd.DataFrame, tasks: dict[int, int] | None = None) -> Degradation:
    path = degradation(cell, 0.5, tasks=tasks)
    assert path is not None
    return path


if __name__ == "__main__":
    main()

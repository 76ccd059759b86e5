"""The format penalty shrinks while the return falls.

Both are parts of what is trained on. Where the easy part is learned at the cost of the one that is wanted, the sum
can rise all the while. Means of five steps are compared with those of the five before, in standard errors by their
spread.

Constants: two standard errors on both at once, two steps in a row; healthy GRPO cells of the CPU tier reach 2.07 in
a single step. Critical, by convention: four.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from arena.analysis.degradation import RULE as COLLAPSE
from arena.analysis.detectors.base import CellRecords, Detector, Status, Verdict
from arena.analysis.detectors.causal import Bound, Rule

#: Steps whose mean is compared with that of as many before them: those of the running mean in which the onset of a
#: collapse is looked for.
STEPS = COLLAPSE.training_window

RULE = Rule(
    what="standard errors by which the format penalty of a turn shrank and the return fell (the smaller of both)",
    side="above",
    warn=Bound(limit=2),
    critical=Bound(limit=4),
    reference="none",
    skip=0,  # the first nine steps have no value
)

SQL = """
    SELECT step, avg(reward) AS gained, sum(format_penalty) / sum(turns) AS lost
    FROM episodes GROUP BY step ORDER BY step
"""


def judge(records: CellRecords) -> Verdict:
    """On the smaller of both changes by step; DEGENERATE without a format penalty."""
    means = records.query("episodes", SQL)
    assert means is not None
    if not means.lost.any():
        return Verdict(Status.DEGENERATE, "no turn has a format penalty")
    means = means.set_index("step")
    return RULE.verdict(
        pd.concat([_change(means.lost), -_change(means.gained)], axis=1).min(axis=1, skipna=False)
    )


def _change(values: pd.Series) -> pd.Series:
    """Mean of the last `STEPS` values less that of as many before, in its standard errors by their spread."""
    means, variances = values.rolling(STEPS).mean(), values.rolling(STEPS).var()
    errors = np.sqrt((variances + variances.shift(STEPS)) / STEPS)
    return (means - means.shift(STEPS)) / errors.where(errors > 0)


DETECTOR = Detector(
    name="component-divergence",
    title="The format penalty shrinks while the return falls",
    kind="statistical",
    why="The part of the reward that is easy to have is learned at the cost of the one that is wanted.",
    needs=("episodes.reward", "episodes.format_penalty", "episodes.turns"),
    advice="Lower format.penalty.",
    source="our measurement, docs/detectors.md",
    judge=judge,
)

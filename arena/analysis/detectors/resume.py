"""The run jumps as one does that was resumed without all of its state.

TODO
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from arena.analysis.detectors.base import CellRecords, Detector, Verdict
from arena.analysis.detectors.causal import WINDOW, Bound, Rule

#: Columns of `steps` that the state of policy, optimiser and sampler shows in; those recorded are looked at.
COLUMNS = ("entropy", "response_tokens_mean", "kl_ref_k3", "reward_mean", "grad_norm")
#: Of the value before, what a jump is at least measured in: metrics that hardly move jump at once.
FLOOR = 0.05

RULE = Rule(
    what="usual changes by which two or more metrics jump at once",
    side="above",
    warn=Bound(limit=8),
    critical=Bound(limit=16),
    reference="none",
    hold=1,
)


def judge(records: CellRecords) -> Verdict:
    """On the second largest jump of a step, over the columns recorded."""
    columns = [values for name in COLUMNS if (values := records.column(name)) is not None]
    jumps = np.sort(pd.concat([_jumps(values) for values in columns], axis=1).fillna(0.0).to_numpy(), axis=1)
    return RULE.verdict(pd.Series(jumps[:, -2], columns[0].index))


def _jumps(values: pd.Series) -> pd.Series:
    """Absolute changes in units of the median of the `WINDOW` before, or of `FLOOR` of the value before if larger."""
    changes = values.diff().abs()
    usual = changes.rolling(WINDOW).median().shift()
    return changes / np.maximum(usual, FLOOR * values.shift().abs())


DETECTOR = Detector(
    name="resume",
    title="The run jumps as after an incomplete resume",
    kind="statistical",
    why="A resume without optimiser state, weights or sampler state goes on from somewhere else.",
    needs=("steps.entropy", "steps.response_tokens_mean"),
    advice="Compare the step with the log: was the run resumed there, and from which checkpoint?",
    source="our measurement, docs/detectors.md",
    judge=judge,
)

"""The run shifts as one does that was resumed without all of its state.

Policy, optimiser, learning rate or sampler from elsewhere change several metrics from one step to the next, and they
stay changed; training moves them one after another. Of the logarithms of entropy, length, KL to the reference and
gradient norm the second largest shift counts, in usual deviations from the steps before. A resume that lost nothing
does not show.

Constants: healthy GRPO cells of the CPU tier reach 2.8 usual deviations two steps in a row, so three is past that.
Critical, by convention: six. Metrics that hardly move shift at once, so a deviation is at least 0.05, a twentieth of
the value.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from arena.analysis.detectors.base import CellRecords, Detector, Verdict
from arena.analysis.detectors.causal import WINDOW, Bound, Rule, last_values

#: Columns of `steps` that the state of policy, optimiser and sampler shows in; those recorded are looked at.
COLUMNS = ("entropy", "response_tokens_mean", "kl_ref_k3", "grad_norm")
#: What a shift of the logarithm is at least measured in: metrics that hardly move shift at once.
FLOOR = 0.05
#: Below this a metric is 0: the KL to the reference at the first step is rounding.
ZERO = 1e-6

RULE = Rule(
    what="usual deviations by which two or more metrics shift at once",
    side="above",
    warn=Bound(limit=3),
    critical=Bound(limit=6),
    reference="none",
)


def judge(records: CellRecords) -> Verdict:
    """On the second largest shift of a step, over the columns recorded."""
    columns = [values for name in COLUMNS if (values := records.column(name)) is not None]
    shifts = np.sort(
        pd.concat([_shifts(values) for values in columns], axis=1).fillna(0.0).to_numpy(), axis=1
    )
    return RULE.verdict(pd.Series(shifts[:, -2], columns[0].index))


def _shifts(values: pd.Series) -> pd.Series:
    """Deviations of the logarithm from the `WINDOW` values before, in the median of as many before (or `FLOOR`)."""
    logs = pd.Series(np.log(values.clip(lower=ZERO)), values.index)
    deviations = (logs - last_values(logs)).abs()
    return deviations / deviations.rolling(WINDOW).median().shift().clip(lower=FLOOR)


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

import pandas as pd

from arena.analysis.detectors.base import CellRecords, Status
from arena.analysis.detectors.nonfinite import DETECTOR


def test_a_step_that_counts_values_is_named_with_their_number():
    verdict = DETECTOR.judge(
        CellRecords(steps=pd.DataFrame({"step": [1, 2, 3, 4], "nonfinite": [0, 3, 0, 1]}))
    )
    assert (verdict.status, verdict.steps, verdict.values) == (Status.CRITICAL, (2, 4), (3.0, 1.0))
    assert verdict.summary == "4 values of 2 steps are not finite"

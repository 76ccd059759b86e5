"""The mean of an advantage within its group.

A return less its group's mean, divided by anything or not, has mean 0 over the group; so has RLOO's, which is a
multiple of it, and GiGPO's step part among the visits of an anchor. Another mean is a push that all rollouts of a task
share, whatever they did: towards everything sampled, or away from it. Not judged: rules that compare over the batch,
or with values.
"""

from __future__ import annotations

from arena.analysis.detectors.base import CellRecords, Detector, Status, Verdict
from arena.analysis.detectors.parts import WITHIN_GROUP, cannot_judge, group_parts

#: In units of the group's largest |A| where that exceeds 1: rounding of float64 sums, with room.
TOLERANCE = 1e-6


def judge(records: CellRecords) -> Verdict:
    """The steps in which a group's mean advantage is not 0, with the largest such mean."""
    if verdict := cannot_judge(records, WITHIN_GROUP, "part with mean 0 within a group"):
        return verdict
    parts = group_parts(records)
    if not parts.most.any():
        return Verdict(Status.DEGENERATE, "every advantage is 0")
    faults = parts["mean"][parts["mean"] > TOLERANCE]
    if faults.empty:
        return Verdict(Status.OK, f"the mean within each group is 0 in all {len(parts)} steps")
    return Verdict.of(
        Status.CRITICAL,
        f"the mean within a group is not 0 in {len(faults)} of {len(parts)} steps; first {faults.iloc[0]:.3g} of the "
        "group's largest |A| (of 1 where that is below 1)",
        faults,
    )


DETECTOR = Detector(
    name="advantage-mean",
    title="The advantage's mean within a group is not 0",
    kind="check",
    why="Then all rollouts of a task are pushed the same way, whatever they did.",
    needs=("recipe", "episodes.advantage"),
    advice="Look at the group ids, and at what is added after normalisation.",
    source="GRPO (arXiv 2402.03300), Dr. GRPO (arXiv 2503.20783), RLOO (arXiv 2402.14740)",
    judge=judge,
)

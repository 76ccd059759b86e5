"""Values that are not finite.

A NaN or an infinity in one token reaches every weight with the next update. Arena stores such a value as null and
counts it, and takes no optimiser step where the gradient is not finite, so a run can go on and look healthy. No
threshold: one value is one too many.
"""

from __future__ import annotations

from arena.analysis.detectors.base import CellRecords, Detector, Status, Verdict


def judge(records: CellRecords) -> Verdict:
    """The steps that count values that are not finite, with their number."""
    count = records.column("nonfinite")
    assert count is not None
    faults = count[count > 0]
    if faults.empty:
        return Verdict(Status.OK, f"all values of {len(count)} steps are finite")
    return Verdict.of(
        Status.CRITICAL, f"{faults.sum():.0f} values of {len(faults)} steps are not finite", faults
    )


DETECTOR = Detector(
    name="nonfinite",
    title="Values are not finite",
    kind="check",
    why="One NaN or infinity reaches every weight with the next update, or silently costs the update.",
    needs=("steps.nonfinite",),
    advice="Lower the learning rate; the columns that are null in the first such step say where it began.",
    source="docs/architecture.md",
    judge=judge,
)

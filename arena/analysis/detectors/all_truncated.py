"""Steps in which the token limit cut every response.

Then no response ended by itself: none parses, returns are noise, and the end token is not among the tokens trained on.
The limit is too small for what the model says, or the model does not end. One response that ended is enough for this
check to be silent: how many are cut is for the statistical detectors. Episodes that all end by the turn limit are not
judged: a weak policy's do.
"""

from __future__ import annotations

from arena.analysis.detectors.base import CellRecords, Detector, Status, Verdict


def judge(records: CellRecords) -> Verdict:
    """The steps whose share of cut responses is 1."""
    share = records.column("truncated_responses")
    assert share is not None
    faults = share[share >= 1]
    if faults.empty:
        return Verdict(Status.OK, f"responses end by themselves in all {len(share)} steps")
    return Verdict.of(
        Status.CRITICAL,
        f"the token limit cut every response of {len(faults)} of {len(share)} steps",
        faults,
    )


DETECTOR = Detector(
    name="all-truncated",
    title="Every response was cut by the token limit",
    kind="check",
    why="Nothing parses, so returns are noise, and the model is never trained to end.",
    needs=("steps.truncated_responses",),
    advice="Raise rollout.max_response_tokens, or clone behaviour longer.",
    source="our own; DAPO (arXiv 2503.14476, section 3.4) on truncated responses as noise",
    judge=judge,
)

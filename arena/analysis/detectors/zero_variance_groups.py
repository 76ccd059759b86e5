"""Most groups have one return, and not because their tasks are solved.

Such groups have no advantage: their samples are paid for and teach nothing. Healthy cells end with up to 0.94 of
them, all solved, so only steps whose return is not above that of the start count.

Constants: above 0.7 less than a third of the batch teaches, above 0.9, critical, less than a tenth. Both 1.5 times the
start, by convention: tasks may be too easy or too hard from the beginning, and that is no change of the policy. Where
two thirds have one return from the beginning, no share is 1.5 times that: then it is DEGENERATE.
"""

from __future__ import annotations

from arena.analysis.detectors.base import CellRecords, Detector, Status, Verdict
from arena.analysis.detectors.causal import Bound, Rule, first_values

FACTOR = 1.5
RULE = Rule(
    what="share of groups of one return",
    side="above",
    warn=Bound(factor=FACTOR, limit=0.7),
    critical=Bound(factor=FACTOR, limit=0.9),
)


def judge(records: CellRecords) -> Verdict:
    """On the share by step, of the steps whose return is not above that of the start."""
    share, gained = records.column("zero_spread_groups"), records.column("reward_mean")
    assert share is not None and gained is not None
    start = first_values(share.dropna()).max()
    if FACTOR * start >= 1:
        few = f"{start:.3g} of groups have one return at the start, and no share is {FACTOR:g} times that"
        return Verdict(Status.DEGENERATE, few)
    return RULE.verdict(share, gained <= first_values(gained))


DETECTOR = Detector(
    name="zero-variance-groups",
    title="Most groups have one return",
    kind="statistical",
    why="Such a group has no advantage: its samples are paid for and teach nothing.",
    needs=("steps.zero_spread_groups", "steps.reward_mean"),
    advice="Filter them (+dynamic), choose tasks that are neither always nor never solved.",
    source="DAPO (arXiv 2503.14476), dynamic sampling",
    judge=judge,
)

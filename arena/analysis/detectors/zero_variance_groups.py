"""Most groups have one return, and not because their tasks are solved.

TODO
"""

from __future__ import annotations

from arena.analysis.detectors.base import CellRecords, Detector, Verdict
from arena.analysis.detectors.causal import Bound, Rule, unless_rising

RULE = Rule(
    what="share of groups of one return",
    side="above",
    warn=Bound(factor=2, limit=0.5),
    critical=Bound(factor=2, limit=0.8),
)


def judge(records: CellRecords) -> Verdict:
    """On the share by step, of the steps whose return is not above what it was before."""
    share, gained = records.column("zero_spread_groups"), records.column("reward_mean")
    assert share is not None and gained is not None
    return RULE.verdict(share, unless_rising(gained))


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

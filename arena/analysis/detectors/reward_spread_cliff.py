"""Returns within groups stop to differ although tasks are not being solved.

RAGEN's echo trap: the spread of returns within groups falls off a cliff before the return does, because all episodes
of a group have become the same. In a run that learns it falls as well, as more tasks are always solved: only steps
whose return is not above that of the start count.

Constants, by convention: to 0.6 and, critical, to half of that of what was before within `WINDOW` steps, two in a row;
no limit, as returns have any scale.
"""

from __future__ import annotations

from arena.analysis.detectors.base import CellRecords, Detector, Verdict
from arena.analysis.detectors.causal import Bound, Rule, first_values

RULE = Rule(
    what="mean within-group standard deviation of the return",
    side="below",
    warn=Bound(factor=0.6),
    critical=Bound(factor=0.3),
    reference="before",
)


def judge(records: CellRecords) -> Verdict:
    """On the spread by step, of the steps whose return is not above that of the start."""
    spread, gained = records.column("group_reward_std"), records.column("reward_mean")
    assert spread is not None and gained is not None
    return RULE.verdict(spread, gained <= first_values(gained))


DETECTOR = Detector(
    name="reward-spread-cliff",
    title="The within-group spread of rewards falls off a cliff",
    kind="statistical",
    why="Without spread within groups there is no signal; RAGEN finds it to fall off before collapse.",
    needs=("steps.group_reward_std", "steps.reward_mean"),
    advice="Filter groups without spread (+dynamic), choose harder or easier tasks.",
    source="RAGEN (arXiv 2504.20073), echo trap",
    judge=judge,
)

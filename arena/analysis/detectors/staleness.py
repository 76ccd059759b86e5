"""The last mini-batch of a step is stale: the policy has left the samples that it is updated on.

ARLArena's staleness, measured: unequal ratios leave fewer samples than were drawn, n' = (sum w)^2 / sum w^2 of n
tokens (effective sample size). The share that the last update of a step has lost is 0 where all ratios are equal.

Constants: two steps in a row of healthy GRPO cells of the CPU tier lose at most 0.02, so 0.03 is past that; single ones
lose up to 0.19, so a fifth, critical, is past what any did, and few tokens then decide the update. Four and ten times
the start, by convention as in `out-of-band-low`.
"""

from __future__ import annotations

from arena.analysis.detectors.base import CellRecords, Detector, Status, Verdict
from arena.analysis.detectors.causal import Bound, Rule

RULE = Rule(
    what="share of its tokens that the last mini-batch has lost to unequal ratios",
    side="above",
    warn=Bound(factor=4, limit=0.03),
    critical=Bound(factor=10, limit=0.2),
)

#: 1 - (sum w)^2 / (n sum w^2) over the tokens of the last update of each step; log ratios clamped as in the loss.
SQL = """
    WITH ratios AS (
        SELECT step, epoch, minibatch, exp(greatest(-20, least(20, log_ratio::DOUBLE))) AS w
        FROM tokens WHERE log_ratio IS NOT NULL
    ),
    updates AS (
        SELECT step, epoch, minibatch, 1 - sum(w) ** 2 / (count(*) * sum(w * w)) AS lost
        FROM ratios GROUP BY step, epoch, minibatch
    )
    SELECT step, arg_max(lost, epoch * 1000000 + minibatch) AS lost FROM updates GROUP BY step ORDER BY step
"""


def judge(records: CellRecords) -> Verdict:
    """On the share by step; DEGENERATE where a step has one update, in which all ratios are 1."""
    lost = records.query("tokens", SQL)
    assert lost is not None
    if not (lost.lost > 1e-6).any():
        return Verdict(Status.DEGENERATE, "every step has one update: all ratios are 1")
    return RULE.verdict(lost.set_index("step").lost)


DETECTOR = Detector(
    name="staleness",
    title="The last mini-batches of a step are stale",
    kind="statistical",
    why="More updates on one batch lower success (ARLArena, staleness): its ratios say how few samples are left.",
    needs=("tokens.log_ratio", "tokens.epoch", "tokens.minibatch"),
    advice="Take fewer mini-batches or epochs a step, or a lower learning rate.",
    source="effective sample size of importance weights (Kong 1992); ARLArena (arXiv 2602.21534), staleness",
    judge=judge,
)

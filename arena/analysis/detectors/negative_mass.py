"""Sequences with a negative advantage that the policy makes ever less likely carry the KL.

ARLArena's driver of collapse: pushing down what was sampled has no floor, so the ratio of such a sequence falls from
mini-batch to mini-batch, its gradient does not end without a lower clip, and it takes the policy away from the
reference. There the share of the KL to the reference in sequences with A<0 and ratio<1 jumps before success falls;
entropy matters less, so both halves of it count together.

Constants: half says that this group carries more than all others together. Healthy GRPO cells of the CPU tier start
between 0.12 and 0.44; single steps reach 0.79 (few tokens can hold most of a step's KL), two in a row 0.58 and then
1.44 times the start, so 1.75 times is past that. Critical, by convention: 0.7, past those 0.58, and twice the start.
"""

from __future__ import annotations

from arena.analysis.detectors.base import CellRecords, Detector, Status, Verdict
from arena.analysis.detectors.causal import Bound, Rule
from arena.analysis.tokens import FALLING, eight_groups, falling_share

RULE = Rule(
    what="share of the KL to the reference in sequences with A<0 and ratio<1",
    side="above",
    warn=Bound(factor=1.75, limit=0.5),
    critical=Bound(factor=2, limit=0.7),
)


def judge(records: CellRecords) -> Verdict:
    """On the share by step; DEGENERATE where no sequence has both a negative advantage and a ratio below 1."""
    tokens = records.relation("tokens")
    assert tokens is not None
    groups = eight_groups(tokens)
    if not groups[groups.group.isin(FALLING)].sequences.any():
        return Verdict(Status.DEGENERATE, "no sequence has a negative advantage and a ratio below 1")
    return RULE.verdict(falling_share(groups))


DETECTOR = Detector(
    name="negative-mass",
    title="Negative advantages drive the KL",
    kind="statistical",
    why="Pushing down what was sampled has no floor: ARLArena finds this share to jump before success falls.",
    needs=("tokens.advantage", "tokens.log_ratio", "tokens.kl_ref", "tokens.entropy"),
    advice="Mask such sequences (+seqmask), clip below, or lower the learning rate.",
    source="ARLArena (arXiv 2602.21534), eight groups of its collapse diagnosis",
    judge=judge,
)

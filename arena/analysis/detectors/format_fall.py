"""Responses lose their format.

The format was cloned, it is penalised, and every healthy run keeps it. A policy that loses it forgets more than its
task; success falls with it, since what has no action does nothing.

Constants: two steps in a row of healthy GRPO cells of the CPU tier stay below 0.042 invalid; a tenth is past that.
Critical, by convention: three turns in ten. Twice the start at both levels, because larger models may begin with more
than a tenth.
"""

from __future__ import annotations

from arena.analysis.detectors.base import CellRecords, Detector, Verdict
from arena.analysis.detectors.causal import Bound, Rule

RULE = Rule(
    what="share of turns without a valid format",
    side="above",
    warn=Bound(factor=2, limit=0.1),
    critical=Bound(factor=2, limit=0.3),
)


def judge(records: CellRecords) -> Verdict:
    """On the share of turns without a valid format, by step."""
    valid = records.column("valid_format")
    assert valid is not None
    return RULE.verdict(1 - valid)


DETECTOR = Detector(
    name="format-fall",
    title="Responses lose their format",
    kind="statistical",
    why="The format was cloned; a policy that loses it forgets more than the task.",
    needs=("steps.valid_format",),
    advice="Raise format.penalty or kl.coef; lower the learning rate.",
    source="ARLArena (arXiv 2602.21534), collapse diagnosis",
    judge=judge,
)

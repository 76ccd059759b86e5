"""Responses shrink.

Tokens per turn. Thoughts die out where only the action earns, and a broken policy ends early.

Constants: the inverse of `length-blow-up`.
"""

from __future__ import annotations

from arena.analysis.detectors.base import Detector
from arena.analysis.detectors.causal import Bound, Rule

RULE = Rule(
    what="sampled tokens a turn",
    side="below",
    warn=Bound(factor=0.67),
    critical=Bound(factor=0.5),
)

DETECTOR = Detector(
    name="length-collapse",
    title="Responses shrink",
    kind="statistical",
    why="Thoughts die out where only actions are paid for, and broken formats end early.",
    needs=("steps.response_tokens_mean",),
    advice="Look at responses; weigh reasoning tokens.",
    source="RAGEN (arXiv 2504.20073), shrinking reasoning",
    judge=RULE.of_column("response_tokens_mean"),
)

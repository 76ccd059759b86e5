"""Tokens with A<0 leave the ratio band below."""

from __future__ import annotations

from arena.analysis.detectors.base import Detector
from arena.analysis.detectors.causal import Bound, Rule

RULE = Rule(
    what="share of tokens with A<0 and ratio below 0.8",
    side="above",
    warn=Bound(factor=4, limit=0.02),
    critical=Bound(factor=10, limit=0.1),
)

DETECTOR = Detector(
    name="out-of-band-low",
    title="Tokens with A<0 leave the ratio band below",
    kind="statistical",
    why="In ARLArena's collapses the share of tokens outside the clip range grows and is mostly this one.",
    needs=("steps.out_of_band_low",),
    advice="Mask sequences with A<0 and a low ratio (+seqmask), take fewer mini-batches, or lower the learning rate.",
    source="ARLArena (arXiv 2602.21534), tokens outside the clip range",
    judge=RULE.of_column("out_of_band_low"),
)

"""Tokens with A<0 leave the ratio band below.

ARLArena: in collapses the share of tokens outside the clip range grows and is mostly this one. The fixed band 0.8 to
1.2 is the same for every method, whatever its clip.

Constants: two steps in a row of healthy GRPO cells of the CPU tier stay below 0.0052 (their start has 0.0005 to
0.003), so one token in a hundred is twice that; four times the start, by convention, for runs that start higher.
Critical, by convention: one token in twenty and ten times the start.
"""

from __future__ import annotations

from arena.analysis.detectors.base import Detector
from arena.analysis.detectors.causal import Bound, Rule

RULE = Rule(
    what="share of tokens with A<0 and ratio below 0.8",
    side="above",
    warn=Bound(factor=4, limit=0.01),
    critical=Bound(factor=10, limit=0.05),
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

"""Tokens with A>0 leave the ratio band above.

The other side of `out-of-band-low`. It grows in collapses as well, but less, and alone it is the good samples that
the policy runs after.

Constants: those of `out-of-band-low`, both levels; two steps in a row of healthy GRPO cells of the CPU tier stay below
0.0022.
"""

from __future__ import annotations

from arena.analysis.detectors.base import Detector
from arena.analysis.detectors.causal import Bound, Rule

RULE = Rule(
    what="share of tokens with A>0 and ratio above 1.2",
    side="above",
    warn=Bound(factor=4, limit=0.01),
    critical=Bound(factor=10, limit=0.05),
)

DETECTOR = Detector(
    name="out-of-band-high",
    title="Tokens with A>0 leave the ratio band above",
    kind="statistical",
    why="The policy moves far within one batch; in collapses this share grows with the lower one, but less.",
    needs=("steps.out_of_band_high",),
    advice="Lower the learning rate, take fewer mini-batches, or clip above.",
    source="ARLArena (arXiv 2602.21534), tokens outside the clip range",
    judge=RULE.of_column("out_of_band_high"),
)

"""The KL to the reference jumps.

TODO
"""

from __future__ import annotations

from arena.analysis.detectors.base import Detector
from arena.analysis.detectors.causal import Bound, Rule

RULE = Rule(
    what="KL(policy || reference), k3",
    side="above",
    warn=Bound(factor=3, limit=0.1),
    critical=Bound(factor=10, limit=1),
    reference="before",
)

DETECTOR = Detector(
    name="reference-kl",
    title="The KL to the reference jumps",
    kind="statistical",
    why="The policy leaves what it was cloned from faster than it has done so far.",
    needs=("steps.kl_ref_k3",),
    advice="Raise kl.coef, lower the learning rate.",
    source="ARLArena (arXiv 2602.21534), collapse diagnosis",
    judge=RULE.of_column("kl_ref_k3"),
)

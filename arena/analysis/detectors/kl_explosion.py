"""The KL between the policies before and after a step explodes.

TODO
"""

from __future__ import annotations

from arena.analysis.detectors.base import Detector
from arena.analysis.detectors.causal import Bound, Rule

RULE = Rule(
    what="KL(behaviour || policy), k3",
    side="above",
    warn=Bound(factor=5, limit=0.01),
    critical=Bound(factor=20, limit=0.1),
)

DETECTOR = Detector(
    name="kl-explosion",
    title="The KL to the behaviour policy explodes",
    kind="statistical",
    why="A step takes the policy further than its samples can say anything about; it explodes in collapses.",
    needs=("steps.kl_behaviour_k3",),
    advice="Lower the learning rate or take fewer mini-batches; clip or mask sequences.",
    source="ARLArena (arXiv 2602.21534), collapse diagnosis",
    judge=RULE.of_column("kl_behaviour_k3"),
)

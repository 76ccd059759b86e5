"""The KL between the policies before and after a step's updates explodes.

k3 of log pi - log pi_old over all mini-batches. A healthy run keeps its level. Not k1, which cancels.

Constants: 0.03 nats a token, because of the limits tried on seed 1 of every method at both tiers
(benchmarks/detector_constants.py) that warn before five of six collapses it alarms on fewest healthy cells. Critical,
by convention, is 0.05. The factors leave room for a learning rate that is warmed up, of whose square KL is a
multiple: 5 and 20 are rates of 2.2 and 4.5 times the start's.
"""

from __future__ import annotations

from arena.analysis.detectors.base import Detector
from arena.analysis.detectors.causal import Bound, Rule

RULE = Rule(
    what="KL(behaviour || policy), k3",
    side="above",
    warn=Bound(factor=5, limit=0.03),
    critical=Bound(factor=20, limit=0.05),
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

"""The gradient norm spikes.

TODO
"""

from __future__ import annotations

from arena.analysis.detectors.base import Detector
from arena.analysis.detectors.causal import Bound, Rule

RULE = Rule(
    what="gradient norm",
    side="above",
    warn=Bound(factor=5, limit=0.5),
    critical=Bound(factor=20, limit=5),
)

DETECTOR = Detector(
    name="gradient-spikes",
    title="The gradient norm explodes",
    kind="statistical",
    why="It explodes in collapses; before that, spikes say that single batches decide where the policy goes.",
    needs=("steps.grad_norm",),
    advice="Lower the learning rate or max_grad_norm; look at the step's advantages and ratios.",
    source="ARLArena (arXiv 2602.21534), collapse diagnosis",
    judge=RULE.of_column("grad_norm"),
)

"""The gradient norm rises for good.

Norms before clipping, mean over a step's mini-batches. Single spikes are left out: the k3 loss to the reference is
heavy-tailed, and a healthy cell had 1,620 times the norm of its start for one step, without consequence.

Constants: three steps in a row of healthy GRPO cells of the CPU tier stay below 2.7 times their start, so four times is
past that. Critical, by convention: five times the warning's. No absolute limit: the norm's scale is that of the model.
"""

from __future__ import annotations

from arena.analysis.detectors.base import Detector
from arena.analysis.detectors.causal import Bound, Rule

RULE = Rule(
    what="gradient norm",
    side="above",
    warn=Bound(factor=4),
    critical=Bound(factor=20),
    hold=3,
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

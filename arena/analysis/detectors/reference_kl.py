"""The KL to the reference jumps.

It grows in a healthy run, too, so it is compared with the steps just before, not with the start. Trainers that log
no KL to the behaviour policy log this one where it is a loss.

Constants: chosen on seed 1 of every method at both tiers (benchmarks/detector_constants.py): 0.1 nats a token and four
times what was before are the largest that warn before all its collapses. Critical, by convention: 0.5, three times the
most that healthy GRPO cells of the CPU tier have in two steps in a row, and five times what was before.
"""

from __future__ import annotations

from arena.analysis.detectors.base import Detector
from arena.analysis.detectors.causal import Bound, Rule

RULE = Rule(
    what="KL(policy || reference), k3",
    side="above",
    warn=Bound(factor=4, limit=0.1),
    critical=Bound(factor=5, limit=0.5),
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

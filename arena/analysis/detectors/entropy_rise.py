"""Entropy rises.

Training sharpens a policy that learns. One whose entropy rises fast is being taken apart: what it was sure of is
pushed down, and nothing in particular is pushed up.

Constants: two steps in a row of healthy GRPO cells of the CPU tier stay below 1.34 times what was before; 1.75 leaves
room above that. Critical, by convention: three times. No limit, as entropy depends on the vocabulary.
"""

from __future__ import annotations

from arena.analysis.detectors.base import Detector
from arena.analysis.detectors.causal import Bound, Rule

RULE = Rule(
    what="token entropy",
    side="above",
    warn=Bound(factor=1.75),
    critical=Bound(factor=3),
    reference="before",
)

DETECTOR = Detector(
    name="entropy-rise",
    title="Entropy rises",
    kind="statistical",
    why="Training sharpens a policy that learns; one whose entropy rises is taken apart.",
    needs=("steps.entropy",),
    advice="Lower the learning rate; mask or clip what has a negative advantage.",
    source="our measurement, docs/detectors.md",
    judge=RULE.of_column("entropy"),
)

"""Entropy rises.

TODO
"""

from __future__ import annotations

from arena.analysis.detectors.base import Detector
from arena.analysis.detectors.causal import Bound, Rule

RULE = Rule(
    what="token entropy",
    side="above",
    warn=Bound(factor=1.5, limit=0.1),
    critical=Bound(factor=3, limit=0.5),
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

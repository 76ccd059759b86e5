"""Entropy falls off.

TODO
"""

from __future__ import annotations

from arena.analysis.detectors.base import Detector
from arena.analysis.detectors.causal import Bound, Rule

RULE = Rule(
    what="token entropy",
    side="below",
    warn=Bound(factor=0.5, limit=0.1),
    critical=Bound(factor=0.2, limit=0.02),
    reference="before",
)

DETECTOR = Detector(
    name="entropy-fall",
    title="Entropy falls off",
    kind="statistical",
    why="A policy without entropy samples the same in every episode: nothing is left to compare.",
    needs=("steps.entropy",),
    advice="Raise the sampling temperature or clip_high, add data, lower the learning rate.",
    source="DAPO (arXiv 2503.14476), entropy collapse",
    judge=RULE.of_column("entropy"),
)

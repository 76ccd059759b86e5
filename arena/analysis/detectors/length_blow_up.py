"""Responses grow long.

TODO
"""

from __future__ import annotations

from arena.analysis.detectors.base import Detector
from arena.analysis.detectors.causal import Bound, Rule

RULE = Rule(
    what="sampled tokens a turn",
    side="above",
    warn=Bound(factor=1.25),
    critical=Bound(factor=1.5),
)

DETECTOR = Detector(
    name="length-blow-up",
    title="Responses grow long",
    kind="statistical",
    why="Length that success does not follow is filler or a lost end token.",
    needs=("steps.response_tokens_mean",),
    advice="Look at responses; check that truncated ones do not earn.",
    source="our measurement, docs/detectors.md",
    judge=RULE.of_column("response_tokens_mean"),
)

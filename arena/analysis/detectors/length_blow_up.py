"""Responses grow long.

Tokens per turn. Length grows by itself where only the end token is pushed down or filler is not paid for, up to the
limit, where what is cut has no action.

Constants: two steps in a row of healthy GRPO cells of the CPU tier stay below 1.13 times their start. Half as long
again and, critical, twice as long are past that, both by convention; a model that learns to think longer reaches them
as well, and is worth a look.
"""

from __future__ import annotations

from arena.analysis.detectors.base import Detector
from arena.analysis.detectors.causal import Bound, Rule

RULE = Rule(
    what="sampled tokens a turn",
    side="above",
    warn=Bound(factor=1.5),
    critical=Bound(factor=2),
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

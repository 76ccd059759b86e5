"""Sampler and trainer disagree more and more.

The tail of |log-probability by the sampler - by the trainer|: its mean hides single tokens of which the sampled
distribution is another one, and those break runs. Arena's own sampler agrees to rounding (at most 6e-5).

Constants: critical is 0.7, the ratio 2 at which truncated importance sampling cuts off; 0.1 is a ratio of 1.1, past
the rounding of half precision for single tokens. Three and ten times the start, because kernels of two libraries never
agree: how many times is a convention.
"""

from __future__ import annotations

from arena.analysis.detectors.base import Detector
from arena.analysis.detectors.causal import Bound, Rule

RULE = Rule(
    what="largest |sampler - trainer log-probability|",
    side="above",
    warn=Bound(factor=3, limit=0.1),
    critical=Bound(factor=10, limit=0.7),
)

DETECTOR = Detector(
    name="sampler-mismatch",
    title="Sampler and trainer disagree more and more",
    kind="statistical",
    why="The policy gradient is of another policy than the one that sampled; the ratio of its tails breaks runs.",
    needs=("steps.sampler_gap_max",),
    advice="Correct by importance sampling; check that both sides have the same weights and precision.",
    source="truncated importance sampling, Yao et al. 2025 (cap 2: |log ratio| 0.69)",
    judge=RULE.of_column("sampler_gap_max"),
)

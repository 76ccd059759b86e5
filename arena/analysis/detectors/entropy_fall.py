"""Entropy falls off while the return does not rise.

A policy without entropy samples the same in every episode of a group, and no advantage is left. A fall while the
return rises is learning: a healthy TIR Math cell went to a third within its first steps. Only steps whose return is
not above that of the steps before count.

Constants: to 0.4 of what was before, because healthy GRPO cells of the CPU tier fall to 0.39 to 0.8 while they
learn. Critical, by convention: to half of that. No limit, as entropy depends on the vocabulary.
"""

from __future__ import annotations

from arena.analysis.detectors.base import CellRecords, Detector, Verdict
from arena.analysis.detectors.causal import Bound, Rule, unless_rising

RULE = Rule(
    what="token entropy",
    side="below",
    warn=Bound(factor=0.4),
    critical=Bound(factor=0.2),
    reference="before",
)


def judge(records: CellRecords) -> Verdict:
    """On entropy by step, of the steps whose return is not above what it was before."""
    entropy, gained = records.column("entropy"), records.column("reward_mean")
    assert entropy is not None and gained is not None
    return RULE.verdict(entropy, unless_rising(gained))


DETECTOR = Detector(
    name="entropy-fall",
    title="Entropy falls off",
    kind="statistical",
    why="A policy without entropy samples the same in every episode: nothing is left to compare.",
    needs=("steps.entropy", "steps.reward_mean"),
    advice="Raise the sampling temperature or clip_high, add data, lower the learning rate.",
    source="DAPO (arXiv 2503.14476), entropy collapse",
    judge=judge,
)

"""Sampler and trainer disagree.

The tail of |log-probability by the sampler - by the trainer|: its mean hides single tokens of which the sampled
distribution is another one, and those break runs. Arena's own sampler agrees to rounding (at most 8e-5).

A fault that is there from step 1 on is no change. So the mean counts as well, whatever the start: warn above 0.05,
critical above 0.1, 2 in a row from step 1 on. Where only a few tokens differ, and did from step 1 on, neither shows it.

Constants: critical is 0.7, the ratio 2 at which truncated importance sampling cuts off; 0.1 is a ratio of 1.1, past
the rounding of half precision for single tokens. Three and ten times the start, because kernels of two libraries never
agree: how many times is a convention. The mean of an engine in half precision is 0.01 to 0.04 (0.011 to 0.036 in
vllm-project/vime, issue 64; root of the mean square 0.03 to 0.04 in ServiceNow/Fast-LLM, pull request 525), so 0.05 is
past that; at 0.1 half of a clip range of 0.2 is used up before the first update.
"""

from __future__ import annotations

from arena.analysis.detectors.base import CellRecords, Detector, Status, Verdict
from arena.analysis.detectors.causal import Bound, Rule

RULE = Rule(
    what="largest |sampler - trainer log-probability|",
    side="above",
    warn=Bound(factor=3, limit=0.1),
    critical=Bound(factor=10, limit=0.7),
)
#: What no start excuses.
MEAN = Rule(
    what="mean |sampler - trainer log-probability|",
    side="above",
    warn=Bound(limit=0.05),
    critical=Bound(limit=0.1),
    reference="none",
    skip=0,
)


def judge(records: CellRecords) -> Verdict:
    """What either rule finds; the values are the largest gaps, where only the mean is at fault that. Else of `RULE`."""
    largest = RULE.of_column("sampler_gap_max")(records)
    alarms = [v for v in (MEAN.of_column("sampler_gap_mean")(records), largest) if v.alarm]
    if len(alarms) < 2:
        return alarms[0] if alarms else largest
    values = {step: value for v in alarms for step, value in zip(v.steps, v.values, strict=True)}
    steps = tuple(sorted(values))
    critical = [v.critical_step for v in alarms if v.critical_step is not None]
    return Verdict(
        Status.CRITICAL if critical else Status.WARN,
        "; ".join(v.summary for v in alarms),
        steps,
        tuple(values[step] for step in steps),
        min(critical, default=None),
    )


DETECTOR = Detector(
    name="sampler-mismatch",
    title="Sampler and trainer disagree",
    kind="statistical",
    why="The policy gradient is of another policy than the one that sampled; the ratio of its tails breaks runs.",
    needs=("steps.sampler_gap_max", "steps.sampler_gap_mean"),
    advice="Correct by importance sampling; check that both sides have the same weights, temperature and precision.",
    source="truncated importance sampling, Yao et al. 2025 (cap 2: |log ratio| 0.69)",
    judge=judge,
)

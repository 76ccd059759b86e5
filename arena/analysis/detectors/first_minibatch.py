"""Ratio 1 in the first mini-batch of every step, and KL 0 to the reference in the first of all.

The ratio is between two passes of the trainer, the one that scores the samples (`old_logprob`) and the one that
trains. There both are of the same policy, and at step 1 the reference too. Anything else means that log-probabilities
are of another temperature, other weights or other tokens, or that dropout is on. Then ratios clip what they should not,
and the KL penalty pulls from the start. What the sampler says of its tokens is not compared here: `sampler_mismatch`.
"""

from __future__ import annotations

import pandas as pd

from arena.analysis.detectors.base import CellRecords, Detector, Status, Verdict

#: Of |log ratio|. Training itself stops beyond 1e-4, or beyond 1e-6 x the largest logit where that exceeds 100
#: (arena/training/cell.py); records do not hold the logits, and this allows for 10 000. Faults are larger: of two
#: tokens with logits 1 apart, a temperature of 0.9 instead of 1 moves the likelier one's log-probability by 0.03.
LOG_RATIO = 1e-2
#: Of k3 = d^2/2 + ..., with |d| as large.
KL = LOG_RATIO**2 / 2


def judge(records: CellRecords) -> Verdict:
    """The steps at fault, with the largest |log ratio|; where only the KL is, with that."""
    ratio, kl = records.column("first_log_ratio_max"), records.column("kl_ref_k3")
    assert ratio is not None and kl is not None
    faults = ratio[ratio > LOG_RATIO]
    said = [f"|log ratio| reaches {faults.max():.2g} in the first mini-batch"] if len(faults) else []
    start = kl[(kl.index == 1) & (kl > KL)]
    if len(start):
        said.append(f"KL to the reference is {start.iloc[0]:.2g} in the first of all")
    if not said:
        return Verdict(
            Status.OK,
            f"|log ratio| is at most {ratio.max():.1g} in the first mini-batch of {len(ratio)} steps",
        )
    return Verdict.of(
        Status.CRITICAL,
        "; ".join(said),
        pd.concat([start.drop(faults.index, errors="ignore"), faults]),
    )


DETECTOR = Detector(
    name="first-minibatch",
    title="Ratio or KL are off before the first update",
    kind="check",
    why="The policy that trains is not the one that was scored, nor at step 1 the reference, so ratio, clip and KL are "
    "wrong in every step.",
    needs=("steps.first_log_ratio_max", "steps.kl_ref_k3"),
    advice="Compare temperature, dropout, padding and weights of the scoring, training and reference passes; for the "
    "sampler's see sampler-mismatch.",
    source="docs/architecture.md",
    judge=judge,
)

"""Loss weight on tokens that the policy did not sample.

Prompts and observations come from the environment. Trained on, they teach the policy to predict it, with the sign of
the advantage: a known fault of multi-turn trainers whose mask is one turn or one token off. Of such a token there is no
log-probability that a sampler drew it with. Records that leave out tokens without loss, as Arena's own do, hold none
that was not sampled where the mask is right; where it is wrong, they do not show it, so they decide nothing.
"""

from __future__ import annotations

from arena.analysis.detectors.base import CellRecords, Detector, Status, Verdict


def judge(records: CellRecords) -> Verdict:
    """The steps with weight on such tokens, with their number."""
    frame = records.query(
        "tokens",
        """
        SELECT step, count(*) AS unsampled, count(*) FILTER (weight <> 0) AS trained
        FROM tokens WHERE role IN ('prompt', 'observation') OR sampler_logprob IS NULL
        GROUP BY step ORDER BY step
        """,
    )
    assert frame is not None
    if frame.empty:
        return Verdict(Status.DEGENERATE, "the records hold sampled tokens only")
    counts = frame.set_index("step")
    faults = counts.trained[counts.trained > 0]
    if faults.empty:
        return Verdict(Status.OK, f"none of {counts.unsampled.sum()} tokens that were not sampled has weight")
    return Verdict.of(
        Status.CRITICAL,
        f"{faults.sum()} token updates in {len(faults)} steps have weight and were not sampled",
        faults,
    )


DETECTOR = Detector(
    name="unsampled-weight",
    title="Tokens that were not sampled carry loss weight",
    kind="check",
    why="Training on prompts and observations teaches the policy to predict the environment, for or against it by the "
    "sign of the advantage.",
    needs=("tokens.role", "tokens.weight", "tokens.sampler_logprob"),
    advice="Look at the mask of a row with several turns: which token is its first and its last?",
    source="docs/architecture.md; RAGEN (arXiv 2504.20073) masks observations",
    judge=judge,
)

"""Whether the end token is trained.

A response that ended by itself has its end token as the last one sampled. If a mask leaves it out (a length that is one
short, padding with the same id), the policy is never rewarded or punished for ending, and its responses grow until the
limit cuts them. Judged is each trained response that was not cut.
"""

from __future__ import annotations

from arena.analysis.detectors.base import CellRecords, Detector, Status, Verdict


def judge(records: CellRecords) -> Verdict:
    """The steps with responses that ended without a trained end token, with their number."""
    frame = records.query(
        "tokens",
        """
        WITH responses AS (
            SELECT step, episode_id, turn, bool_or(role = 'eos' AND weight <> 0) AS trained
            FROM tokens GROUP BY step, episode_id, turn
        )
        SELECT step, count(*) AS ended, count(*) FILTER (NOT trained) AS untrained
        FROM responses JOIN turns USING (step, episode_id, turn)
        WHERE NOT truncated GROUP BY step ORDER BY step
        """,
    )
    assert frame is not None
    if frame.empty:
        return Verdict(Status.DEGENERATE, "no trained response ended by itself")
    counts = frame.set_index("step")
    faults = counts.untrained[counts.untrained > 0]
    if faults.empty:
        return Verdict(Status.OK, f"each of {counts.ended.sum()} responses that ended trains its end token")
    return Verdict.of(
        Status.CRITICAL,
        f"{faults.sum()} of {counts.ended.sum()} responses that ended do not train their end token",
        faults,
    )


DETECTOR = Detector(
    name="eos-trained",
    title="The end token is not trained",
    kind="check",
    why="A policy that is not trained to end grows its responses until the limit cuts them.",
    needs=("tokens.role", "tokens.weight", "turns.truncated"),
    advice="Look at where the response mask ends, and at padding that shares the end token's id; give ActFocus an "
    "alpha above 0.",
    source="our own; docs/architecture.md",
    judge=judge,
)

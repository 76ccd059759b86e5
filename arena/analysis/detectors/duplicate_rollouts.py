"""Rollouts of a group that say exactly the same, where chance cannot.

Episodes of a group differ by what was sampled. Equal ones mean that a generator was seeded alike, or a result was
reused: the group has fewer rollouts than it counts, and its mean and deviation are wrong. A policy that is nearly
certain repeats itself honestly, however. So a rollout counts only if its own log-probability is so low that another
draw equal to it is out of the question.
"""

from __future__ import annotations

from arena.analysis.detectors.base import CellRecords, Detector, Status, Verdict

#: Nats. Another rollout of the group equals this one with probability exp(-30) = 1e-13: among a million rollouts in
#: groups of 16, at most 1.4e-6 honest copies are expected.
IMPROBABLE = -30.0
#: A token and its place as one number (ids and positions are below 2^20). DuckDB's hash of several columns is an XOR
#: of theirs, so that under a further XOR a rollout would equal one with its tokens in another order.
_PLACE = "((turn::BIGINT << 20) + position << 20) + token_id"


def judge(records: CellRecords) -> Verdict:
    """The steps with such copies, with their number."""
    frame = records.query(
        "tokens",
        f"""
        WITH rollouts AS (
            SELECT step, group_id, episode_id, count(*) AS tokens, sum(sampler_logprob) AS logprob,
                bit_xor(hash({_PLACE})) AS content
            FROM tokens WHERE epoch = 0 GROUP BY step, group_id, episode_id
        ),
        equal AS (
            SELECT step, group_id, count(*) AS rollouts FROM rollouts WHERE logprob < {IMPROBABLE}
            GROUP BY step, group_id, tokens, content
        ),
        groups AS (
            SELECT step, sum(rollouts) AS rollouts, sum(rollouts - 1) AS copies
            FROM equal GROUP BY step, group_id HAVING sum(rollouts) > 1
        )
        SELECT step, sum(rollouts) AS rollouts, sum(copies) AS copies FROM groups GROUP BY step ORDER BY step
        """,
    )
    assert frame is not None
    if frame.empty:
        return Verdict(
            Status.DEGENERATE,
            f"no group has two rollouts of log-probability below {IMPROBABLE:g}: copies could be honest",
        )
    counts = frame.set_index("step")
    faults = counts.copies[counts.copies > 0]
    total = f"{counts.rollouts.sum():.0f} rollouts of log-probability below {IMPROBABLE:g}"
    if faults.empty:
        return Verdict(Status.OK, f"no two of a group are equal among {total}")
    return Verdict.of(
        Status.CRITICAL, f"{faults.sum():.0f} of {total} are copies of another in their group", faults
    )


DETECTOR = Detector(
    name="duplicate-rollouts",
    title="Rollouts of a group are copies",
    kind="check",
    why="The group then has fewer rollouts than it counts, and what is normalised over it is wrong.",
    needs=("tokens.token_id", "tokens.sampler_logprob"),
    advice="Look at how the sampler is seeded for the episodes of a group, and at caches of responses.",
    source="our own; probabilities as recorded",
    judge=judge,
)

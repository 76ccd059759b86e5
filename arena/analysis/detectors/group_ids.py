"""Whether group and episode ids say the same everywhere.

An advantage compares the episodes of a group, so all must have played one task, all groups must be of one size, and an
episode must belong to the same group in each table. Ids shifted by one, or groups merged over rollout rounds, compare
tasks instead of rollouts, and no curve shows it.
"""

from __future__ import annotations

import pandas as pd

from arena.analysis.detectors.base import CellRecords, Detector, Status, Verdict

#: The size that most groups of the run have is the right one: a recipe alone does not say it, because single-rollout
#: methods play each task once.
_GROUPS = """
    WITH groups AS (
        SELECT step, group_id, count(*) AS size, count(DISTINCT episode_id) AS ids,
            count(DISTINCT task_seed) AS tasks
        FROM episodes GROUP BY step, group_id
    )
    SELECT step, count(*) FILTER (
        tasks > 1 OR ids < size OR size <> (SELECT mode(size) FROM groups)
    ) AS broken
    FROM groups GROUP BY step
"""
_EPISODES = """
    SELECT step, count(DISTINCT episode_id) AS broken
    FROM (
        SELECT DISTINCT step, group_id, episode_id FROM {table}
        EXCEPT SELECT step, group_id, episode_id FROM episodes
    )
    GROUP BY step
"""
_SAID = {
    "episodes": "groups with several tasks, another size or an id twice",
    "turns": "episodes of turns in no or another group",
    "tokens": "episodes of tokens in no or another group",
}


def judge(records: CellRecords) -> Verdict:
    """The steps with groups or episodes at fault, with their number. Tokens are looked at where they were recorded."""
    sql = {
        "episodes": _GROUPS,
        "turns": _EPISODES.format(table="turns"),
        "tokens": _EPISODES.format(table="tokens"),
    }
    found = {table: records.query(table, query) for table, query in sql.items()}
    counts = {table: frame.set_index("step").broken for table, frame in found.items() if frame is not None}
    total = pd.concat(counts.values()).groupby(level=0).sum()
    faults = total[total > 0]
    if faults.empty:
        return Verdict(Status.OK, f"ids agree in all {len(total)} steps")
    said = (f"{count.sum()} {_SAID[table]}" for table, count in counts.items() if count.any())
    return Verdict.of(Status.CRITICAL, "; ".join(said), faults)


DETECTOR = Detector(
    name="group-ids",
    title="Group ids are inconsistent",
    kind="check",
    why="An advantage compares the episodes of a group: with wrong ids it compares tasks, not rollouts.",
    needs=("episodes.group_id", "episodes.task_seed", "turns.group_id"),
    advice="Look at how ids are given over groups, episodes and rollout rounds.",
    source="docs/architecture.md, records",
    judge=judge,
)

"""Training tasks among the evaluation tasks.

Success on a task that was trained on does not say what the policy can do. Compared are task seeds, which is what
records hold; that the two splits also differ in content is the environment's duty.
"""

from __future__ import annotations

from arena.analysis.detectors.base import CellRecords, Detector, Status, Verdict


def judge(records: CellRecords) -> Verdict:
    """The steps that train on evaluation tasks, with the number of such episodes."""
    seeds = sorted({int(seed) for seed in records.evals.task_seed.dropna()})
    frame = records.query(
        "episodes",
        f"""
        SELECT step, count(*) FILTER (task_seed IN ({", ".join(map(str, seeds))})) AS shared
        FROM episodes GROUP BY step ORDER BY step
        """,
    )
    assert frame is not None
    counts = frame.set_index("step").shared
    faults = counts[counts > 0]
    if faults.empty:
        return Verdict(Status.OK, f"none of {len(seeds)} evaluation tasks is trained on")
    return Verdict.of(
        Status.CRITICAL,
        f"{faults.sum()} training episodes of {len(faults)} steps have a task of the evaluation",
        faults,
    )


DETECTOR = Detector(
    name="eval-overlap",
    title="Evaluation tasks are trained on",
    kind="check",
    why="Success on tasks that were trained on does not say what the policy can do on others.",
    needs=("episodes.task_seed", "evals.task_seed"),
    advice="Look at how the environment draws the tasks of the two splits.",
    source="docs/architecture.md",
    judge=judge,
)

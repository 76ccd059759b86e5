"""Fake jobs whose cells have evaluations: success by method and learning rate, from a table."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from arena.launch.jobs import Job
from arena.launch.worker import Report
from tests.launch import fake_jobs
from tests.synthetic import write_table

EPISODES = 10
#: (method, learning rate) -> for each seed, 1000 and 1001, the successes of EPISODES at steps 9 and 10.
SUCCESSES = {
    ("grpo", 3e-4): ((5, 5), (5, 5)),
    ("grpo", 6e-4): ((6, 8), (6, 8)),
    ("grpo", 1.2e-3): ((10, 4), (9, 5)),
    ("cispo", 3e-4): ((7, 7), (7, 7)),
    ("cispo", 6e-4): ((7, 7), (7, 6)),
    ("cispo", 1.2e-3): ((0, 0), (0, 0)),
}


def run(job: Job, report: Report) -> None:
    """As `fake_jobs.run`; before it is done a cell has evaluations at steps 0, 8, 9 and 10."""
    if job.kind == "cell":
        _write_evals(job)
    fake_jobs.run(job, report)


def _write_evals(job: Job) -> None:
    late = SUCCESSES[job.algorithm, job.recipe.optim.learning_rate][job.seed - 1000]
    evaluations = [(0, 0.5, 1), (8, 0.5, 0), (9, 0.5, late[0]), (10, 0.5, late[1]), (10, 1.0, 1)]
    write_evals(job, evaluations, EPISODES)


def write_evals(job: Job, evaluations: Sequence[tuple[int, float, int]], episodes: int) -> None:
    """`evals` with those (step, temperature, successes), which are the first of the `episodes`."""
    rows = [
        {"step": step, "temperature": temperature, "episode": episode, "success": episode < successes}
        for step, temperature, successes in evaluations
        for episode in range(episodes)
    ]
    write_table(job.directory / "evals.parquet", "evals", pd.DataFrame(rows))

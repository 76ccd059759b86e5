"""Fake jobs of a stress test on FrozenLake: how cells end, by method and factors, from a table."""

from __future__ import annotations

import pandas as pd

from arena.launch.jobs import Job
from arena.launch.worker import Report
from tests.launch import fake_jobs
from tests.launch.scored_jobs import write_evals
from tests.synthetic import write_table

EPISODES = 100
LEARNING_RATE = 6e-4
#: (method, factor of the learning rate, of the updates) -> for seeds 0, 1, 2 the final successes of EPISODES. The start
#: has 50 and the middle of the run 60, so the smoothed peak is 55, or the end if that is higher: 20 is a collapse, 40
#: less than the start, 70 a gain. Missing: cells beyond a failure, which fail the test if they are run.
ENDS = {
    ("grpo", 1, 1): (70, 70, 70),
    ("grpo", 2, 1): (70, 70, 40),
    ("grpo", 4, 1): (20, 70),
    ("grpo", 1, 2): (70, 70, 20),
    ("grpo", 2, 2): (70, 20),
    ("grpo", 4, 2): (70,),
    ("cispo", 1, 1): (20, 20, 20),
    ("cispo", 1, 2): (20, 40, 20),
}


def run(job: Job, report: Report) -> None:
    """As `fake_jobs.run`; before it is done a cell has evaluations at steps 0, 10 and 20, and 20 training steps."""
    if job.kind == "cell":
        factor = round(job.recipe.optim.learning_rate / LEARNING_RATE)
        end = ENDS[job.algorithm, factor, job.recipe.optim.epochs][job.seed]
        write_evals(job, [(0, 0.5, 50), (10, 0.5, 60), (20, 0.5, end)], EPISODES)
        success = [0.6] * 10 + [end / EPISODES] * 10
        write_table(
            job.directory / "steps.parquet",
            "steps",
            pd.DataFrame({"step": range(1, 21), "success": success, "updates": 4, "skipped_updates": 0}),
        )
    fake_jobs.run(job, report)

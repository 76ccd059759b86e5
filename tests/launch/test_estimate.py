"""Estimates grow with the work, follow what was measured, and add up to the wall time of the workers."""

import json
from pathlib import Path

import pytest

from arena.launch import estimate
from arena.launch.estimate import Task, makespan
from arena.launch.jobs import Job
from arena.recipe import resolve
from arena.records.files import JobStatus, write_status
from arena.records.writer import write_rows


def cell(runs: Path, **overrides) -> Job:
    return Job("cell", resolve("cpu", "frozen_lake", "grpo", 0, overrides), runs / "r")


def start(key: str, seconds: float) -> Task:
    return Task(Path(key), seconds)


def after(key: str, seconds: float, needs: str) -> Task:
    return Task(Path(key), seconds, Path(needs))


@pytest.mark.parametrize(
    ("tasks", "free", "seconds"),
    [
        ([], [0.0, 0.0], 0.0),
        ([start("a", 3), start("b", 4)], [0.0], 7.0),
        ([start("a", 3), start("b", 4)], [0.0, 0.0], 4.0),
        ([start("a", 3), after("c", 2, "a"), after("d", 2, "a")], [0.0, 0.0], 5.0),
        # b's cell is ready at 1; the other worker sleeps till a's start is done at 10.
        ([start("a", 10), start("b", 1), after("c", 2, "a"), after("d", 3, "b")], [0.0, 0.0], 12.0),
        ([after("c", 2, "finished earlier")], [0.0], 2.0),
        ([start("a", 1)], [5.0, 7.0], 7.0),
    ],
)
def test_makespan(tasks, free, seconds):
    assert makespan(tasks, free) == seconds


def test_more_work_takes_more(tmp_path):
    base = estimate.of(cell(tmp_path))
    for more in (
        {"steps": 80},
        {"rollout": {"groups": 32}},
        {"rollout": {"group_size": 16}},
        {"optim": {"epochs": 4}},
        {"model": {"hidden_size": 128}},
    ):
        grown = estimate.of(cell(tmp_path, **more))
        assert grown.seconds > base.seconds, more
        assert grown.bytes > base.bytes, more
    assert estimate.of(cell(tmp_path, record={"enabled": False})).bytes < base.bytes / 5
    assert base.source == "built-in constants"


def test_steps_that_are_done_are_not_counted_unless_all_is_done_again(tmp_path):
    job = cell(tmp_path, steps=40)
    write_status(job.directory, JobStatus("running", job.hash, 30, 40))
    whole = estimate.of(job).seconds
    assert [task.seconds for task in estimate.tasks([job])] == [pytest.approx(whole / 4)]
    assert [task.seconds for task in estimate.tasks([job], fresh=True)] == [pytest.approx(whole)]


def test_earlier_cells_of_tier_and_environment_correct_the_estimate(tmp_path):
    modelled = estimate.of(cell(tmp_path / "empty", steps=10))
    job = cell(tmp_path / "runs", steps=10)
    job.directory.mkdir(parents=True)
    (job.run / "manifest.json").write_text("{}")
    (job.directory / "recipe.json").write_text(json.dumps(job.recipe.model_dump(mode="json") | {"hash": "x"}))
    per_step = 3 * modelled.seconds / 10
    write_rows(
        job.directory / "steps.parquet", "steps", [{"step": k, "seconds_step": per_step} for k in range(10)]
    )
    size = sum(p.stat().st_size for p in job.directory.iterdir())

    measured = estimate.of(job)
    assert measured.seconds == pytest.approx(3 * modelled.seconds)
    assert measured.bytes == pytest.approx(size)
    assert measured.source == "earlier cells"
    twice = estimate.of(cell(tmp_path / "runs", steps=20))
    assert twice.seconds == pytest.approx(3 * estimate.of(cell(tmp_path / "empty", steps=20)).seconds)
    other = Job("cell", resolve("cpu", "sokoban", "grpo", 0), job.run)
    assert estimate.of(other).source == "built-in constants"

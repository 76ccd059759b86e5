"""What a person reads while a run goes on."""

import io
from pathlib import Path

import pytest
from rich.console import Console

from arena.launch.estimate import Task
from arena.launch.jobs import Job, Progress
from arena.launch.progress import Clock, LiveDisplay, PlainDisplay, clock_text, make_display
from arena.recipe import resolve


def cell(algorithm: str = "grpo", seed: int = 0) -> Job:
    return Job("cell", resolve("cpu", "frozen_lake", algorithm, seed, {"steps": 40}), Path("r"))


def start() -> Job:
    return Job("start", cell().recipe, Path("r"))


@pytest.fixture
def now(monkeypatch):
    """A clock that stands still until `now[0]` is set."""
    time = [0.0]
    monkeypatch.setattr("arena.launch.progress.time.monotonic", lambda: time[0])
    return time


def test_time_left_of_a_job_follows_its_own_pace(now):
    clock = Clock([], 1)
    job = cell()
    clock.start(job)
    now[0] = 20.0  # imports: not its pace
    running = clock.progress(job, Progress(1, 40, 0.2))
    assert clock.left(running) is None
    now[0] = 30.0
    running = clock.progress(job, Progress(6, 40, None))
    assert clock.left(running) == pytest.approx(34 * 2.0)
    assert running.success == 0.2
    now[0] = 31.0
    assert clock.left(running) == pytest.approx(34 * 2.0 - 1)


def test_time_left_in_all_counts_waiting_jobs_as_they_really_take(now):
    first, second, third = cell(seed=0), cell(seed=1), cell(seed=2)
    tasks = [Task(job.directory, 100.0, job.needs) for job in (first, second, third)]
    clock = Clock(tasks, 1)
    assert clock.left_in_all() == pytest.approx(300)
    clock.start(first)
    now[0] = 50.0
    clock.end(first, "done")
    assert clock.left_in_all() == pytest.approx(100)  # cells take half of what was estimated
    clock.start(second)
    now[0] = 60.0
    assert clock.left_in_all() == pytest.approx(50 + 40)


def test_a_job_that_had_next_to_nothing_left_corrects_no_estimate(now):
    first, second = cell(seed=0), cell(seed=1)
    clock = Clock([Task(first.directory, 0.0, first.needs), Task(second.directory, 100.0, second.needs)], 1)
    clock.start(first)
    now[0] = 3.0  # to save its model
    clock.end(first, "done")
    assert clock.left_in_all() == pytest.approx(100)


def test_plain_lines_are_few_and_say_what_happened(now):
    stream = io.StringIO()
    display = PlainDisplay(stream, Clock([], 1))
    job = cell()
    display.started(job, 0)
    for step in range(1, 41):
        now[0] += 1
        display.progress(job, Progress(step, 40, step / 100))
    display.ended(job, "done", None)
    lines = [line.split("  ", 1)[1] for line in stream.getvalue().splitlines()]

    assert lines[0] == "frozen_lake/grpo/seed-0  started"
    assert lines[1] == "frozen_lake/grpo/seed-0  step 5/40  success 0.05  0:35 left"
    assert lines[-1].startswith("frozen_lake/grpo/seed-0  done in 0:40  success 0.40  [1 of 0 jobs ended")
    assert len(lines) <= 12


def test_plain_lines_tell_of_demonstrations_and_evaluations_that_take_long(now):
    stream = io.StringIO()
    job = start()
    display = PlainDisplay(stream, Clock([Task(job.directory, 100.0)], 1))
    display.started(job, 0)
    for episode in range(0, 50, 2):
        now[0] += 1.0
        display.progress(job, Progress(episode, 50, None, "demonstrations"))
    assert display.clock.left_in_all() == pytest.approx(75)  # of the estimate, for steps are still to come
    for step in range(3):
        now[0] += 1.0
        display.progress(job, Progress(step + 1, 4, None))
        display.tick()
    display.progress(job, Progress(4, 4, None, "evaluation"))
    for _ in range(30):
        now[0] += 1.0
        display.tick()
    lines = [line.split("  ", 1)[1] for line in stream.getvalue().splitlines()]
    assert lines == [
        f"frozen_lake/bc/seed-0  {text}"
        for text in (
            "started",
            "demonstrations 18/50  0:16 left",
            "demonstrations 38/50  0:06 left",
            "step 2/4  0:02 left",
            "step 3/4  0:01 left",
            "evaluating",
        )
    ]


def test_an_evaluation_leaves_the_pace_of_steps_alone(now):
    clock = Clock([], 1)
    job = cell()
    clock.start(job)
    for step in (1, 2, 3):
        now[0] += 2.0
        running = clock.progress(job, Progress(step, 40, 0.2))
    now[0] += 1.0
    running = clock.progress(job, Progress(3, 40, 0.2, "evaluation"))
    assert (running.step, clock.left(running)) == (3, pytest.approx(37 * 2.0 - 1))


def test_live_display_fits_eighty_columns(now):
    stream = io.StringIO()
    console = Console(file=stream, width=80, height=24, force_terminal=True, color_system=None)
    jobs = [cell("grpo"), cell("sampo+seqmask+actfocus:alpha=0.3+gigpo:omega=0.5")]
    display = LiveDisplay(console, Clock([Task(j.directory, 10.0, j.needs) for j in jobs], 2))
    display.open()
    for job in jobs:
        display.started(job, 0)
        display.progress(job, Progress(1, 40, 0.25))
        now[0] += 10
        display.progress(job, Progress(2, 40, 0.25))
    display.tick()
    shown = console.render_lines(display._render(), console.options)
    display.progress(jobs[0], Progress(2, 40, 0.25, "evaluation"))
    (evaluating, *_) = console.render_lines(display._render(), console.options)
    display.ended(jobs[0], "failed", "RuntimeError: " + "a long reason " * 20)
    display.ended(jobs[1], "done", None)
    display.close()

    rows = ["".join(segment.text for segment in line) for line in shown]
    assert rows[0].split()[0] == "frozen_lake/grpo/seed-0"
    assert rows[0].split()[-3:] == ["2/40", "0.25", "6:10"]
    assert "".join(segment.text for segment in evaluating).split()[-3:] == ["2/40", "eval", "6:10"]
    assert rows[1].startswith("frozen_lake/samp…")
    assert "omega=0.5/seed-0" in rows[1]
    assert rows[2].startswith("0 of 2 jobs ended")
    assert all(len(row) <= 80 for row in rows)
    ended = [line for line in stream.getvalue().splitlines() if "failed" in line and "✗" in line]
    assert len(ended) == 1
    assert "RuntimeError: a long reason" in ended[0]


def test_a_pipe_gets_plain_lines():
    assert isinstance(make_display([], 1, io.StringIO()), PlainDisplay)


@pytest.mark.parametrize(
    ("seconds", "text"), [(None, "-:--"), (0, "0:00"), (65.4, "1:05"), (7210, "2:00:10")]
)
def test_clock_text(seconds, text):
    assert clock_text(seconds) == text

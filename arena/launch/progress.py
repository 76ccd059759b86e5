"""What a person sees while a run goes on: a live display on a terminal, plain lines elsewhere.

Both show each job's step, latest success and time left, and the time left over all; only the drawing differs.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TextIO

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from arena.launch.estimate import Task, makespan
from arena.launch.jobs import Job, Progress
from arena.launch.manifest import JobState
from arena.training import Phase

#: Widths of the live lines: 34 + 14 + 9 + 6 + 9 and four gaps of one make 76 columns.
_LABEL, _BAR, _STEP, _SUCCESS, _LEFT = 34, 14, 9, 6, 9

#: Seconds between redraws, and the share of a job between two plain lines.
_REDRAW = 0.5
_PLAIN_SHARE = 0.1
#: Seconds without a line of a job after which a log says that it collects demonstrations or evaluates.
_PLAIN_PATIENCE = 10.0
#: Estimated seconds of ended jobs from which on what they took corrects the others' estimates.
_LEAST_ESTIMATED = 1.0

#: What stands in the place of the success while a job is not at its steps.
_PHASES = {"demonstrations": "demos", "evaluation": "eval"}


class Display(Protocol):
    """What the launcher tells the display."""

    def open(self) -> None: ...
    def started(self, job: Job, step: int) -> None: ...
    def progress(self, job: Job, news: Progress) -> None: ...
    def ended(self, job: Job, state: JobState, error: str | None) -> None: ...
    def tick(self) -> None: ...
    def close(self) -> None: ...


def make_display(tasks: Sequence[Task], workers: int, stream: TextIO | None = None) -> Display:
    """Live if `stream` (stderr) is a terminal, else plain. `tasks` are the estimates of the jobs to run."""
    stream = stream or sys.stderr
    console = Console(file=stream)
    live = console.is_terminal and not console.is_dumb_terminal
    return (
        LiveDisplay(console, Clock(tasks, workers)) if live else PlainDisplay(stream, Clock(tasks, workers))
    )


@dataclass
class _Running:
    """A job on a worker. `first` is its first report of its phase: what comes before is not its pace; `heard` the time
    of its last one, `counts` what `step` counts."""

    job: Job
    begun: float
    step: int
    steps: int
    phase: Phase = "steps"
    counts: Phase = "steps"
    heard: float = 0.0
    first: tuple[float, int] | None = None
    last: tuple[float, int] | None = None
    success: float | None = None


class Clock:
    """Time left: from its own pace for a running job, from the plan's estimates for a waiting one.

    Estimates are corrected by how long jobs of the same kind have really taken so far.
    """

    def __init__(self, tasks: Sequence[Task], workers: int) -> None:
        self.tasks = {task.key: task for task in tasks}
        self.waiting = dict(self.tasks)
        self.running: dict[Path, _Running] = {}
        self.workers = workers
        self.ended = 0
        self.failed = 0
        self.begun = time.monotonic()
        #: Of the starts and of the cells that ended: seconds taken, and estimated.
        self._took: dict[bool, tuple[float, float]] = {True: (0.0, 0.0), False: (0.0, 0.0)}

    def start(self, job: Job, step: int = 0) -> None:
        """A worker took the job, of which `step` steps are done."""
        self.waiting.pop(job.directory, None)
        self.running[job.directory] = _Running(job, time.monotonic(), step, job.steps)

    def progress(self, job: Job, news: Progress) -> _Running:
        """The job reported."""
        state = self.running[job.directory]
        state.heard = time.monotonic()
        if news.phase != "evaluation":  # which is part of the pace of steps
            state.last = (state.heard, news.step)
            if state.first is None or news.phase != state.counts:
                state.first, state.counts = state.last, news.phase
            state.step, state.steps = news.step, news.steps
        state.phase = news.phase
        state.success = state.success if news.success is None else news.success
        return state

    def end(self, job: Job, state: JobState) -> _Running | None:
        """The job ended, or will never start."""
        self.waiting.pop(job.directory, None)
        self.ended += 1
        self.failed += state == "failed"
        running = self.running.pop(job.directory, None)
        task = self.tasks.get(job.directory)
        if running and task and state == "done":
            took, estimated = self._took[task.needs is None]
            now = time.monotonic()
            self._took[task.needs is None] = (took + now - running.begun, estimated + task.seconds)
        return running

    def left(self, running: _Running) -> float | None:
        """Seconds left of what `counts` counts of a running job; None before its pace is known."""
        if running.first is None or running.last is None or running.last[1] <= running.first[1]:
            return None
        (t0, step0), (t1, step1) = running.first, running.last
        pace = (t1 - t0) / (step1 - step0)
        return max(0.0, (running.steps - step1) * pace - (time.monotonic() - t1))

    def left_in_all(self) -> float:
        """Seconds until the last job ends."""
        free = [self._left_or_expected(r) for r in self.running.values()]
        free += [0.0] * max(0, self.workers - len(free))
        return makespan([Task(t.key, self._expected(t), t.needs) for t in self.waiting.values()], free)

    def _left_or_expected(self, running: _Running) -> float:
        left = None if running.counts == "demonstrations" else self.left(running)
        task = self.tasks.get(running.job.directory)
        if left is not None or task is None:
            return left or 0.0
        return max(0.0, self._expected(task) - (time.monotonic() - running.begun))

    def _expected(self, task: Task) -> float:
        took, estimated = self._took[task.needs is None]
        return task.seconds * (took / estimated if estimated > _LEAST_ESTIMATED else 1.0)


class PlainDisplay:
    """Lines for logs: one when a job starts or ends, one about every tenth of its steps, and for demonstrations and
    evaluations that take long."""

    def __init__(self, stream: TextIO, clock: Clock) -> None:
        self.stream = stream
        self.clock = clock
        self._shown: dict[tuple[str, Phase], float] = {}
        self._spoke: dict[str, float] = {}

    def open(self) -> None:
        """Nothing to prepare."""

    def started(self, job: Job, step: int) -> None:
        """One line."""
        self.clock.start(job, step)
        self._say(job, f"resumed after step {step}" if step else "started")

    def progress(self, job: Job, news: Progress) -> None:
        """One line about every tenth of the steps, and of demonstrations that take long."""
        running = self.clock.progress(job, news)
        share, key = news.step / max(1, news.steps), (job.label, news.phase)
        before = self._shown.setdefault(key, share if news.step < news.steps else 0.0)
        patience = 0.0 if news.phase == "steps" else _PLAIN_PATIENCE
        due = news.step < news.steps and share - before >= _PLAIN_SHARE
        if due and news.phase != "evaluation" and time.monotonic() - self._spoke[job.label] >= patience:
            self._shown[key] = share
            what = "step" if news.phase == "steps" else news.phase
            left = f"  {clock_text(self.clock.left(running))} left"
            self._say(job, f"{what} {news.step}/{news.steps}{_success_text(running.success)}{left}")

    def ended(self, job: Job, state: JobState, error: str | None) -> None:
        """One line, with the time left over all."""
        running = self.clock.end(job, state)
        took = f" in {clock_text(time.monotonic() - running.begun)}" if running else ""
        why = f": {error}" if error else _success_text(running.success if running else None)
        self._say(job, f"{state}{took}{why}  [{_overall_text(self.clock)}]")

    def tick(self) -> None:
        """One line for an evaluation that takes long."""
        before = time.monotonic() - _PLAIN_PATIENCE
        for running in self.clock.running.values():
            if running.phase == "evaluation" and self._spoke[running.job.label] <= running.heard <= before:
                self._say(running.job, "evaluating")

    def close(self) -> None:
        """Nothing is held."""

    def _say(self, job: Job, text: str) -> None:
        self._spoke[job.label] = time.monotonic()
        with suppress(OSError):  # a log that nobody reads or that has no room must not end the run
            print(f"{time.strftime('%H:%M:%S')}  {job.label}  {text}", file=self.stream, flush=True)


class LiveDisplay:
    """A bar per running job and one line for the whole; ended jobs scroll up as lines of their own."""

    def __init__(self, console: Console, clock: Clock) -> None:
        self.console = console
        self.clock = clock
        self._live = Live(console=console, auto_refresh=False, get_renderable=self._render, transient=True)
        self._drawn = 0.0

    def open(self) -> None:
        """Begin drawing."""
        self._live.start()

    def started(self, job: Job, step: int) -> None:
        """Its bar appears."""
        self.clock.start(job, step)
        self._draw()

    def progress(self, job: Job, news: Progress) -> None:
        """Its bar moves at the next redraw."""
        self.clock.progress(job, news)

    def ended(self, job: Job, state: JobState, error: str | None) -> None:
        """Its bar becomes a line above."""
        running = self.clock.end(job, state)
        took = clock_text(time.monotonic() - running.begun) if running else ""
        colour = {"done": "green", "failed": "red"}.get(state, "yellow")
        detail = error or (_success_text(running.success).strip() if running else "")
        mark = {"done": "✓", "failed": "✗"}.get(state, "·")
        line = Text.assemble(
            (f"{mark} ", colour), f"{_fit(job.label, _LABEL)} ", (state, colour), f"  {took}  ", detail
        )
        with suppress(OSError):
            self.console.print(line, no_wrap=True, overflow="ellipsis", crop=True, highlight=False)
        self._draw()

    def tick(self) -> None:
        """Redraw, at most twice a second."""
        if time.monotonic() - self._drawn >= _REDRAW:
            self._draw()

    def close(self) -> None:
        """Leave the terminal as it was, without the bars."""
        with suppress(OSError):
            self._live.stop()

    def _draw(self) -> None:
        self._drawn = time.monotonic()
        with suppress(OSError):  # the terminal may be gone
            self._live.refresh()

    def _render(self) -> Group:
        grid = Table.grid(padding=(0, 1, 0, 0))
        for width in (_LABEL, _BAR, _STEP, _SUCCESS, _LEFT):
            grid.add_column(width=width, no_wrap=True, justify="left" if width in (_LABEL, _BAR) else "right")
        for running in self.clock.running.values():
            grid.add_row(*self._row(running))
        return Group(grid, Text(_overall_text(self.clock), style="dim"))

    def _row(self, running: _Running) -> tuple[Text | ProgressBar, ...]:
        success = "" if running.success is None else f"{running.success:.2f}"
        return (
            Text(_fit(running.job.label, _LABEL)),
            ProgressBar(total=max(1, running.steps), completed=running.step, width=_BAR),
            Text(f"{running.step}/{running.steps}"),
            Text(_PHASES.get(running.phase, success), style="cyan"),
            Text(clock_text(self.clock.left(running)), style="dim"),
        )


def _fit(label: str, width: int) -> str:
    """The label in `width` columns; a long one loses its middle, for its ends tell cells apart."""
    if len(label) <= width:
        return label.ljust(width)
    tail = width // 2
    return f"{label[: width - tail - 1]}…{label[-tail:]}"


def _success_text(success: float | None) -> str:
    return "" if success is None else f"  success {success:.2f}"


def _overall_text(clock: Clock) -> str:
    failed = f", {clock.failed} failed" if clock.failed else ""
    spent = clock_text(time.monotonic() - clock.begun)
    left = clock_text(clock.left_in_all())
    return f"{clock.ended} of {len(clock.tasks)} jobs ended{failed}, {spent} spent, about {left} left"


def clock_text(seconds: float | None) -> str:
    """`1:05`, `2:00:10`; `-:--` where it is not known."""
    if seconds is None:
        return "-:--"
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02}:{second:02}" if hours else f"{minute}:{second:02}"

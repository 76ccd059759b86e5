"""Runs a plan on this machine: persistent worker processes, one job at a time each.

A cell waits for its BC start. A job that raises, or whose worker dies, fails with its reason while the others
go on; the worker is replaced. On a signal the workers are stopped and the run can be resumed. Workers share
the run's lock and end with the launcher: a run folder never has two writers, no process is left behind.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from pathlib import Path

import arena
from arena.launch import folder
from arena.launch.jobs import Done, Failed, Job, Message, Progress
from arena.launch.manifest import JobState, Manifest, now, open_manifest, says_done
from arena.launch.plan import Plan, check_existing
from arena.launch.progress import Display
from arena.launch.worker import TRAIN, reason_of
from arena.records.files import JobStatus, read_status, write_status, write_text

#: One thread per worker, in every library that may start its own; set before the worker imports any.
_ONE_THREAD = dict.fromkeys(
    (
        "OMP_NUM_THREADS",
        "MKL_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
        "NUMEXPR_NUM_THREADS",
        "VECLIB_MAXIMUM_THREADS",
    ),
    "1",
) | {"TOKENIZERS_PARALLELISM": "false"}

#: Seconds between looks at signals, dead workers and the display.
_TICK = 0.2
#: Seconds that a worker has to end after SIGTERM before it is killed.
_GRACE = 5.0


@dataclass(frozen=True)
class LaunchResult:
    """How a launch ended: the jobs that failed with their reasons, and the signal that stopped it, if any."""

    failures: Mapping[str, str]
    stopped_by: signal.Signals | None = None

    @property
    def exit_code(self) -> int:
        """0 if every job of the plan is done, else 1."""
        return 1 if self.failures or self.stopped_by else 0


@dataclass(frozen=True)
class Setup:
    """How to run a plan. `execute` is the job function, "module:function"; `reuse` are other runs; `lock` is the file
    descriptor of the run's lock, if the caller holds it."""

    workers: int
    command: str
    fresh: bool = False
    reuse: tuple[Path, ...] = ()
    execute: str = TRAIN
    lock: int | None = None


def pending(plan: Plan, reuse: Sequence[Path] = (), fresh: bool = False) -> list[Job]:
    """The jobs that a launch would run: cells not finished here or in `reuse`, and the starts they need."""
    cells = [c for c in plan.cells if not _available(c, reuse, fresh)]
    needed = {c.needs for c in cells}
    return [s for s in plan.starts if s.directory in needed and not _available(s, reuse, fresh)] + cells


def _available(job: Job, reuse: Sequence[Path], fresh: bool) -> bool:
    return (not fresh and folder.is_done(job)) or any(folder.reusable(job, other) for other in reuse)


def run(plan: Plan, setup: Setup, display: Display) -> LaunchResult:
    """Run the plan and keep its manifest. Raises UsageError, before anything is written, if it may not."""
    check_existing(plan, setup.fresh)
    held = folder.locked(plan.run) if setup.lock is None else nullcontext(setup.lock)
    with held as lock, _signals() as stop:
        if setup.fresh:
            folder.clear(plan.run)
        elif says_done(plan.run, plan.jobs) and all(map(folder.is_done, plan.jobs)):
            return LaunchResult({})  # and the manifest still tells of the launch that did the work
        manifest = open_manifest(plan.run, setup.command, plan.jobs)
        _take_finished(plan, setup.reuse, manifest)
        manifest.save()
        launch = _Launch(plan, setup, display, manifest, lock)
        launch.run(stop)
        return LaunchResult(launch.failures, stop.signal)


def _take_finished(plan: Plan, reuse: Sequence[Path], manifest: Manifest) -> None:
    """Mark what is done here; link in what is done in another run."""
    for job in plan.jobs:
        entry = manifest.entries[job.relative]
        source = next((s for other in reuse if (s := folder.reusable(job, other))), None)
        if not folder.is_done(job) and source:
            folder.take(source, job.directory)
            entry.reused = str(source)
        if folder.is_done(job):
            entry.state = "done"


class _Stop:
    """The first signal asks for a stop; the second one kills the workers at once."""

    def __init__(self) -> None:
        self.signal: signal.Signals | None = None
        self.hard = False

    def __call__(self, number: int, _frame: object) -> None:
        self.hard = self.signal is not None
        self.signal = self.signal or signal.Signals(number)


@contextmanager
def _signals() -> Generator[_Stop]:
    stop = _Stop()
    # A signal that is ignored stays ignored: nohup and background jobs of scripts ask for that.
    numbers = [
        n for n in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP) if signal.getsignal(n) != signal.SIG_IGN
    ]
    before = {number: signal.signal(number, stop) for number in numbers}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@dataclass
class _Worker:
    """A worker process, the connection to it, and the job it is at."""

    process: subprocess.Popen[bytes]
    connection: Connection
    log: Path
    job: Job | None = None
    begun: float = 0.0

    def give(self, job: Job) -> None:
        """Hand it a job."""
        self.connection.send(job)
        self.job, self.begun = job, time.monotonic()

    @property
    def at(self) -> Job:
        """The job it is at; only a worker with a job speaks."""
        assert self.job
        return self.job

    def kill(self, number: signal.Signals) -> None:
        """Signal the worker's process group, its children included."""
        with suppress(ProcessLookupError, PermissionError):  # already gone
            os.killpg(self.process.pid, number)


def _start_worker(number: int, run: Path, execute: str, lock: int) -> _Worker:
    ours, theirs = Pipe()
    log = run / "logs" / f"worker-{number}.log"
    log.parent.mkdir(exist_ok=True)
    path = os.pathsep.join(
        filter(None, [str(Path(arena.__file__).parent.parent), os.environ.get("PYTHONPATH")])
    )
    with theirs, log.open("ab") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "arena.launch.worker", str(theirs.fileno()), execute],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=os.environ | _ONE_THREAD | {"PYTHONPATH": path},
            pass_fds=(theirs.fileno(), lock),
            start_new_session=True,
        )
    return _Worker(process, ours, log)


@dataclass
class _Launch:
    """The state of one launch: what waits, what runs where, what failed."""

    plan: Plan
    setup: Setup
    display: Display
    manifest: Manifest
    lock: int
    failures: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.waiting = pending(self.plan)
        self.workers: list[_Worker] = []
        self.started_workers = 0

    def run(self, stop: _Stop) -> None:
        """Run what waits until nothing does, or until `stop` has a signal."""
        self.display.open()
        try:
            while not stop.signal and (self.waiting or self._busy()):
                self._assign()
                self._listen()
                self.display.tick()
        finally:
            self._stop_workers(stop)
            self.display.close()
            self.manifest.finished = now()
            self._save()

    def _busy(self) -> list[_Worker]:
        return [w for w in self.workers if w.job]

    def _assign(self) -> None:
        """Give every worker that is free the first job that is ready, starting workers as they are needed."""
        while len(self._busy()) < self.setup.workers:
            job = self._next_ready()
            if job is None:
                return
            self.waiting.remove(job)
            self._begin(job)

    def _next_ready(self) -> Job | None:
        unfinished = {w.at.directory for w in self._busy()} | {j.directory for j in self.waiting}
        return next((job for job in self.waiting if job.needs not in unfinished), None)

    def _begin(self, job: Job) -> None:
        try:
            folder.prepare(job)
            worker = next((w for w in self.workers if not w.job), None) or self._new_worker()
        except OSError as error:
            return self._fail(job, reason_of(error))
        try:
            worker.give(job)
        except OSError:  # it died while it was idle, and never had the job
            self._bury(worker)
            self.waiting.insert(0, job)
            return None
        self._mark(job, "running")
        return self.display.started(job, folder.steps_done(job))

    def _new_worker(self) -> _Worker:
        worker = _start_worker(self.started_workers, self.plan.run, self.setup.execute, self.lock)
        self.started_workers += 1
        self.workers.append(worker)
        return worker

    def _listen(self) -> None:
        """Take what workers have to say, waiting a moment for it; notice workers that died."""
        ready = wait([w.connection for w in self.workers], _TICK)
        for worker in list(self.workers):
            if worker.connection in ready:
                self._receive(worker)
            elif worker.process.poll() is not None and not worker.connection.poll():
                self._bury(worker)

    def _receive(self, worker: _Worker) -> None:
        try:
            message: Message = worker.connection.recv()
        except (EOFError, OSError):
            return self._bury(worker)
        if isinstance(message, Progress):
            return self.display.progress(worker.at, message)
        job = self._spend(worker)
        worker.job = None
        return self._conclude(job, message)

    def _conclude(self, job: Job, message: Done | Failed) -> None:
        if isinstance(message, Failed):
            self._fail(job, message.reason, message.traceback)
        elif not folder.is_done(job):
            self._fail(job, "ended without a status.json that says done for this recipe")
        else:
            with suppress(
                OSError
            ):  # a start is made in an emptied folder; without the recipe it is no less done
                folder.write_recipe(job)
            self._mark(job, "done")
            self.display.ended(job, "done", None)

    def _bury(self, worker: _Worker) -> None:
        """A worker died: its job fails; the next job gets a new worker."""
        worker.kill(signal.SIGKILL)
        code = worker.process.wait()
        worker.connection.close()
        self.workers.remove(worker)
        if worker.job:
            self._fail(self._spend(worker), _death(code, worker.log))

    def _fail(self, job: Job, reason: str, traceback: str | None = None) -> None:
        self.failures[job.label] = reason
        _record_failure(job, reason, traceback)
        self._mark(job, "failed", reason)
        self.display.ended(job, "failed", reason)
        for cell in [j for j in self.waiting if j.needs == job.directory]:
            self.waiting.remove(cell)
            self._fail(cell, f"its BC start failed: {reason}")

    def _spend(self, worker: _Worker) -> Job:
        """Add the time since the worker's job began to the manifest; returns the job."""
        self.manifest.entries[worker.at.relative].seconds += round(time.monotonic() - worker.begun, 1)
        return worker.at

    def _mark(self, job: Job, state: JobState, error: str | None = None) -> None:
        entry = self.manifest.entries[job.relative]
        entry.state, entry.error = state, error
        self._save()

    def _save(self) -> None:
        try:
            self.manifest.save()
        except OSError as error:  # a full disk must not stop the other jobs; the next change tries again
            self.failures["manifest.json"] = f"could not be written: {error}"
        else:
            self.failures.pop("manifest.json", None)

    def _stop_workers(self, stop: _Stop) -> None:
        """End every worker; jobs that were running can be resumed."""
        for worker in self.workers:
            worker.kill(signal.SIGTERM)
        deadline = time.monotonic() + _GRACE
        while (
            any(w.process.poll() is None for w in self.workers)
            and time.monotonic() < deadline
            and not stop.hard
        ):
            time.sleep(0.02)
        for worker in self.workers:
            worker.kill(signal.SIGKILL)
            worker.process.wait()
            worker.connection.close()
        for worker in self._busy():
            self._interrupt(worker)

    def _interrupt(self, worker: _Worker) -> None:
        job = self._spend(worker)
        if folder.is_done(job):  # it finished before it could say so
            return self._mark(job, "done")
        status = read_status(job.directory)
        if status:
            with suppress(OSError):  # "running" resumes as well
                write_status(job.directory, replace(status, state="pending"))
        self._mark(job, "interrupted")
        return self.display.ended(job, "interrupted", None)


def _death(code: int, log: Path) -> str:
    if code >= 0:
        return f"its worker process ended with exit code {code}; see {log}"
    name = signal.Signals(-code).name
    guess = ", which is how the system ends a process when memory runs out" if name == "SIGKILL" else ""
    return f"its worker process was killed by {name}{guess}; see {log}"


def _record_failure(job: Job, reason: str, traceback: str | None) -> None:
    """Write status and traceback beside the job's results. On a full disk the manifest alone tells."""
    try:
        folder.write_recipe(job)
        status = read_status(job.directory) or JobStatus("failed", job.hash, 0, job.steps)
        write_status(job.directory, replace(status, state="failed", hash=job.hash, error=reason))
        if traceback:
            write_text(job.directory / "error.log", traceback)
    except OSError as error:
        print(f"arena: warning: {job.directory}: {error}", file=sys.stderr)

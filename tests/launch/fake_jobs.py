"""Job functions that behave and misbehave on command, run by real worker processes.

What a job does is read from the environment variable FAKE_JOBS: a JSON object from job label (or "*") to an
act. Every call appends a line to `attempts` in the job's folder.
"""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import time
from pathlib import Path

from arena.launch.jobs import Job
from arena.launch.worker import Report
from arena.records.files import JobStatus, read_status, write_json, write_status

STEPS = 3


def run(job: Job, report: Report) -> None:
    """Do the job's act, then finish as training does."""
    job.directory.mkdir(parents=True, exist_ok=True)
    with (job.directory / "attempts").open("a") as handle:
        handle.write("attempt\n")
    (job.directory / "pid").write_text(str(os.getpid()))
    acts = json.loads(os.environ.get("FAKE_JOBS", "{}"))
    name = acts.get(job.label, acts.get("*", "finish"))
    ACTS[name](job)
    if name != "say nothing":
        finish(job, report)


def finish(job: Job, report: Report) -> None:
    """Three steps from where the status says the job stands, each on disk before it is reported."""
    status = read_status(job.directory)
    first = status.step if status and status.state == "pending" else 0
    for step in range(first + 1, STEPS + 1):
        write_json(job.directory / f"step-{step}.json", {"pid": os.getpid()})
        write_status(job.directory, JobStatus("running", job.hash, step, STEPS, step / 10))
        report(step, STEPS, step / 10)
    write_status(job.directory, JobStatus("done", job.hash, STEPS, STEPS, STEPS / 10))


def _raise(job: Job) -> None:
    raise RuntimeError(f"no luck\nin {job.label}")


def _raise_once(job: Job) -> None:
    if (job.directory / "attempts").read_text().count("attempt") == 1:
        _raise(job)


def _fill_disk(_job: Job) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "tokens/step-00001.parquet")


def _fill_disk_within(job: Job) -> None:
    try:
        _fill_disk(job)
    except OSError as error:
        raise RuntimeError("the writer failed") from error


def _wait_once(job: Job) -> None:
    """Stand at step 1 for ever, the first time."""
    if (job.directory / "attempts").read_text().count("attempt") == 1:
        write_json(job.directory / "step-1.json", {"pid": os.getpid()})
        (job.directory / ".half.parquet.99.tmp").write_text("half")
        write_status(job.directory, JobStatus("running", job.hash, 1, STEPS, 0.1))
        (job.directory / "waiting").touch()
        time.sleep(600)


def _refuse_to_end(job: Job) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    _wait_once(job)


def _wait_with_child(job: Job) -> None:
    child = subprocess.Popen(["sleep", "600"])
    (job.directory / "child").write_text(str(child.pid))
    _wait_once(job)


def _write_environment(job: Job) -> None:
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    write_json(job.directory / "environment.json", {name: os.environ.get(name) for name in names})


ACTS = {
    "finish": lambda job: None,
    "raise": _raise,
    "raise once": _raise_once,
    "fill the disk": _fill_disk,
    "fill the disk within": _fill_disk_within,
    "kill itself": lambda job: os.kill(os.getpid(), signal.SIGKILL),
    "exit": lambda job: os._exit(3),
    "sys.exit": lambda job: exit(4),
    "say nothing": lambda job: None,
    "wait once": _wait_once,
    "refuse to end": _refuse_to_end,
    "wait with child": _wait_with_child,
    "write environment": _write_environment,
}


def attempts(directory: Path) -> int:
    """How often the job in `directory` was begun."""
    path = directory / "attempts"
    return path.read_text().count("attempt") if path.exists() else 0

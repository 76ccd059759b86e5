"""A worker process: takes one job at a time from the launcher, runs it, reports how it went.

Started by `local` as `python -m arena.launch.worker FD EXECUTE` in a process group of its own, so that a
Ctrl-C of the terminal reaches the launcher alone. When the launcher is gone, for whatever cause, so is the
worker.
"""

from __future__ import annotations

import errno
import faulthandler
import os
import signal
import sys
import threading
import traceback
from importlib import import_module
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import NoReturn

from arena.launch.jobs import Done, Failed, Job, Message, Progress
from arena.training import Phase, Report

#: The job function of Arena itself.
TRAIN = "arena.launch.worker:train"

#: A reason is one line of a table.
REASON_LENGTH = 300


def train(job: Job, report: Report) -> None:
    """Run a job: behaviour cloning for a start, training for a cell. Imports torch."""
    import torch

    # One thread per cell: two such processes beat one with two threads, and sums keep their order.
    torch.set_num_threads(1)
    if job.needs is None:
        from arena.training.bc import clone

        clone(job.recipe, job.directory, report)
    else:
        from arena.training.cell import run_cell

        run_cell(job.recipe, job.directory, job.needs, report)


def serve(connection: Connection, execute: str) -> NoReturn:
    """Run jobs as they come, until the launcher closes the connection."""
    jobs: SimpleQueue[Job] = SimpleQueue()
    threading.Thread(target=_listen, args=(connection, jobs), daemon=True).start()
    while True:
        connection.send(_perform(jobs.get(), execute, connection))


def _listen(connection: Connection, jobs: SimpleQueue[Job]) -> None:
    """Queue jobs; at the end of the connection the launcher is gone: end this process and its children."""
    try:
        while True:
            jobs.put(connection.recv())
    except (EOFError, OSError):
        if os.getpgrp() == os.getpid():
            os.killpg(0, signal.SIGKILL)
        os._exit(1)


def _perform(job: Job, execute: str, connection: Connection) -> Message:
    def report(step: int, steps: int, success: float | None, phase: Phase = "steps", /) -> None:
        connection.send(Progress(step, steps, success, phase))

    try:
        module, _, function = execute.partition(":")
        getattr(import_module(module), function)(job, report)
    except BaseException as error:  # SystemExit and KeyboardInterrupt of a job are failures of that job too
        return Failed(reason_of(error), traceback.format_exc())
    return Done()


def reason_of(error: BaseException) -> str:
    """One line that says why: the exception, or the full disk or memory behind it."""
    text = " ".join(str(error).split())
    line = f"{type(error).__name__}: {text}" if text else type(error).__name__
    if any(_is_disk_full(e) for e in _chain(error)):
        line = f"disk full ({line})"
    elif isinstance(error, MemoryError):
        line = f"out of memory ({line})"
    return line if len(line) <= REASON_LENGTH else line[: REASON_LENGTH - 3] + "..."


def _chain(error: BaseException | None) -> list[BaseException]:
    found: list[BaseException] = []
    while error is not None and error not in found:
        found.append(error)
        error = error.__cause__ or error.__context__
    return found


def _is_disk_full(error: BaseException) -> bool:
    # Libraries that write through C++ lose the errno and keep the text.
    full = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)
    return full or os.strerror(errno.ENOSPC) in str(error)


def main() -> NoReturn:
    """Entry point of the worker process: the connection's file descriptor, then "module:function"."""
    faulthandler.enable()
    fd, execute = int(sys.argv[1]), sys.argv[2]
    os.set_inheritable(fd, False)
    serve(Connection(fd), execute)


if __name__ == "__main__":
    main()

"""A run folder on disk: is it one, is it free, what of it is finished, and what may be taken from another."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from arena.errors import UsageError
from arena.launch.jobs import Job
from arena.recipe import file_of, flatten, is_start_field
from arena.records.files import read_status, write_json

LOCK = ".lock"

#: Workers of a launcher that was killed hold its lock until they notice, a fraction of a second later.
LOCK_PATIENCE_SECONDS = 2.0


def is_run(run: Path) -> bool:
    """Whether `run` was made by the launcher."""
    return (run / "manifest.json").is_file()


def check_folder(run: Path, fresh: bool) -> None:
    """Raise UsageError if `run` exists and is something else than a run."""
    foreign = (
        run.exists() and not is_run(run) and (not run.is_dir() or any(p.name != LOCK for p in run.iterdir()))
    )
    if foreign:
        doing = "--fresh deletes only" if fresh else "a run is written only to"
        raise UsageError(
            f"--name: {run} exists and is not an Arena run (it has no manifest.json); {doing} an Arena run "
            "folder or a new one. Choose another --name."
        )


@contextmanager
def locked(run: Path) -> Generator[int]:
    """Hold the run's lock, creating the folder; yields the file descriptor, for workers to share.

    Raises UsageError if another launcher, or a worker of one, holds it, and if the folder cannot be made.
    """
    try:
        run.mkdir(parents=True, exist_ok=True)
        fd = os.open(run / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise UsageError(
            f"{run} cannot be made or written to ({error.strerror}); --runs-dir and --name say where a run goes."
        ) from None
    try:
        _acquire(fd, run)
        os.ftruncate(fd, 0)
        os.write(fd, str(os.getpid()).encode())
        yield fd
    finally:
        os.close(fd)


def _acquire(fd: int, run: Path) -> None:
    deadline = time.monotonic() + LOCK_PATIENCE_SECONDS
    while True:
        try:
            return fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                holder = os.pread(fd, 32, 0).decode() or "unknown"
                raise UsageError(
                    f"'{run.name}' is in use by another arena process ({holder}). "
                    "Wait for it, stop it, or choose another --name."
                ) from None
        time.sleep(0.05)


def clear(run: Path) -> None:
    """Delete all but the lock, the manifest last, so that a half-deleted run is still a run."""
    entries = [p for p in run.iterdir() if p.name not in (LOCK, "manifest.json")]
    for path in [*entries, run / "manifest.json"]:
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink(missing_ok=True)


def is_done(job: Job) -> bool:
    """Whether this very job is finished on disk."""
    status = read_status(job.directory)
    return status is not None and status.state == "done" and status.hash == job.hash


def steps_done(job: Job) -> int:
    """Steps that a launch of this job need not do again; a start is made in one go."""
    status = read_status(job.directory) if job.kind == "cell" else None
    return status.step if status and status.hash == job.hash else 0


def check_same_recipe(job: Job, advice: str = "") -> None:
    """Raise UsageError, saying what changed and what to do, if the job's folder was made by another recipe.

    `advice` is what to do in a tune, which has fewer options than a run.
    """
    status = read_status(job.directory)
    old = read_recipe(job.directory)
    if (status is None and not old) or (status is not None and status.hash == job.hash):
        return
    if status is not None and status.state == "failed" and status.step == 0:
        return  # nothing was finished that another recipe could not make anew
    # A field that recipes of earlier versions lack has the value that means nothing.
    new = job.recipe.model_dump(mode="json")
    changed = _differences({"code": {}} | old, new, job) if old else []
    if not changed and status is None:
        return
    what = changed or [
        f"its recipe.json does not say what (hash {status and status.hash} there, {job.hash} now)"
    ]
    lines = "\n".join(f"  {line}" for line in what)
    advice = advice or (
        f"Choose another --name (with --reuse {job.run.name} it takes what is the same from this run), undo the change "
        "to go on with this run, or delete the run and start over with --fresh."
    )
    raise UsageError(
        f"the recipe of {job.label} has changed since run '{job.run.name}' was made:\n{lines}\n{advice}"
    )


def read_recipe(directory: Path) -> dict[str, Any]:
    """The fields of `recipe.json`, without a hash beside them; empty if it is missing or unreadable."""
    try:
        fields = json.loads((directory / "recipe.json").read_text())
    except (OSError, ValueError):
        return {}
    return {k: v for k, v in fields.items() if k != "hash"} if isinstance(fields, dict) else {}


def prepare(job: Job) -> None:
    """Make the job's folder ready for a worker: what an earlier one left half-written goes, and all that another
    recipe left which failed at once."""
    status = read_status(job.directory)
    if job.kind == "cell" and status is not None and status.hash != job.hash:
        shutil.rmtree(job.directory)
    for path in [*job.directory.rglob(".*.tmp"), job.directory / "error.log"]:
        path.unlink(missing_ok=True)
    write_recipe(job)


def write_recipe(job: Job) -> None:
    """Write `recipe.json` beside the job's results, unless it is there."""
    if not (job.directory / "recipe.json").exists():
        write_json(job.directory / "recipe.json", job.recipe.model_dump(mode="json"))


def _differences(old: Mapping[str, Any], new: Mapping[str, Any], job: Job) -> list[str]:
    was, now = flatten(old), flatten(new)
    fields = [k for k in {**was, **now} if job.kind == "cell" or is_start_field(k)]
    return [
        _in_words(k, _shown(was, k), _shown(now, k))
        for k in fields
        if k != "code" and was.get(k, _ABSENT) != now.get(k, _ABSENT)
    ]


def _in_words(field: str, was: str, now: str) -> str:
    before, is_code, name = field.partition("code.")
    if not is_code or before not in ("", "env."):
        return f"{field}: {was} there, {now} now"
    path, _ = file_of(f"{name}:")
    if path:
        return f"the file {path} has other content now"
    return f"the package that offers '{name}' is another: {was} there, {now} now"


_ABSENT = object()


def _shown(fields: Mapping[str, Any], key: str) -> str:
    return json.dumps(fields[key]) if key in fields else "absent"


def reusable(job: Job, other: Path) -> Path | None:
    """The folder in the run `other` that holds this very job, finished; None if it has none."""
    source = other / job.relative
    try:
        status = read_status(source)
    except UsageError:
        return None
    return source if status and status.state == "done" and status.hash == job.hash else None


def take(source: Path, target: Path) -> None:
    """Hard-link `source` to `target` file by file (copy on another filesystem), replacing what was there.

    Finished files are only ever replaced, never written to, so both runs may share them.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    shutil.copytree(source, temporary, copy_function=_link_or_copy)
    shutil.rmtree(target, ignore_errors=True)
    temporary.rename(target)


def _link_or_copy(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError as error:
        if error.errno not in (errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOTSUP):
            raise
        shutil.copy2(source, target)

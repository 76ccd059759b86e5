"""Atomic files and the status of a cell: whatever happens, a file is either the old one or the new one."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from arena.errors import UsageError

State = Literal["pending", "running", "done", "failed"]


def write_atomic(path: Path, write: Callable[[Path], None]) -> None:
    """Let `write` fill a temporary file beside `path`, fsync it, and rename it over `path`.

    On any error the temporary file is removed and the error propagates.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        write(temporary)
        with temporary.open("rb") as handle:
            os.fsync(handle.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_json(path: Path, value: object) -> None:
    """Write JSON atomically, indented, keys in the order given."""
    write_text(path, json.dumps(value, indent=1, allow_nan=False) + "\n")


def write_text(path: Path, text: str) -> None:
    """Write UTF-8 text atomically."""

    def write(temporary: Path) -> None:
        temporary.write_text(text, encoding="utf-8")

    write_atomic(path, write)


@dataclass(frozen=True)
class JobStatus:
    """`status.json` of a BC start or a cell."""

    state: State
    hash: str
    step: int
    steps: int
    success: float | None = None
    error: str | None = None


def write_status(directory: Path, status: JobStatus) -> None:
    """Write `status.json` atomically."""
    write_json(directory / "status.json", asdict(status))


def read_status(directory: Path) -> JobStatus | None:
    """The status in `directory`, or None where there is none. Raises UsageError for one that cannot be read."""
    path = directory / "status.json"
    try:
        return JobStatus(**json.loads(path.read_text())) if path.exists() else None
    except (ValueError, TypeError) as error:
        raise UsageError(
            f"{path} cannot be read ({error}): it is damaged, or of another version of Arena. To train this again, "
            "start over with --fresh, or choose another --name."
        ) from None

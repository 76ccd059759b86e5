"""manifest.json: what was run, by which code, on which machine, and how far each cell is.

Written atomically at every change of a job's state. A job's state here is pending, running, done, failed or
interrupted; "running" in a run that nobody runs (its launcher was killed) means that it will be resumed.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal

import arena
from arena.errors import UsageError
from arena.launch.jobs import Job
from arena.machine import usable_cpus
from arena.records.files import write_json
from arena.records.layout import place

SCHEMA_VERSION = 1

JobState = Literal["pending", "running", "done", "failed", "interrupted"]

_LIBRARIES = (
    "duckdb", "gymnasium", "matplotlib", "numpy", "pandas", "pyarrow", "pydantic", "rich", "safetensors",
    "tokenizers", "torch", "transformers", "typer", "typst",
)  # fmt: skip


@dataclass
class Entry:
    """A start or a cell. `seconds` is what this and earlier launches spent on it; `reused` a run's path."""

    env: str
    algo: str
    seed: int
    hash: str
    state: JobState = "pending"
    error: str | None = None
    seconds: float = 0.0
    reused: str | None = None


@dataclass
class Manifest:
    """The manifest of a run, kept in memory by the launcher that holds the run's lock."""

    path: Path
    about: dict[str, Any]
    entries: dict[Path, Entry] = field(default_factory=dict)
    earlier: list[dict[str, Any]] = field(default_factory=list)
    finished: str | None = None

    def save(self) -> None:
        """Write the file."""
        write_json(self.path, self.as_json())

    def as_json(self) -> dict[str, Any]:
        """The content of the file: the latest launch, then starts, cells and earlier launches."""
        rows = [(folder.parts[0], asdict(entry)) for folder, entry in sorted(self.entries.items())]
        return {
            "schema_version": SCHEMA_VERSION,
            **self.about,
            "finished": self.finished,
            "starts": [row for kind, row in rows if kind == "bc"],
            "cells": [row for kind, row in rows if kind == "cells"],
            "earlier": self.earlier,
        }


def open_manifest(run: Path, command: str, jobs: Sequence[Job]) -> Manifest:
    """The manifest of a launch, in memory. What an earlier launch of the run wrote is kept."""
    path = run / "manifest.json"
    old = _read(path)
    manifest = Manifest(path, about(run.name, command), _old_entries(old), _earlier(old))
    for job in jobs:
        entry = Entry(job.env, job.algorithm, job.seed, job.hash)
        before = manifest.entries.get(job.relative)
        if before and before.hash == job.hash:
            entry.seconds, entry.reused = before.seconds, before.reused
        manifest.entries[job.relative] = entry
    return manifest


def says_done(run: Path, jobs: Sequence[Job]) -> bool:
    """Whether the manifest on disk tells of a launch that ended, with all jobs, of these recipes, as done."""
    old = _read(run / "manifest.json")
    there = _old_entries(old)
    entries = [(there.get(job.relative), job) for job in jobs]
    done = all(entry and (entry.hash, entry.state) == (job.hash, "done") for entry, job in entries)
    return done and bool(old.get("finished"))


def _read(path: Path) -> dict[str, Any]:
    if not path.exists():
        return {}
    try:
        old = json.loads(path.read_text())
        readable = old["schema_version"] == SCHEMA_VERSION
    except (ValueError, TypeError, KeyError):
        readable = False
    if not readable:
        raise UsageError(
            f"{path} was not written by this version of Arena. Start over with --fresh, or choose another "
            "--name."
        )
    return old


def _old_entries(old: dict[str, Any]) -> dict[Path, Entry]:
    entries = [Entry(**row) for row in [*old.get("starts", []), *old.get("cells", [])]]
    return {place(e.env, e.algo, e.seed): e for e in entries}


def _earlier(old: dict[str, Any]) -> list[dict[str, Any]]:
    if not old:
        return []
    keep = ("command", "commit", "dirty", "versions", "started", "finished")
    return [*old.get("earlier", []), {key: old.get(key) for key in keep}]


def about(name: str, command: str) -> dict[str, Any]:
    """The launch: run name, command, code, libraries, machine, time."""
    return {
        "name": name,
        "command": command,
        **_git(),
        "versions": _versions(),
        "host": _host(),
        "started": now(),
    }


def now() -> str:
    """UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def _git() -> dict[str, Any]:
    """The commit, and whether tracked files differ from it; nulls if Arena does not run from its checkout."""
    root = Path(arena.__file__).parent.parent
    if not (root / ".git").exists():
        return {"commit": None, "dirty": None}
    try:
        commit = _run_git(root, "rev-parse", "HEAD")
        dirty = bool(_run_git(root, "status", "--porcelain", "--untracked-files=no"))
    except (OSError, subprocess.SubprocessError):
        return {"commit": None, "dirty": None}
    return {"commit": commit, "dirty": dirty}


def _run_git(root: Path, *arguments: str) -> str:
    command = ["git", "-C", str(root), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()


def _versions() -> dict[str, str | None]:
    ours = {"arena": arena.__version__, "python": platform.python_version()}
    return ours | {name: _version(name) for name in _LIBRARIES}


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _host() -> dict[str, Any]:
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    return {
        "platform": f"{platform.system()} {platform.machine()}",
        "cpus": usable_cpus(),
        "cpu": _cpu_model(),
        "memory_gib": round(memory, 1),
    }


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()

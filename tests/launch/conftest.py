"""A plan of fake jobs, and how to launch it."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from arena.launch import local
from arena.launch.estimate import tasks
from arena.launch.local import LaunchResult, Setup, pending
from arena.launch.plan import Options, Plan, build
from arena.launch.progress import Clock, PlainDisplay
from arena.records.files import JobStatus, read_status

FAKE = "tests.launch.fake_jobs:run"


@dataclass
class Launched:
    """What a launch left behind."""

    plan: Plan
    result: LaunchResult
    text: str

    def status(self, place: str) -> JobStatus | None:
        return read_status(self.plan.run / place)

    @property
    def manifest(self) -> dict[str, Any]:
        return json.loads((self.plan.run / "manifest.json").read_text())

    @property
    def states(self) -> dict[str, str]:
        rows = self.manifest["starts"] + self.manifest["cells"]
        return {f"{r['env']}/{r['algo']}/{r['seed']}": r["state"] for r in rows}


@pytest.fixture
def launch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Launched]:
    """Launch a grid of fake jobs: `launch({"label": "act"}, workers=2, algos="grpo", ...)`."""

    def go(
        acts: dict[str, str] | None = None,
        workers: int = 2,
        fresh: bool = False,
        reuse: tuple[Path, ...] = (),
        **options: Any,
    ) -> Launched:
        monkeypatch.setenv("FAKE_JOBS", json.dumps(acts or {}))
        given = {
            "algos": "grpo,gspo",
            "envs": "frozen_lake",
            "name": "r",
            "runs": tmp_path / "runs",
        } | options
        plan = build(Options(**given))
        stream = io.StringIO()
        display = PlainDisplay(stream, Clock(tasks(pending(plan, reuse, fresh)), workers))
        setup = Setup(workers, "arena run --name r", fresh, reuse, FAKE)
        return Launched(plan, local.run(plan, setup, display), stream.getvalue())

    return go

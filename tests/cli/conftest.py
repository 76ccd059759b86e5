"""The `arena` command in this process, as a person types it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from arena.cli import main, run, stress, tune

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Result:
    """Exit code and what was printed."""

    code: int
    out: str
    err: str


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The runs folder, where ARENA_RUNS points; jobs are fake and finish at once."""
    folder = tmp_path / "runs"
    monkeypatch.setenv("ARENA_RUNS", str(folder))
    monkeypatch.setattr(run, "Setup", partial(run.Setup, execute="tests.launch.fake_jobs:run"))
    monkeypatch.setattr(tune, "Setup", partial(tune.Setup, execute="tests.launch.scored_jobs:run"))
    monkeypatch.setattr(stress, "Setup", partial(stress.Setup, execute="tests.launch.stressed_jobs:run"))
    return folder


@pytest.fixture
def arena(
    runs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Result]:
    """`arena("run", "--name", "r", acts={"label": "act"})` types the command."""

    def type_(*words: str, acts: dict[str, str] | None = None) -> Result:
        monkeypatch.setattr(sys, "argv", ["arena", *words])
        monkeypatch.setenv("FAKE_JOBS", json.dumps(acts or {}))
        with pytest.raises(SystemExit) as end:
            main()
        printed = capsys.readouterr()
        return Result(int(end.value.code or 0), printed.out, printed.err)

    return type_


@pytest.fixture
def arena_process(runs: Path) -> Callable[..., subprocess.Popen[str]]:
    """The same in a process of its own, which goes on."""

    def start(*words: str, acts: dict[str, str]) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "tests.cli.fake_arena", *words],
            cwd=ROOT,
            env=os.environ | {"FAKE_JOBS": json.dumps(acts)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )

    return start

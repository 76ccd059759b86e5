"""Signals to a real `arena run`: what it leaves can be resumed, and no process survives it."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from arena.records.files import read_status
from tests.launch.fake_jobs import attempts

ROOT = Path(__file__).parents[2]
GRPO, GSPO = "cells/frozen_lake/grpo/seed-0", "cells/frozen_lake/gspo/seed-0"
ARGUMENTS = ["run", "--algos", "grpo,gspo", "--envs", "frozen_lake", "--workers", "2", "--name", "r"]


@pytest.fixture
def start(tmp_path: Path) -> Callable[..., subprocess.Popen[str]]:
    """Start `arena run` on two cells whose jobs do `act`; the run folder is tmp_path/r."""

    def go(act: str, *more: str) -> subprocess.Popen[str]:
        acts = {"frozen_lake/grpo/seed-0": act, "frozen_lake/gspo/seed-0": act}
        return subprocess.Popen(
            [sys.executable, "-m", "tests.cli.fake_arena", *ARGUMENTS, *more],
            cwd=ROOT,
            env=os.environ | {"FAKE_JOBS": json.dumps(acts), "ARENA_RUNS": str(tmp_path)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # Whatever ran the tests may ignore SIGINT (a background job of a shell does), and children inherit that.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )

    return go


def wait_for(condition: Callable[[], bool], what: str, seconds: float = 15.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"waited {seconds} s for {what}"
        time.sleep(0.02)


def both_wait(run: Path) -> None:
    wait_for(
        lambda: all((run / c / "waiting").exists() for c in (GRPO, GSPO)), "both cells to be at step 1", 30
    )


def alive(pid: int) -> bool:
    """Whether the process runs; a zombie that nobody has waited for yet does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def pids_in(run: Path, name: str = "pid") -> list[int]:
    return [int(path.read_text()) for path in run.rglob(name)]


def test_interrupt_leaves_a_run_that_the_printed_command_resumes(start, tmp_path):
    run = tmp_path / "r"
    process = start("wait once")
    both_wait(run)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=20)

    assert process.returncode == 1
    assert not any(map(alive, pids_in(run)))
    assert "Stopped by SIGINT; resume with:\n  arena run --algos grpo,gspo --envs frozen_lake" in out
    assert "Traceback" not in out + err
    assert {read_status(run / c).state for c in (GRPO, GSPO)} == {"pending"}
    manifest = json.loads((run / "manifest.json").read_text())
    assert [row["state"] for row in manifest["cells"]] == ["interrupted", "interrupted"]
    assert manifest["finished"]

    again = start("wait once")
    out, err = again.communicate(timeout=30)
    assert again.returncode == 0, err
    assert [attempts(run / c) for c in (GRPO, GSPO)] == [2, 2]
    # Step 1 was on disk already and is not made anew; what was half-written is gone.
    assert {json.loads((run / GRPO / f"step-{k}.json").read_text())["pid"] for k in (2, 3)} == {
        int((run / GRPO / "pid").read_text())
    }
    assert json.loads((run / GRPO / "step-1.json").read_text())["pid"] != int(
        (run / GRPO / "pid").read_text()
    )
    assert not list(run.rglob("*.tmp"))


def test_second_interrupt_kills_workers_that_refuse_to_end(start, tmp_path):
    run = tmp_path / "r"
    process = start("refuse to end")
    both_wait(run)
    process.send_signal(signal.SIGTERM)
    time.sleep(0.5)
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    began = time.monotonic()
    out, _ = process.communicate(timeout=20)

    assert time.monotonic() - began < 3
    assert process.returncode == 1
    assert "Stopped by SIGTERM" in out
    assert not any(map(alive, pids_in(run)))


def test_nothing_survives_a_killed_launcher(start, tmp_path):
    run = tmp_path / "r"
    process = start("wait with child")
    both_wait(run)
    pids = pids_in(run) + pids_in(run, "child")
    assert all(map(alive, pids_in(run / "cells") + pids_in(run, "child")))
    process.kill()
    process.communicate()

    wait_for(lambda: not any(map(alive, pids)), "the workers and their children to end")
    again = start("finish")
    out, err = again.communicate(timeout=30)
    assert again.returncode == 0, out + err


def test_a_reader_that_leaves_does_not_stop_the_run(start, tmp_path):
    process = start("finish")
    process.stdout.close()
    process.stderr.close()
    process.wait(timeout=30)

    assert read_status(tmp_path / "r" / GRPO).state == "done"

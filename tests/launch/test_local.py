"""Launches of fake jobs by real worker processes: what fails, what goes on, what is left on disk."""

import errno
import json
import os
import signal
from dataclasses import replace

import pytest

from arena.errors import UsageError
from arena.launch import folder, local
from arena.launch.jobs import Job
from arena.launch.local import LaunchResult
from arena.launch.manifest import Manifest
from arena.recipe import resolve
from arena.records.files import JobStatus, write_status
from tests.launch.fake_jobs import attempts

GRPO, GSPO, BC = "cells/frozen_lake/grpo/seed-0", "cells/frozen_lake/gspo/seed-0", "bc/frozen_lake/seed-0"


def test_all_jobs_run_and_starts_come_first(launch):
    run = launch(envs="frozen_lake,sokoban", algos="grpo,gspo")

    assert run.result.exit_code == 0
    assert set(run.states.values()) == {"done"}
    assert len(run.states) == 6
    ended = [line.split()[1] for line in run.text.splitlines() if "  done in " in line]
    for env in ("frozen_lake", "sokoban"):
        mine = [label for label in ended if label.startswith(env)]
        assert mine[0] == f"{env}/bc/seed-0"
        assert len(mine) == 3
    assert run.status(GRPO).success == pytest.approx(0.3)
    assert json.loads((run.plan.run / GRPO / "recipe.json").read_text())["algorithm"] == "grpo"


def test_a_raising_cell_fails_alone_and_says_why(launch):
    run = launch({"frozen_lake/grpo/seed-0": "raise"})

    assert run.result.exit_code == 1
    reason = "RuntimeError: no luck in frozen_lake/grpo/seed-0"
    assert run.result.failures == {"frozen_lake/grpo/seed-0": reason}
    assert run.states == {
        "frozen_lake/bc/0": "done",
        "frozen_lake/grpo/0": "failed",
        "frozen_lake/gspo/0": "done",
    }
    status = run.status(GRPO)
    assert (status.state, status.error, status.hash) == ("failed", reason, run.plan.cells[0].hash)
    row = next(r for r in run.manifest["cells"] if r["algo"] == "grpo")
    assert row["error"] == reason
    log = (run.plan.run / GRPO / "error.log").read_text()
    assert log.startswith("Traceback")
    assert "in _raise" in log
    assert f"frozen_lake/grpo/seed-0  failed in 0:00: {reason}" in run.text


def test_cells_of_a_failed_start_fail_with_its_reason_and_the_others_go_on(launch):
    run = launch({"frozen_lake/bc/seed-0": "raise"}, envs="frozen_lake,sokoban")

    reason = "its BC start failed: RuntimeError: no luck in frozen_lake/bc/seed-0"
    assert run.result.exit_code == 1
    assert run.status(GRPO).error == reason
    assert run.status(GSPO).state == "failed"
    assert attempts(run.plan.run / GRPO) == 0
    assert run.states["sokoban/grpo/0"] == run.states["sokoban/gspo/0"] == "done"
    assert run.states["frozen_lake/bc/0"] == run.states["frozen_lake/grpo/0"] == "failed"


def test_a_killed_worker_fails_its_job_and_is_replaced(launch):
    run = launch({"frozen_lake/grpo/seed-0": "kill itself"}, workers=1)

    reason = run.result.failures["frozen_lake/grpo/seed-0"]
    assert "killed by SIGKILL" in reason
    assert "memory runs out" in reason
    assert run.states["frozen_lake/gspo/0"] == "done"
    assert run.status(GRPO).state == "failed"
    pids = {(run.plan.run / place / "pid").read_text() for place in (GRPO, GSPO)}
    assert len(pids) == 2


def test_a_job_goes_to_another_worker_where_the_first_died_while_it_was_idle(launch, monkeypatch):
    give, killed = local._Worker.give, []

    def give_the_second_job_to_a_dead_worker(worker, job):
        if job.kind == "cell" and not killed:
            killed.append(worker.process.pid)
            worker.kill(signal.SIGKILL)
            worker.process.wait()
        give(worker, job)

    monkeypatch.setattr(local._Worker, "give", give_the_second_job_to_a_dead_worker)
    run = launch(workers=1)

    assert run.result.exit_code == 0
    assert killed
    assert [attempts(run.plan.run / place) for place in (BC, GRPO, GSPO)] == [1, 1, 1]
    assert run.text.count("grpo/seed-0  started") == 1


@pytest.mark.parametrize(
    ("act", "reason"),
    [
        ("exit", "its worker process ended with exit code 3"),
        ("sys.exit", "SystemExit: 4"),
        ("say nothing", "ended without a status.json that says done"),
        (
            "fill the disk",
            "disk full (OSError: [Errno 28] No space left on device: 'tokens/step-00001.parquet')",
        ),
        ("fill the disk within", "disk full (RuntimeError: the writer failed)"),
    ],
)
def test_every_end_has_its_reason(launch, act, reason):
    run = launch({"frozen_lake/grpo/seed-0": act}, workers=1)

    assert run.result.exit_code == 1
    assert run.status(GRPO).error.startswith(reason)
    assert run.states["frozen_lake/gspo/0"] == "done"


def test_one_worker_serves_all_jobs_with_one_thread(launch):
    run = launch({"*": "write environment"}, workers=1)

    pids = {(run.plan.run / place / "pid").read_text() for place in (BC, GRPO, GSPO)}
    assert len(pids) == 1
    threads = json.loads((run.plan.run / GRPO / "environment.json").read_text())
    assert threads == {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


def test_running_again_retries_what_failed_and_skips_what_is_done(launch):
    acts = {"frozen_lake/grpo/seed-0": "raise once"}
    first = launch(acts)
    assert first.result.exit_code == 1
    again = launch(acts)

    assert again.result.exit_code == 0
    assert set(again.states.values()) == {"done"}
    assert [attempts(again.plan.run / place) for place in (BC, GRPO, GSPO)] == [1, 2, 1]
    assert not (again.plan.run / GRPO / "error.log").exists()
    assert again.status(GRPO).error is None
    assert [e["command"] for e in again.manifest["earlier"]] == ["arena run --name r"]
    assert "gspo" not in again.text


def test_running_what_is_done_leaves_the_manifest_of_the_launch_that_did_it(launch):
    path = launch().plan.run / "manifest.json"
    before = path.read_bytes(), path.stat().st_mtime_ns
    again = launch()
    assert again.result == LaunchResult({})
    assert (path.read_bytes(), path.stat().st_mtime_ns) == before
    # Done on disk and not in the manifest, as when the launcher was killed last: the manifest is mended.
    path.write_text(path.read_text().replace('"done"', '"running"'))
    assert set(launch().states.values()) == {"done"}
    # And so when it was killed before it could say that it had finished.
    path.write_text(json.dumps({**json.loads(path.read_text()), "finished": None}))
    assert launch().manifest["finished"]


def test_a_run_grows_by_algorithms_and_keeps_what_it_has(launch):
    launch(algos="grpo")
    run = launch(algos="gspo")

    assert run.states == dict.fromkeys(
        ("frozen_lake/bc/0", "frozen_lake/grpo/0", "frozen_lake/gspo/0"), "done"
    )
    assert attempts(run.plan.run / BC) == 1


def test_two_launchers_on_one_run_are_refused(launch, monkeypatch):
    monkeypatch.setattr(folder, "LOCK_PATIENCE_SECONDS", 0.1)
    run = launch()
    with (
        folder.locked(run.plan.run),
        pytest.raises(UsageError, match=rf"'r' is in use by another arena process \({os.getpid()}\)"),
    ):
        launch()


def test_another_recipe_under_the_same_name_is_refused_naming_the_field(launch):
    launch()
    with pytest.raises(UsageError) as error:
        launch(overrides=("kl.coef=0.5",))
    assert str(error.value) == (
        "the recipe of frozen_lake/grpo/seed-0 has changed since run 'r' was made:\n  kl.coef: 0.01 there, 0.5 now\n"
        "Choose another --name (with --reuse r it takes what is the same from this run), undo the change to go on with "
        "this run, or delete the run and start over with --fresh."
    )


def test_a_cell_that_failed_at_once_takes_a_changed_recipe(launch):
    done = launch()
    job = done.plan.cells[0]
    other = replace(job, recipe=job.recipe.model_copy(update={"steps": job.recipe.steps + 1}))
    for state, step, refused in (("failed", 0, False), ("failed", 1, True), ("done", 2, True)):
        write_status(job.directory, JobStatus(state, job.hash, step, job.steps))
        if refused:
            with pytest.raises(UsageError, match="has changed since"):
                folder.check_same_recipe(other)
        else:
            folder.check_same_recipe(other)
    folder.prepare(other)
    assert [p.name for p in job.directory.iterdir()] == ["recipe.json"]


def test_code_that_changed_is_told_in_words_and_the_ways_out_work(launch, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    mine, algos = tmp_path / "mine.py", "grpo,./mine.py:x"
    code = "from arena.algorithms import get_algorithm\nx = get_algorithm('gspo')\n"
    mine.write_text(code)
    old = launch(algos=algos)
    mine.write_text(code + "# changed\n")
    with pytest.raises(UsageError) as error:
        launch(algos=algos)
    first, what, ways = str(error.value).splitlines()
    assert first == "the recipe of frozen_lake/./mine.py:x/seed-0 has changed since run 'r' was made:"
    assert what == "  the file ./mine.py has other content now"
    assert ways.startswith("Choose another --name (with --reuse r ")
    other = launch(name="other", algos=algos, reuse=(old.plan.run,))
    assert [row["reused"] is None for row in other.manifest["cells"]] == [False, True]
    mine.write_text(code)
    assert launch(algos=algos).result.exit_code == 0


def test_a_package_that_changed_is_named(tmp_path):
    was, now = {"code": {"squash": "arena-squash==1.2"}}, {"code": {"squash": "arena-squash==1.3"}}
    cell = Job("cell", resolve("cpu", "frozen_lake", "grpo", 0), tmp_path)
    packages = (
        'the package that offers \'squash\' is another: "arena-squash==1.2" there, "arena-squash==1.3" now'
    )
    assert folder._differences(was, now, cell) == [packages]
    assert folder._differences({"code": {}}, now, cell) == [packages.replace('"arena-squash==1.2"', "absent")]


def test_another_start_under_the_same_name_is_refused_naming_its_fields_only(launch):
    launch(algos="grpo", overrides=("bc.steps=9",))
    with pytest.raises(UsageError) as error:
        launch(algos="gspo", overrides=("bc.steps=7", "kl.coef=0.5"))
    assert str(error.value).startswith(
        "the recipe of frozen_lake/bc/seed-0 has changed since run 'r' was made:\n  bc.steps: 9 there, 7 now\nChoose"
    )


def test_fresh_deletes_the_old_content(launch):
    old = launch(overrides=("kl.coef=0.5",))
    (old.plan.run / "report").mkdir()
    run = launch(fresh=True)

    assert run.result.exit_code == 0
    assert not (run.plan.run / "report").exists()
    assert attempts(run.plan.run / GRPO) == 1
    assert run.manifest["earlier"] == []


@pytest.mark.parametrize("fresh", [True, False])
def test_a_folder_that_is_no_run_is_left_alone(launch, tmp_path, fresh):
    foreign = tmp_path / "runs" / "r" / "thesis.tex"
    foreign.parent.mkdir(parents=True)
    foreign.write_text("years")
    with pytest.raises(UsageError, match=r"is not an Arena run \(it has no manifest.json\)"):
        launch(fresh=fresh)
    assert foreign.read_text() == "years"
    assert [p.name for p in foreign.parent.iterdir()] == ["thesis.tex"]


def test_reuse_links_finished_jobs_of_the_same_recipe(launch):
    old = launch({"frozen_lake/gspo/seed-0": "raise"}, name="old")
    run = launch(name="new", reuse=(old.plan.run,))

    assert run.result.exit_code == 0
    assert (run.plan.run / GRPO / "attempts").samefile(old.plan.run / GRPO / "attempts")
    assert attempts(run.plan.run / GRPO) == attempts(run.plan.run / BC) == 1
    assert not (run.plan.run / GSPO / "pid").samefile(old.plan.run / GSPO / "pid")
    reused = {row["algo"]: row["reused"] for row in run.manifest["starts"] + run.manifest["cells"]}
    assert reused == {"bc": str(old.plan.run / BC), "grpo": str(old.plan.run / GRPO), "gspo": None}


def test_reuse_ignores_other_recipes(launch):
    old = launch(name="old")
    run = launch(name="new", reuse=(old.plan.run,), overrides=("kl.coef=0.5",))

    assert not (run.plan.run / GRPO / "pid").samefile(old.plan.run / GRPO / "pid")
    assert (run.plan.run / BC / "pid").samefile(old.plan.run / BC / "pid")  # a start does not depend on kl


def test_reuse_copies_where_files_cannot_be_linked(launch, monkeypatch):
    def refuse(*_):
        raise OSError(errno.EXDEV, "another filesystem")

    old = launch(name="old", algos="grpo")
    monkeypatch.setattr(os, "link", refuse)
    run = launch(name="new", algos="grpo", reuse=(old.plan.run,))

    assert run.result.exit_code == 0
    assert not (run.plan.run / GRPO / "pid").samefile(old.plan.run / GRPO / "pid")
    assert (run.plan.run / GRPO / "pid").read_text() == (old.plan.run / GRPO / "pid").read_text()


def test_a_manifest_that_cannot_be_written_does_not_stop_the_jobs(launch, monkeypatch):
    save, calls = Manifest.save, []

    def full(self):
        calls.append(1)
        if len(calls) > 1:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        save(self)

    monkeypatch.setattr(Manifest, "save", full)
    run = launch()

    assert run.result.exit_code == 1
    assert "could not be written" in run.result.failures["manifest.json"]
    assert run.status(GRPO).state == run.status(GSPO).state == "done"


def test_a_damaged_status_is_explained(launch):
    run = launch()
    (run.plan.run / GRPO / "status.json").write_text("{")
    with pytest.raises(UsageError, match=r"status.json cannot be read .* start over with --fresh"):
        launch()


def test_manifest_says_what_ran_where(launch):
    manifest = launch(algos="grpo").manifest

    assert manifest["command"] == "arena run --name r"
    assert manifest["versions"]["torch"]
    assert manifest["versions"]["arena"] == "0.1.0"
    assert manifest["commit"] is None or len(manifest["commit"]) == 40  # None outside a checkout
    assert manifest["host"]["cpus"] >= 1
    assert manifest["host"]["memory_gib"] > 0.1
    assert manifest["started"] <= manifest["finished"]
    (cell,) = manifest["cells"]
    assert cell["hash"]
    assert cell["state"] == "done"

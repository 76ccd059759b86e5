"""`arena run` as typed: what it prints, what it exits with, what it leaves alone."""

import json
import re

import pytest

from arena.recipe import resolve

SMALL = ("run", "--algos", "grpo,gspo", "--envs", "frozen_lake", "--name", "r")
STEPS = resolve("cpu", "frozen_lake", "grpo", 0).steps


def test_done_run_ends_with_a_table_and_the_next_command(arena, runs):
    result = arena(*SMALL)

    assert result.code == 0
    assert result.out.endswith("Read it with:\n  arena report r\n")
    assert "frozen_lake/grpo/seed-0  done in" in result.err
    assert (runs / "r" / "manifest.json").exists()


def test_failures_exit_with_one_and_say_how_to_go_on(arena):
    result = arena(*SMALL, "--fresh", acts={"frozen_lake/grpo/seed-0": "raise"})

    assert result.code == 1
    assert (
        "Failed:\n  frozen_lake/grpo/seed-0: RuntimeError: no luck in frozen_lake/grpo/seed-0\n" in result.out
    )
    again = "arena run --algos grpo,gspo --envs frozen_lake --name r"
    assert f"Run what failed again with:\n  {again}\n" in result.out


def test_the_command_to_repeat_names_a_run_that_was_named_by_time(arena, runs):
    result = arena(*SMALL[:-2], acts={"*": "raise"})

    (folder,) = runs.iterdir()
    assert f"arena run --algos grpo,gspo --envs frozen_lake --name {folder.name}\n" in result.out


def test_other_runs_dir_is_part_of_the_next_command(arena, tmp_path):
    result = arena(*SMALL, "--runs-dir", str(tmp_path / "else where"))
    assert f"arena report '{tmp_path}/else where/r'" in result.out


def test_dry_run_shows_cells_time_and_disk_and_creates_nothing(arena, runs):
    result = arena(*SMALL, "--num-seeds", "2", "--workers", "2", "--dry-run")

    assert result.code == 0
    assert not runs.exists()
    lines = result.out.splitlines()
    header = next(k for k, line in enumerate(lines) if line.startswith("environment"))
    rows = [line.split() for line in lines[header + 1 : header + 7]]
    assert [row[:4] for row in rows] == [
        ["frozen_lake", "bc", "0", "run"],
        ["frozen_lake", "bc", "1", "run"],
        ["frozen_lake", "grpo", "0", "run"],
        ["frozen_lake", "gspo", "0", "run"],
        ["frozen_lake", "grpo", "1", "run"],
        ["frozen_lake", "gspo", "1", "run"],
    ]
    assert all(re.fullmatch(r"\d+:\d\d", row[5]) for row in rows)
    assert "To run: 4 of 4 cells, 2 BC starts. About " in result.out
    assert "Estimates: frozen_lake from built-in constants." in result.out


def test_dry_run_of_an_existing_run_says_what_is_left(arena, runs):
    arena(*SMALL, acts={"frozen_lake/grpo/seed-0": "raise"})
    before = sorted((p, p.stat().st_mtime_ns) for p in runs.rglob("*"))
    result = arena(*SMALL, "--dry-run")

    assert re.search(r"frozen_lake +bc +0 +done", result.out)
    assert re.search(r"frozen_lake +grpo +0 +run", result.out)
    assert re.search(rf"frozen_lake +gspo +0 +done +{STEPS} +- +-", result.out)
    assert "To run: 1 of 2 cells, 0 BC starts." in result.out
    reused = arena(*SMALL[:-1], "new", "--reuse", "r", "--dry-run")
    assert re.search(r"frozen_lake +gspo +0 +reuse r", reused.out)
    assert sorted((p, p.stat().st_mtime_ns) for p in runs.rglob("*")) == before


def test_reuse_takes_finished_cells(arena, runs):
    arena(*SMALL)
    result = arena(*SMALL[:-1], "new", "--reuse", "r")

    assert result.code == 0
    cell = "cells/frozen_lake/grpo/seed-0/pid"
    assert (runs / "new" / cell).samefile(runs / "r" / cell)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--algos", "grop"], "--algos: unknown algorithm 'grop'. Did you mean 'grpo'?"),
        (
            ["--algos", "sampo,gspo+gigpo+dynamic"],
            "--algos: 'sampo' and 'gspo+gigpo+dynamic' are the same method",
        ),
        (["--steps", "many"], "Invalid value for '--steps': it takes a whole number from 1; given 'many'."),
        (["--workers", "0"], "Invalid value for '--workers': it takes a whole number from 1; given '0'."),
        (
            ["--num-seeds", "-1"],
            "Invalid value for '--num-seeds': it takes a whole number from 1; given '-1'.",
        ),
        (["--reuse", "missing"], "--reuse: no run 'missing'"),
        (["--algo", "grpo"], "No such option: --algo"),
        (["--set", "kl.coeff=1"], "unknown recipe field 'kl.coeff'. Did you mean 'kl.coef'?"),
    ],
)
def test_wrong_usage_exits_with_two_and_writes_nothing(arena, runs, words, message):
    result = arena("run", *words)

    assert result.code == 2
    assert result.err.startswith("arena: error: ")
    assert message in result.err
    assert "Traceback" not in result.err
    assert result.out == ""
    assert not runs.exists()


def test_reusing_oneself_is_refused(arena):
    arena(*SMALL)
    result = arena(*SMALL, "--reuse", "r")
    assert (result.code, result.err) == (
        2,
        "arena: error: --reuse: 'r' is the run itself; its finished cells are kept anyway.\n",
    )


def test_another_recipe_is_refused_before_anything_changes(arena, runs):
    arena(*SMALL)
    before = (runs / "r" / "manifest.json").read_text()
    result = arena(*SMALL, "--steps", "9")

    assert result.code == 2
    assert f"steps: {STEPS} there, 9 now" in result.err
    assert (runs / "r" / "manifest.json").read_text() == before


@pytest.mark.parametrize("command", ["run", "tune", "stress"])
def test_a_runs_dir_that_cannot_be_made_is_refused(arena, tmp_path, command):
    (tmp_path / "file").write_text("")
    below = tmp_path / "file" / "below"
    result = arena(command, *SMALL[1:], "--runs-dir", str(below))
    assert (result.code, result.out) == (2, "")
    assert result.err.endswith(
        f"arena: error: {below / 'r'} cannot be made or written to (Not a directory); "
        "--runs-dir and --name say where a run goes.\n"
    )


def test_files_where_folders_are_wanted_are_refused(arena, runs, tmp_path):
    file = tmp_path / "file"
    file.write_text("kept")
    for extra in ((), ("--dry-run",)):
        result = arena(*SMALL, "--runs-dir", str(file), *extra)
        assert (result.code, result.err) == (
            2,
            f"arena: error: --runs-dir takes a folder; '{file}' is a file.\n",
        )
    arena(*SMALL)
    result = arena("report", "r", "--out", str(file))
    assert (result.code, result.err) == (2, f"arena: error: --out takes a folder; '{file}' is a file.\n")
    assert file.read_text() == "kept"


def test_manifest_carries_the_command(arena, runs):
    arena(*SMALL, "--set", "env.options.size=4")
    manifest = json.loads((runs / "r" / "manifest.json").read_text())
    assert (
        manifest["command"]
        == "arena run --algos grpo,gspo --envs frozen_lake --name r --set env.options.size=4"
    )

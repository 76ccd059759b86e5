"""`arena stress` as typed, with fake jobs whose ends are known: tests/launch/stressed_jobs.py."""

import json
import signal

import pytest

from arena.recipe import resolve
from tests.launch.fake_jobs import attempts
from tests.launch.stressed_jobs import ENDS
from tests.launch.test_signals import wait_for

SMALL = (
    "stress", "--algos", "grpo,cispo", "--envs", "frozen_lake", "--num-seeds", "3", "--name", "s",
    "--learning-rates", "1,2,4", "--updates", "1,2", "--workers", "2",
)  # fmt: skip


def test_a_stress_test_ends_with_margins_and_maps_and_is_not_run_twice(arena, runs):
    result = arena(*SMALL)

    assert result.code == 0, result.err
    margins, grpo, cispo = (
        [" ".join(line.split()) for line in result.out.split("\n\n")[k].splitlines()[1:]] for k in (1, 4, 6)
    )
    # By hand from ENDS, octaves: seed 0 (1.5 + 2) / 2, seed 1 (2 + 0.5) / 2, seed 2 (0.5 + 0) / 2; 2 ** (3.25 / 3).
    assert margins == [
        "frozen_lake grpo 3 of 3 ~ 2.1x 1.08 bounded by the grid at both ends",
        "frozen_lake cispo 3 of 3 < 1x 0.00 the same in all 3 seeds, so no spread and no interval",
    ]
    assert grpo == [
        "1x 0/3, +20.0 1/3, +3.3",
        "2x 0/3, +10.0, 1 lost 1/2, -5.0, 1 beyond",
        "4x 1/2, -5.0, 1 beyond 0/1, +20.0, 2 beyond",
    ]
    assert cispo == ["1x 3/3, -30.0 2/3, -23.3, 1 lost", "2x beyond beyond", "4x beyond beyond"]
    assert "point 2 of 6: learning rate 1x, updates 2x; at most about" in result.err

    found = json.loads((runs / "s" / "stress.json").read_text())
    assert found["command"].startswith("arena stress --algos grpo,cispo")
    assert [p["run"] for p in found["points"]] == [
        ".", *(f"stress/lr-{r}-updates-{u}" for r, u in ((1, 2), (2, 1), (2, 2), (4, 1), (4, 2)))
    ]  # fmt: skip
    ours = found["results"][0]
    assert (ours["algo"], ours["at_least"], ours["below"], ours["interval"]) == (
        "grpo", True, True, [None, None]
    )  # fmt: skip
    assert ours["octaves"] == pytest.approx(3.25 / 3)
    assert ours["by_seed"]["1"] == {"octaves": 1.25, "at_least": True, "below": False}

    cells = sorted(runs.glob("s/**/cells/*/*/seed-*"))
    assert len(cells) == sum(map(len, ENDS.values()))
    again = arena(*SMALL, "--json")
    assert again.code == 0
    printed = json.loads(again.out)
    assert (printed["results"], printed["failures"], printed["warnings"]) == (found["results"], {}, [])
    assert all(attempts(cell) == 1 for cell in cells)


def test_points_are_the_tiers_recipes_with_more_on_shared_starts(arena, runs):
    arena(*SMALL)
    tier = resolve("cpu", "frozen_lake", "grpo", 0)
    for point, rate, updates in (("", 1, 1), ("stress/lr-2-updates-2/", 2, 2)):
        folder = runs / "s" / point
        recipe = json.loads((folder / "cells/frozen_lake/grpo/seed-0/recipe.json").read_text())
        expected = tier.model_dump(mode="json")
        expected["optim"]["learning_rate"] *= rate
        expected["optim"]["epochs"] *= updates
        assert recipe == expected
        start = "bc/frozen_lake/seed-0/pid"
        assert (folder / start).samefile(runs / "s" / start)


def test_a_run_of_the_tier_is_taken_up_and_a_lower_rate_may_be_added(arena, runs, monkeypatch):
    arena("run", "--algos", "grpo", "--envs", "frozen_lake", "--name", "s")
    words = ("stress", "--algos", "grpo", "--envs", "frozen_lake", "--name", "s", "--updates", "1")
    result = arena(*words, "--learning-rates", "1,2")
    assert result.code == 0, result.err
    assert "0 of 1" in result.out  # the fake `arena run` has no evaluations
    assert attempts(runs / "s/cells/frozen_lake/grpo/seed-0") == 1
    assert attempts(runs / "s/bc/frozen_lake/seed-0") == 1
    result = arena(*words, "--learning-rates", "1,2,4")
    assert result.code == 0, result.err
    assert attempts(runs / "s/stress/lr-2-updates-1/cells/frozen_lake/grpo/seed-0") == 1
    assert attempts(runs / "s/stress/lr-4-updates-1/bc/frozen_lake/seed-0") == 1  # linked, not made


def test_a_failed_cell_leaves_no_margin_and_the_same_command_goes_on(arena, runs):
    acts = {"frozen_lake/grpo/seed-0": "raise once"}
    words = [*SMALL, "--learning-rates", "1,2", "--updates", "1"]
    words[2] = "grpo"
    result = arena(*words, acts=acts)
    assert result.code == 1
    margin = " ".join(result.out.split("\n\n")[1].splitlines()[1].split())
    assert margin == "frozen_lake grpo 2 of 3 - - 2 of 3 seeds, 2 cells crashed"
    (found,) = json.loads((runs / "s/stress.json").read_text())["results"]
    assert (found["margin"], found["why_no_margin"]) == (None, "2 of 3 seeds, 2 cells crashed")
    assert "  lr-2-updates-1/frozen_lake/grpo/seed-0: RuntimeError: no luck" in result.out
    assert "Run what failed again with:\n  arena stress --algos grpo" in result.out
    again = arena(*words, acts=acts)
    assert (again.code, "3 of 3" in again.out) == (0, True)


def test_a_stress_test_holds_its_folder_at_every_point(arena, arena_process, runs):
    words = [*SMALL, "--learning-rates", "1", "--updates", "1"]
    words[2] = "grpo"
    assert arena(*words).code == 0  # the tier's own cells are done: what follows is at another point
    words[-3] = "1,2"
    process = arena_process(*words, acts={"frozen_lake/grpo/seed-0": "wait once"})
    cell = runs / "s/stress/lr-2-updates-1/cells/frozen_lake/grpo/seed-0"
    wait_for((cell / "waiting").exists, "a cell to be at step 1", 30)
    again = arena(*words)
    fresh = arena("run", "--algos", "grpo", "--envs", "frozen_lake", "--name", "s", "--fresh")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=20)
    for refused in (again, fresh):
        assert (refused.code, refused.out) == (2, "")
        assert f"'s' is in use by another arena process ({process.pid})" in refused.err
    assert (process.returncode, "Stopped by SIGINT" in out) == (1, True), err
    assert arena(*words).code == 0
    assert attempts(cell) == 2


def test_dry_run_leaves_out_what_is_beyond_and_writes_nothing(arena, runs):
    result = arena(*SMALL, "--dry-run")
    assert result.code == 0
    assert not runs.exists()
    assert "6 points. To run: 36 of 36 cells, 3 BC starts." in result.out
    arena(*SMALL)
    assert "6 points. To run: 0 of 36 cells, 0 BC starts." in arena(*SMALL, "--dry-run").out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--learning-rates", "2,4"], "--learning-rates has to hold 1, the tier itself"),
        (["--learning-rates", "1,-2"], "--learning-rates takes a comma list of factors, positive numbers"),
        (["--learning-rates", "1,0"], "--learning-rates takes a comma list of factors, positive numbers"),
        (["--learning-rates", "1,2,2.0"], "--learning-rates: a factor is given twice; given '1,2,2.0'."),
        (["--updates", "1,1.5"], "--updates takes a comma list of factors, whole numbers from 1, e.g. 1,2,4"),
        (["--updates", ""], "--updates takes a comma list of factors"),
        (["--algos", "grop"], "--algos: unknown algorithm 'grop'. Did you mean 'grpo'?"),
        (["--seeds", "1", "--num-seeds", "2"], "exclude each other"),
        (["--name", "../up"], "--name takes letters"),
    ],
)
def test_wrong_usage_exits_with_two_and_writes_nothing(arena, runs, words, message):
    result = arena("stress", "--envs", "frozen_lake", *words)
    assert (result.code, result.out) == (2, "")
    assert message in result.err
    assert not runs.exists()


def test_another_recipe_under_the_same_name_is_refused(arena, runs):
    arena(*SMALL)
    result = arena(*SMALL, "--set", "kl.coef=0.5")
    assert result.code == 2
    assert "kl.coef: 0.01 there, 0.5 now" in result.err
    assert result.err.endswith("Choose another --name, or undo the change to go on with this stress test.\n")

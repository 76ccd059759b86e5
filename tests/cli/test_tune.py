"""`arena tune` as typed, with fake jobs whose success is known: tests/launch/scored_jobs.py."""

import json
import re
import signal
import tomllib

import pytest

from arena.recipe import resolve
from tests.launch.fake_jobs import attempts
from tests.launch.test_signals import wait_for

SMALL = ("tune", "--algos", "grpo,cispo", "--envs", "frozen_lake", "--name", "t", "--workers", "1")


def table(out):
    """The rows of the result table, split."""
    lines = out.splitlines()
    header = next(k for k, line in enumerate(lines) if line.startswith("environment"))
    rows = []
    for line in lines[header:]:
        if not line:
            break
        rows.append(line.split())
    return rows


def test_a_tune_ends_with_scores_a_choice_and_a_tier_that_runs(arena, runs):
    result = arena(*SMALL)

    assert result.code == 0, result.err
    # Means and spreads of scored_jobs.SUCCESSES at steps 9 and 10, by hand.
    assert table(result.out) == [
        ["environment", "algorithm", "trial", "optim.learning_rate", "success", "spread", "chosen"],
        ["frozen_lake", "grpo", "0", "0.0003", "0.500", "0.000"],
        ["frozen_lake", "grpo", "1", "0.0006", "0.700", "0.100", "*"],
        ["frozen_lake", "grpo", "2", "0.0012", "0.700", "0.255"],
        ["frozen_lake", "cispo", "0", "0.0003", "0.700", "0.000", "*"],
        ["frozen_lake", "cispo", "1", "0.0006", "0.675", "0.043"],
        ["frozen_lake", "cispo", "2", "0.0012", "0.000", "0.000"],
    ]
    assert "trial 0 (1 of 3): optim.learning_rate=0.0003; about " in result.err
    assert "frozen_lake/grpo/seed-1001  done in" in result.err
    command = f"arena run --algos grpo,cispo --envs frozen_lake --tier {runs}/t/tier.toml"
    assert result.out.endswith(f"with:\n  {command}\n")

    found = json.loads((runs / "t" / "tune.json").read_text())
    assert found["command"] == "arena tune --algos grpo,cispo --envs frozen_lake --name t --workers 1"
    assert (found["tier"], found["seeds"], found["set"]) == ("cpu", [1000, 1001], [])
    assert [t["settings"] for t in found["trials"]] == [
        {"optim.learning_rate": rate} for rate in (3e-4, 6e-4, 1.2e-3)
    ]
    assert found["trials"][2]["scores"][0] == {
        "env": "frozen_lake", "algo": "grpo", "mean": pytest.approx(0.7), "spread": pytest.approx(0.065**0.5),
        "values": 4, "chosen": False,
    }  # fmt: skip

    tier = tomllib.loads((runs / "t" / "tier.toml").read_text())
    sections = {"grpo": {"optim": {"learning_rate": 6e-4}}, "cispo": {"optim": {"learning_rate": 3e-4}}}
    assert (tier["base"], tier["envs"]) == ("cpu", {"frozen_lake": {"algos": sections}})
    assert arena(*command.split()[1:], "--name", "after").code == 0
    for algo in sections:
        recipe = json.loads((runs / f"after/cells/frozen_lake/{algo}/seed-0/recipe.json").read_text())
        assert (recipe["tier"], recipe["optim"]["learning_rate"]) == (
            "tier.toml",
            sections[algo]["optim"]["learning_rate"],
        )
        assert recipe["kl"] == resolve("cpu", "frozen_lake", algo, 0).kl.model_dump()


def test_cells_that_skipped_updates_are_named_with_their_trial(arena, monkeypatch):
    told = "frozen_lake/grpo/seed-1000 took no step in 4 of 4 updates"
    monkeypatch.setattr(
        "arena.launch.overview.warnings", lambda plan: [told] if plan.name == "trial-1" else []
    )
    assert f"\n\nWarning: trial-1/{told}\n\nChosen (*): " in arena(*SMALL).out


def test_starts_are_made_once_and_shared(arena, runs):
    arena(*SMALL)
    for seed in (1000, 1001):
        start = f"bc/frozen_lake/seed-{seed}/pid"
        made = runs / "t" / "trial-0" / start
        assert all((runs / "t" / f"trial-{k}" / start).samefile(made) for k in (1, 2))


def test_failed_cells_leave_no_choice_and_the_same_command_goes_on(arena, runs):
    result = arena(*SMALL, acts={"frozen_lake/cispo/seed-1001": "raise once"})

    assert result.code == 1
    assert "  trial-2/frozen_lake/cispo/seed-1001: RuntimeError: no luck in frozen_lake/cispo" in result.out
    assert (
        "Run what failed again with:\n  arena tune --algos grpo,cispo --envs frozen_lake --na" in result.out
    )
    assert ["frozen_lake", "cispo", "0", "0.0003", "-", "-"] in table(result.out)
    assert ["frozen_lake", "grpo", "1", "0.0006", "0.700", "0.100", "*"] in table(result.out)
    assert not (runs / "t" / "tier.toml").exists()

    again = arena(*SMALL, acts={"frozen_lake/cispo/seed-1001": "raise once"})
    assert again.code == 0, again.err
    assert (runs / "t" / "tier.toml").exists()
    assert ["frozen_lake", "cispo", "0", "0.0003", "0.700", "0.000", "*"] in table(again.out)
    for trial in range(3):
        cells = runs / "t" / f"trial-{trial}" / "cells" / "frozen_lake"
        assert attempts(cells / "cispo" / "seed-1001") == 2
        assert attempts(cells / "grpo" / "seed-1001") == 1

    third = arena(*SMALL)
    assert (third.code, third.out, third.err) == (0, again.out, "")


def test_an_interrupted_tune_resumes_with_the_command_that_it_prints(arena, arena_process, runs):
    process = arena_process(*SMALL, acts={"frozen_lake/grpo/seed-1000": "wait once"})
    cell = runs / "t" / "trial-0" / "cells" / "frozen_lake" / "grpo" / "seed-1000"
    wait_for((cell / "waiting").exists, "a cell to be at step 1", 30)
    busy = arena(*SMALL)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=20)

    assert busy.code == 2
    assert "'t' is in use by another arena process" in busy.err
    assert process.returncode == 1, err
    assert f"Stopped by SIGINT; resume with:\n  arena {' '.join(SMALL)}\n" in out
    assert not (runs / "t" / "trial-1").exists()
    again = arena(*SMALL)
    assert again.code == 0, again.err
    assert "frozen_lake/grpo/seed-1000  resumed after step 1" in again.err
    assert (runs / "t" / "tier.toml").exists()


def test_other_trials_or_recipes_under_the_same_name_are_refused(arena, runs):
    arena(*SMALL)
    before = sorted((p, p.stat().st_mtime_ns) for p in runs.rglob("*"))
    result = arena(*SMALL, "--grid", "optim.learning_rate=3e-4,5e-4")
    assert result.code == 2
    assert "--grid: tune 't' was made with other trials: " in result.err
    result = arena(*SMALL, "--set", "kl.coef=0.5")
    assert result.code == 2
    assert "kl.coef: 0.01 there, 0.5 now" in result.err
    assert result.err.endswith("Choose another --name, or undo the change to go on with this tune.\n")
    result = arena("run", *SMALL[1:])
    assert result.code == 2
    assert "is not an Arena run" in result.err
    assert sorted((p, p.stat().st_mtime_ns) for p in runs.rglob("*")) == before


def test_methods_and_trials_may_be_added(arena, runs):
    words = [*SMALL, "--grid", "optim.learning_rate=3e-4,6e-4"]
    words[words.index("grpo,cispo")] = "grpo"
    assert arena(*words).code == 0
    result = arena(*SMALL)
    assert result.code == 0, result.err
    assert len(table(result.out)) == 1 + 6
    assert attempts(runs / "t/trial-0/cells/frozen_lake/grpo/seed-1000") == 1


def test_dry_run_shows_trials_and_cells_with_time_and_writes_nothing(arena, runs):
    words = [*SMALL, "--grid", "optim.learning_rate=3e-4,6e-4", "--grid", "kl.coef=0,0.01"]
    result = arena(*words, "--num-seeds", "1", "--dry-run")

    assert result.code == 0
    assert not runs.exists()
    trials, cells = result.out.split("\n\n")[1:3]
    assert [line.split() for line in trials.splitlines()] == [
        ["trial", "optim.learning_rate", "kl.coef"],
        ["0", "3e-4", "0"],
        ["1", "3e-4", "0.01"],
        ["2", "6e-4", "0"],
        ["3", "6e-4", "0.01"],
    ]
    rows = [line.split()[:5] for line in cells.splitlines()[1:]]
    assert rows == [["0", "frozen_lake", "bc", "1000", "run"]] + [
        [str(k), "frozen_lake", algo, "1000", "run"] for k in range(4) for algo in ("grpo", "cispo")
    ]
    assert "4 trials. To run: 8 of 8 cells, 1 BC starts. About " in result.out

    arena(*words, "--num-seeds", "1", acts={"frozen_lake/grpo/seed-1000": "raise"})
    result = arena(*words, "--num-seeds", "1", "--dry-run")
    assert "4 trials. To run: 4 of 8 cells, 0 BC starts." in result.out
    assert re.search(r"^2 +frozen_lake +cispo +1000 +done", result.out, re.MULTILINE)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--algos", "grop"], "--algos: unknown algorithm 'grop'. Did you mean 'grpo'?"),
        (["--envs", "sokobann"], "--envs: unknown environment 'sokobann'. Did you mean 'sokoban'?"),
        (["--tier", "none.toml"], "--tier: 'none.toml' cannot be read (No such file or directory)."),
        (["--grid", "kl.coeff=1,2"], "unknown recipe field 'kl.coeff'. Did you mean 'kl.coef'?"),
        (["--num-seeds", "0"], "Invalid value for '--num-seeds': it takes a whole number from 1; given '0'."),
        (["--seeds", "1", "--num-seeds", "2"], "--num-seeds and --seeds exclude each other; give one of them."),
        (["--seeds", ""], "--seeds takes a comma list of whole numbers from 0"),
        (["--fresh"], "No such option: --fresh"),
    ],
)  # fmt: skip
def test_wrong_usage_exits_with_two_and_writes_nothing(arena, runs, words, message):
    result = arena("tune", *words)
    assert result.code == 2
    assert message in result.err
    assert result.out == ""
    assert not runs.exists()

"""Run, run again, report: the first quarter of an hour of a person, with real but very small training."""

import json
import re
from itertools import pairwise
from pathlib import Path

import pytest

from arena.cli import run as run_command
from arena.cli import tune as tune_command
from arena.launch.local import Setup
from tests.algorithms.test_user import readme_example
from tests.envs.test_user import page_example

TINY = [
    "run", "--algos", "grpo,sampo", "--envs", "frozen_lake", "--steps", "2", "--workers", "1",
    "--name", "tiny", "--set", "bc.steps=2", "--set", "bc.episodes=30", "--set", "bc.batch_size=8",
    "--set", "env.max_turns=6",
    "--set", "rollout.groups=2", "--set", "rollout.group_size=2", "--set", "eval.episodes=4",
]  # fmt: skip


@pytest.mark.slow
def test_run_again_and_report(arena, runs: Path, monkeypatch):
    monkeypatch.setattr(run_command, "Setup", Setup)  # real jobs
    result = arena(*TINY)

    assert result.code == 0, result.err
    assert "grpo       0.00 -> 0.00" in result.out
    manifest = json.loads((runs / "tiny" / "manifest.json").read_text())
    assert {row["state"] for row in manifest["starts"] + manifest["cells"]} == {"done"}
    cell = runs / "tiny" / "cells" / "frozen_lake" / "sampo" / "seed-0"
    assert {p.name for p in cell.iterdir()} >= {
        "recipe.json",
        "status.json",
        "steps.parquet",
        "evals.parquet",
        "checkpoint",
    }

    written = (cell / "steps.parquet").stat().st_mtime_ns
    again = arena(*TINY)
    assert again.code == 0
    assert again.err == ""
    assert again.out == result.out
    assert (cell / "steps.parquet").stat().st_mtime_ns == written

    report = arena("report")
    assert report.code == 0, report.err
    assert [Path(line).name for line in report.out.splitlines()] == ["report.html", "report.pdf"]
    assert all(Path(line).stat().st_size > 1000 for line in report.out.splitlines())


@pytest.mark.slow
def test_tune_then_run_on_the_tier_that_it_wrote(arena, runs: Path, monkeypatch):
    for command in (run_command, tune_command):
        monkeypatch.setattr(command, "Setup", Setup)  # real jobs
    sizes = [word for pair in pairwise(TINY) if pair[0] == "--set" for word in pair]
    sizes += ["--set", "steps=1", "--set", "bc.expert_noise=0.2"]
    words = ["--algos", "grpo,sampo", "--envs", "frozen_lake", "--workers", "1"]
    tune = [
        "tune",
        *words,
        *sizes,
        "--name",
        "t",
        "--num-seeds",
        "1",
        "--grid",
        "optim.learning_rate=1e-3,2e-3",
    ]
    result = arena(*tune)

    assert result.code == 0, result.err
    found = json.loads((runs / "t" / "tune.json").read_text())
    scores = [(score["mean"], score["values"]) for trial in found["trials"] for score in trial["scores"]]
    assert scores == [(0.0, 1)] * 4  # a model that was hardly cloned
    # All tie: the change from the tier's 6e-4 to 1e-3 is the smaller one.
    assert [score["chosen"] for trial in found["trials"] for score in trial["scores"]] == [True] * 2 + [
        False
    ] * 2
    again = arena(*tune)
    assert (again.code, again.out, again.err) == (0, result.out, "")

    tier = str(runs / "t" / "tier.toml")
    after = arena("run", *words, "--tier", tier, "--seeds", "1000", "--name", "after", "--reuse", "t/trial-0")
    assert after.code == 0, after.err
    # The start is the tune's; the cells' recipes are the chosen ones under the tier's name.
    assert "frozen_lake/bc/seed-1000" not in after.err
    for algo in ("grpo", "sampo"):
        ours, theirs = (
            json.loads((runs / run / "cells/frozen_lake" / algo / "seed-1000/recipe.json").read_text())
            for run in ("after", "t/trial-0")
        )
        assert (ours["tier"], theirs["tier"]) == ("tier.toml", "cpu")
        same = ours.keys() - {"tier", "hash"}
        assert {key: ours[key] for key in same} == {key: theirs[key] for key in same}


@pytest.mark.slow
def test_a_users_own_method_is_trained_and_resumed(arena, runs: Path, monkeypatch, tmp_path):
    monkeypatch.setattr(run_command, "Setup", Setup)  # real jobs
    monkeypatch.chdir(tmp_path)
    code = readme_example()
    Path("mine.py").write_text(code)
    words = [*TINY, "--steps", "1"]
    words[words.index("grpo,sampo")] = "./mine.py:my_method:width=0.3"
    result = arena(*words)

    assert result.code == 0, result.err
    recipe = json.loads(
        (runs / "tiny/cells/frozen_lake/mine.py:my_method:width=0.3/seed-0/recipe.json").read_text()
    )
    assert recipe["algorithm"] == "./mine.py:my_method:width=0.3"
    # The same file: nothing to do. Another: another recipe, which is refused.
    assert arena(*words).code == 0
    Path("mine.py").write_text(code + "# changed\n")
    refused = arena(*words)
    assert refused.code == 2
    assert "the file ./mine.py has other content" in refused.err


@pytest.mark.slow
def test_a_users_own_environment_is_trained_and_resumed(arena, runs: Path, monkeypatch, tmp_path):
    monkeypatch.setattr(run_command, "Setup", Setup)  # real jobs
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(page_example())
    words = [*TINY]
    words[words.index("grpo,sampo")] = "grpo"
    words[words.index("frozen_lake")] = "./mine.py:Line"
    result = arena(*words)

    assert result.code == 0, result.err
    assert "line" in result.out
    cell = runs / "tiny/cells/line/grpo/seed-0"
    status = json.loads((cell / "status.json").read_text())
    assert (status["state"], status["step"]) == ("done", 2)
    recipe = json.loads((cell / "recipe.json").read_text())
    assert (recipe["env"]["name"], list(recipe["env"]["code"])) == ("line", ["./mine.py:Line"])
    # The same file: nothing to do. Another: another recipe, which is refused.
    assert arena(*words).code == 0
    Path("mine.py").write_text(page_example() + "# changed\n")
    refused = arena(*words)
    assert refused.code == 2
    assert "the file ./mine.py has other content" in refused.err
    assert arena("report").code == 0


@pytest.mark.slow
def test_a_method_whose_loss_is_nan_does_not_pass_for_stable(arena, runs: Path, monkeypatch, tmp_path):
    monkeypatch.setattr(run_command, "Setup", Setup)  # real jobs
    monkeypatch.chdir(tmp_path)
    Path("nan.py").write_text(
        # Not on the two rows on which a plan tries a method: that is refused.
        readme_example().replace(
            "ratio * advantage", "ratio * advantage * (float('nan') if len(ratio) > 2 else 1.0)"
        )
    )
    words = [*TINY, "--steps", "1"]
    words[words.index("grpo,sampo")] = "nan.py:my_method"
    result = arena(*words)

    assert result.code == 0, result.err
    told = re.search(
        r"Warning: frozen_lake/nan.py:my_method/seed-0 took no step in (\d) of \1 updates", result.out
    )
    assert told
    assert int(told[1]) >= 1
    assert arena("report").code == 0
    page = (runs / "tiny" / "report" / "report.html").read_text()
    assert f"took no step in {told[1]} of {told[1]} updates" in page
    assert "it did not learn as it was meant to" in page

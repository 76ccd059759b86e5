"""The other commands: list, env, report, help, version."""

import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from arena.algorithms.catalog import CATALOG, MODIFIERS
from arena.analysis.detectors import DETECTORS
from arena.cli import tables
from arena.envs import ENVS
from arena.recipe import resolve
from arena.records.files import write_json

ROOT = Path(__file__).parents[2]


def test_version(arena):
    assert arena("--version").out == "arena 0.1.0\n"


@pytest.mark.parametrize("words", [(), ("list",), ("env",)])
def test_without_arguments_there_is_help(arena, words):
    result = arena(*words)
    assert result.code == 2
    assert "Usage: arena" in result.out + result.err


def test_help_names_every_option_and_shows_examples(arena):
    text = arena("run", "--help").out
    options = set(re.findall(r"--[a-z-]+", text))
    assert options >= {
        "--algos",
        "--envs",
        "--tier",
        "--num-seeds",
        "--seeds",
        "--steps",
        "--name",
        "--workers",
    }
    assert options >= {"--runs-dir", "--set", "--dry-run", "--fresh", "--reuse"}
    assert "arena run --algos all --envs sokoban --num-seeds 5 --dry-run" in text


@pytest.mark.parametrize("command", ["rnu", "reprot"])
def test_unknown_commands_get_a_suggestion(arena, command):
    result = arena(command)
    assert result.code == 2
    assert f"unknown command '{command}'. Did you mean " in result.err
    assert "Allowed: claims, compare, " in result.err


@pytest.mark.parametrize(
    ("what", "names"),
    [
        ("algos", list(CATALOG)),
        ("modifiers", list(MODIFIERS)),
        ("envs", list(ENVS)),
        ("tiers", ["cpu"]),
        ("detectors", list(DETECTORS)),
    ],
)
def test_lists(arena, what, names):
    rows = json.loads(arena("list", what, "--json").out)
    assert set(names) <= {row["name"] for row in rows}
    assert all(row.keys() == rows[0].keys() for row in rows)
    lines = arena("list", what).out.partition("\n\n")[0].splitlines()
    assert [line.split()[0] for line in lines] == ["name", *(row["name"] for row in rows)]


def test_the_methods_are_followed_by_the_modifiers(arena):
    assert arena("list", "algos").out.endswith(f"of any of them:\n\n{arena('list', 'modifiers').out}")


def test_fields_are_texts_for_people_and_values_for_programs(arena):
    rows = {row.pop("field"): row for row in json.loads(arena("list", "fields", "--json").out)}
    assert rows["record.enabled"]["value"] is True
    assert rows["optim.minibatches"]["value"] == 4
    assert rows["env.options"]["value"] == {}
    types = {"integer": int, "number": int | float, "boolean": bool, "string": str, "object": dict}
    assert all(isinstance(row["value"], types[row["type"]]) for row in rows.values())
    assert rows["kl.coef"]["type"] == "number"
    for name in ENVS:
        recipe = resolve("cpu", name, "grpo", 0).model_dump(mode="json")
        for field, row in rows.items():
            *sections, leaf = field.split(".")
            given = recipe[sections[0]][leaf] if sections else recipe[leaf]
            assert row["environments"].get(name, row["value"]) == given, field
    (line,) = (row for row in arena("list", "fields").out.splitlines() if row.startswith("env.options "))
    assert (
        re.split(r" {2,}", line)[1]
        == "{} (sokoban { max_solution = 6 }, alfworld { receptacles = 7, objects = 8 }, tir_math { digits = 2, "
        'hard = 0.8, steps = 1, kinds = ["sum", "relation", "multiples", "power"] })'
    )


@pytest.mark.parametrize(
    ("width", "shown"),
    [
        (60, ["name  summary", "a     words words words words words words", "b     -"]),
        (40, ["name  summary", "a     words words words words words", "      words", "b     -"]),
        (34, ["a", "  summary  words words words words", "           words words", "b"]),
    ],
)
def test_a_terminal_gets_a_table_or_blocks_where_it_is_too_narrow(monkeypatch, capsys, width, shown):
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    tables.show([{"name": "a", "summary": "words " * 5 + "words"}, {"name": "b", "summary": "-"}])
    plain = re.sub(r"\x1b\[\d*m", "", capsys.readouterr().out)
    lines = [line.rstrip() for line in plain.splitlines()]
    assert [line for line in lines if line.strip(" ─")] == shown


def test_env_check_passes_and_fails(arena, monkeypatch):
    from arena.envs import check

    result = arena("env", "check", "frozen_lake")
    assert result.code == 0
    assert "FAIL" not in result.out
    monkeypatch.setattr(
        check, "check_env", lambda config: [check.CheckResult("turn limit", False, str(config.max_turns))]
    )
    result = arena("env", "check", "frozen_lake", "--set", "env.max_turns=3")
    assert result.code == 1
    assert result.out.splitlines()[1].split() == ["turn", "limit", "FAIL", "3"]


def test_env_names_are_checked(arena):
    result = arena("env", "check", "frozenlake")
    assert result.code == 2
    assert "unknown environment 'frozenlake'. Did you mean 'frozen_lake'?" in result.err


def test_env_play_asks_a_person(arena, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("q\n"))
    result = arena("env", "play", "frozen_lake", "--seed", "3")
    assert result.code == 0
    assert "You left after 0 turns" in result.out


def test_report_is_built_for_the_latest_run_by_default(arena, runs, monkeypatch, tmp_path):
    built = []

    def build(run, out, tell):
        built.append((run, out))
        tell("reading 2 cells")
        return [out / "report.html"]

    monkeypatch.setattr("arena.report.build_report", build)
    for age, name in enumerate(["new", "old"]):
        write_json(runs / name / "manifest.json", {})
        os.utime(runs / name / "manifest.json", (2e9 - age, 2e9 - age))
    result = arena("report")
    assert result.out == f"{runs / 'new' / 'report' / 'report.html'}\n"
    assert re.fullmatch(r"\d\d:\d\d:\d\d  reading 2 cells\n", result.err)
    arena("report", "old", "--out", str(tmp_path / "out"))
    assert built == [(runs / "new", runs / "new" / "report"), (runs / "old", tmp_path / "out")]
    result = arena("report", "odl")
    assert result.code == 2
    assert "unknown run 'odl'. Did you mean 'old'?" in result.err


def test_report_without_runs(arena):
    result = arena("report")
    assert result.code == 2
    assert "no run in" in result.err


def test_a_closed_pipe_is_quiet():
    command = f"{sys.executable} -m arena --help | true"
    done = subprocess.run(["bash", "-c", command], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_fast_commands_do_not_import_torch():
    code = "import sys, arena.cli; sys.exit(bool({'torch', 'pandas', 'pyarrow'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0

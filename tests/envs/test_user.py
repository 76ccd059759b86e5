"""Environments from files and installed packages: the example of the docs, and what wrong ones are told."""

import re
from importlib.metadata import EntryPoint
from pathlib import Path
from types import SimpleNamespace

import pytest

from arena import envs, recipe
from arena.envs import env_class, make_env, name_and_code
from arena.envs.check import check_env
from arena.errors import UsageError
from arena.launch.plan import Options, build
from arena.recipe import ENV_ENTRY_POINTS, EnvConfig, resolve
from arena.training.bc import shared_words

PAGE = Path(__file__).parents[2] / "docs" / "envs" / "writing-your-own.md"


def page_example() -> str:
    (code,) = re.findall(r"```python\n(# line\.py.*?)```", PAGE.read_text(), re.DOTALL)
    return code


@pytest.fixture
def mine(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "line.py"
    path.write_text(page_example())
    return path


def config(spec="./line.py:Line", **fields):
    name, code = name_and_code(spec)
    return EnvConfig(name=name, code=code, **fields)


@pytest.mark.parametrize("observation", ["compact", "full"])
def test_the_example_keeps_the_contract(mine, observation):
    results = check_env(config(observation=observation))
    assert [result for result in results if not result.passed] == []


def test_the_example_plays(mine):
    env = make_env(config(max_turns=9))
    env.reset(seed=0)
    env.at, env.goal = 3, 5
    assert env.thought() == "you 3 goal 5 goal east"
    assert env.step(env.expert_action())[:3] == ("you 4 goal 5", 0.0, False)
    assert env.step("right")[:3] == ("you 5 goal 5", 1.0, True)


def test_a_changed_file_is_another_recipe_and_another_start(mine):
    def made():
        name, code = name_and_code("./line.py:Line")
        return resolve("cpu", name, "grpo", 0, env_code=code)

    before = made()
    assert (before.env.name, before.env.spec) == ("line", "./line.py:Line")
    assert env_class(before.env.spec).summary == "Walk along a line to the goal."
    mine.write_text(page_example().replace("Walk along", "Go along"))
    after = made()
    assert before.hash != after.hash
    assert before.start_hash != after.start_hash
    assert env_class(after.env.spec).summary == "Go along a line to the goal."
    with pytest.raises(UsageError, match=r"the code of './line\.py:Line' changed since the run was planned"):
        make_env(before.env)


def test_arenas_own_environments_have_no_code_in_their_recipes():
    made = resolve("cpu", "sokoban", "grpo", 0)
    assert made.env.spec == "sokoban"
    assert "code" not in made.model_dump(mode="json")["env"]
    assert "code" not in made.start_fields()["env"]


def test_its_words_join_the_tokenizer(mine):
    assert set(shared_words("./line.py:Line")) - set(shared_words()) == {"line", "you"}
    assert shared_words("sokoban") == shared_words()


def test_a_plan_goes_by_the_name_of_the_class(mine, tmp_path):
    (tmp_path / "own.toml").write_text('base = "cpu"\n[envs.line.env]\nmax_turns = 12\n')
    plan = build(Options("grpo", "./line.py:Line,sokoban", "own.toml", name="r"))
    assert [cell.label for cell in plan.cells] == ["line/grpo/seed-0", "sokoban/grpo/seed-0"]
    assert plan.cells[0].directory == Path("runs/r/cells/line/grpo/seed-0")
    assert plan.starts[0].directory == Path("runs/r/bc/line/seed-0")
    assert plan.cells[0].recipe.env.max_turns == 12
    assert plan.cells[1].recipe == resolve("own.toml", "sokoban", "grpo", 0)
    with pytest.raises(UsageError, match=r"--tier: 'own\.toml', envs\.line: unknown environment 'line'"):
        build(Options("grpo", "sokoban", "own.toml", name="r"))


def test_two_of_one_name_are_refused(mine):
    mine.with_name("other.py").write_text(page_example())
    with pytest.raises(
        UsageError, match=r"--envs: './line\.py:Line' and 'other\.py:Line' are both called 'line'"
    ):
        build(Options("grpo", "./line.py:Line,other.py:Line", name="r"))


@pytest.mark.parametrize(
    ("change", "spec", "message"),
    [
        ((), "./line.py", "'./line.py': a file needs the environment's class, as in './mine.py:MyEnv'."),
        (
            (),
            "./line.py:Lane",
            "unknown environment 'Lane' of ./line.py. Did you mean 'Line'? Allowed: Line.",
        ),
        (
            (),
            "./line.py:TextEnv",
            "'./line.py:TextEnv' is the class TextEnv; it must be a subclass of arena.envs.base",
        ),
        (
            ("class Line(TextEnv)", "class Line"),
            "./line.py:Line",
            "'./line.py:Line' is the class Line; it must be a",
        ),
        (
            ("class Line(TextEnv)", "Line = 3\nclass X"),
            "./line.py:Line",
            "'./line.py:Line' is a int; it must be a sub",
        ),
        (
            ("def thought", "def think"),
            "./line.py:Line",
            "'./line.py:Line' lacks thought (docs/envs/writing-your",
        ),
        (("def step", "def stop"), "./line.py:Line", "'./line.py:Line' lacks step (docs/"),
        (('    name = "line"\n', ""), "./line.py:Line", "'./line.py:Line' lacks name (docs/"),
        (("vocabulary = (", "words = ("), "./line.py:Line", "'./line.py:Line' lacks vocabulary (docs/"),
        (
            ('name = "line"', 'name = "../line"'),
            "./line.py:Line",
            "'./line.py:Line': its name is what its folder",
        ),
        (
            ('name = "line"', 'name = "sokoban"'),
            "./line.py:Line",
            "'./line.py:Line': its name 'sokoban' is that of",
        ),
        (("import TextEnv", "import TestEnv"), "./line.py:Line", "line.py does not run: ImportError: "),
        (
            ('("line", "you"', '("line", 3'),
            "./line.py:Line",
            "'./line.py:Line': its vocabulary is a tuple of words",
        ),
        (
            (),
            "./none.py:Line",
            "'none.py' cannot be read (No such file or directory); given as path.py:name.",
        ),
        ((), "lines", "unknown environment 'lines'. Allowed: "),
    ],
)
def test_wrong_ones(mine, change, spec, message):
    if change:
        assert change[0] in page_example()
        mine.write_text(page_example().replace(*change))
    with pytest.raises(UsageError) as error:
        name_and_code(spec)
    assert str(error.value).startswith(message)
    with pytest.raises(UsageError, match=r"^--envs: "):
        build(Options("grpo", spec, name="r"))


def test_refused_options_are_told_with_the_environments_name(mine):
    with pytest.raises(UsageError, match="unknown option 'cells' of environment 'line'"):
        make_env(config(options={"cells": 3}))


def test_installed_environments(mine, monkeypatch):
    (mine.parent / "arena_env_plugin.py").write_text(page_example())
    monkeypatch.syspath_prepend(mine.parent)
    dist = SimpleNamespace(name="arena-line", version="1.2")
    good = EntryPoint("walk", "arena_env_plugin:Line", ENV_ENTRY_POINTS)
    offered = SimpleNamespace(name="walk", value=good.value, load=good.load, dist=dist)
    entries = {"walk": offered, "broken": EntryPoint("broken", "arena_env_plugin:Nothing", ENV_ENTRY_POINTS)}
    monkeypatch.setattr(envs, "installed", lambda group: entries if group == ENV_ENTRY_POINTS else {})
    assert name_and_code("walk") == ("line", {"walk": "arena-line==1.2"})
    assert make_env(config("walk")).name == "line"
    with pytest.raises(UsageError, match=r"entry point 'broken' of arena\.envs .* does not load"):
        name_and_code("broken")
    with pytest.raises(UsageError, match=r"unknown environment 'walks'\. Did you mean 'walk'\?"):
        name_and_code("walks")
    *ours, walk, broken = envs.table()
    assert [row["name"] for row in ours] == list(envs.ENVS)
    assert walk == {"name": "walk", "summary": "Walk along a line to the goal.", "source": "arena-line 1.2"}
    assert (broken["name"], broken["summary"]) == ("broken", "-")
    assert broken["source"].startswith("arena_env_plugin:Nothing: entry point 'broken' of arena.envs")


def test_entry_points_are_those_of_the_group(monkeypatch):
    entry = EntryPoint("walk", "somewhere:Line", "arena.envs")
    monkeypatch.setattr(recipe, "entry_points", lambda *, group: [entry] if group == "arena.envs" else [])
    assert recipe.installed.__wrapped__(ENV_ENTRY_POINTS) == {"walk": entry}

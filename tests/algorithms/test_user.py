"""Methods from files and installed packages: the README's own, and what wrong ones are told."""

import os
import re
import sys
from dataclasses import dataclass, replace
from importlib.metadata import EntryPoint
from math import exp, log, tanh
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from arena import recipe
from arena.algorithms import LossInputs, catalog, get_algorithm, policy_loss
from arena.errors import UsageError
from arena.recipe import ALGORITHM_ENTRY_POINTS, code_of, resolve

README = Path(__file__).parents[2] / "README.md"


def readme_example() -> str:
    (code,) = re.findall(r"```python\n(# mine\.py\n.*?)```", README.read_text(), re.DOTALL)
    return code


@pytest.fixture
def mine(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "mine.py"
    path.write_text(readme_example())
    return path


def test_the_method_of_the_readme(mine):
    inputs = LossInputs(
        logprob=torch.tensor([[log(2.0)]]),
        old_logprob=torch.zeros(1, 1),
        advantage=torch.ones(1, 1),
        mask=torch.ones(1, 1, dtype=torch.bool),
    )
    for spec, width in (("./mine.py:my_method", 0.2), (f"{mine}:my_method:width=0.3+seqmask", 0.3)):
        algorithm = get_algorithm(spec)
        assert algorithm.name == spec
        out = policy_loss(inputs, algorithm)
        assert out.loss.item() == pytest.approx(-exp(width * tanh(log(2.0) / width)))


def test_a_function_may_make_the_method_and_parts_of_the_tier_reach_it(mine):
    mine.write_text(
        "from arena.algorithms import get_algorithm\ndef made():\n    return get_algorithm('gspo')\n"
    )
    tier = {"sequence_clip": {"clip_low": 0.5}}
    assert get_algorithm("./mine.py:made", tier).clip.clip_low == 0.5


def test_a_changed_file_is_run_again_and_is_another_recipe(mine, monkeypatch):
    """Also when its size and time are the same, by which Python takes byte code for current."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    before = resolve("cpu", "sokoban", "./mine.py:my_method", 0)
    assert get_algorithm("./mine.py:my_method").clip.width == 0.2
    time = mine.stat().st_mtime_ns
    mine.write_text(readme_example().replace("0.2", "0.4"))
    os.utime(mine, ns=(time, time))
    assert get_algorithm("./mine.py:my_method").clip.width == 0.4
    after = resolve("cpu", "sokoban", "./mine.py:my_method", 0)
    assert before.hash != after.hash
    assert before.start_hash == after.start_hash
    assert list(after.code) == ["./mine.py"]
    assert [p.name for p in mine.parent.iterdir()] == ["mine.py"]


def test_folders_with_a_plus_and_modifiers_with_spaces(mine):
    folder = mine.parent / "c++code"
    folder.mkdir()
    mine.rename(folder / "mine.py")
    algorithm = get_algorithm("./c++code/mine.py:my_method:width=0.5 + gigpo:omega=2")
    assert (algorithm.clip.width, algorithm.advantage.omega) == (0.5, 2.0)


def test_parameters_of_parts_by_their_kind(mine):
    mine.write_text(
        readme_example().replace(
            "    width: float = 0.2\n",
            "    width: float = 0.2\n    on: bool = True\n    what: object = None\n",
        )
    )
    assert get_algorithm("./mine.py:my_method:on=false").clip.on is False
    with pytest.raises(UsageError, match=r"parameter on of .* takes true or false; given 'no'\."):
        get_algorithm("./mine.py:my_method:on=no")
    with pytest.raises(UsageError, match=r"parameter what of .* cannot be set: "):
        get_algorithm("./mine.py:my_method:what=3")


def test_a_part_that_is_no_dataclass_is_named(mine):
    mine.write_text(readme_example().replace("@dataclass(frozen=True)\n", ""))
    with pytest.raises(
        UsageError, match=r"the clip of '\./mine\.py:my_method' must be an instance of a data"
    ):
        get_algorithm("./mine.py:my_method")


def test_a_part_without_a_kind_is_named(monkeypatch):
    """Under the type checker of the tests it cannot be made; a user has none."""

    @dataclass(frozen=True)
    class Bare:
        width: float = 0.2

    algorithm = replace(get_algorithm("grpo"))
    object.__setattr__(algorithm, "clip", Bare())
    monkeypatch.setattr(catalog.user, "load_file", lambda reference, kind: algorithm)
    with pytest.raises(UsageError, match=r"the clip of '\./mine\.py:my_method', a Bare, lacks `kind`"):
        get_algorithm("./mine.py:my_method")


def test_a_part_that_takes_the_kind_of_another_is_told_which(mine):
    mine.write_text(readme_example().replace('"squash"', '"sequence_clip"'))
    tier = {"sequence_clip": {"clip_low": 0.5}}
    with pytest.raises(UsageError, match=r"Squash has the kind 'sequence_clip' .* but no clip_low, which"):
        get_algorithm("./mine.py:my_method", tier)
    assert get_algorithm("./mine.py:my_method").clip.width == 0.2


@pytest.mark.parametrize(
    ("code", "spec", "message"),
    [
        (
            "",
            "./mine.py",
            "'./mine.py': a file needs the method's name, as in './mine.py:my_method'.",
        ),
        ("", "./mine.py:x", "unknown algorithm 'x' of ./mine.py. Allowed: (none)."),
        ("x = 3", "./mine.py:x", "unknown algorithm 'x' of ./mine.py. Allowed: (none)."),
        ("def x():\n    return 3", "./mine.py:x", "'./mine.py:x' is of type int; it must be an Algorithm."),
        ("def x():\n    raise KeyError(3)", "./mine.py:x", "'./mine.py:x' fails: KeyError(3)."),
        ("def x(a):\n    return a", "./mine.py:x", "unknown algorithm 'x' of ./mine.py. Allowed: (none)."),
        ("1 / 0", "./mine.py:x", "mine.py does not run: ZeroDivisionError: division by zero."),
        ("raise SystemExit(3)", "./mine.py:x", "mine.py does not run: SystemExit: 3."),
        ("import", "./mine.py:x", "mine.py does not run: SyntaxError: "),
        (None, "./mine.py:x", "'mine.py' cannot be read (No such file or directory); given as path.py:name."),
    ],
)
def test_wrong_files(mine, code, spec, message):
    mine.unlink() if code is None else mine.write_text(code)
    with pytest.raises(UsageError) as error:
        get_algorithm(spec)
    assert str(error.value).startswith(message)


def test_installed_methods(mine, monkeypatch):
    (mine.parent / "arena_test_plugin.py").write_text(readme_example())
    monkeypatch.syspath_prepend(mine.parent)
    entries = {
        "squash": EntryPoint("squash", "arena_test_plugin:my_method", ALGORITHM_ENTRY_POINTS),
        "broken": EntryPoint("broken", "arena_test_plugin:nothing", ALGORITHM_ENTRY_POINTS),
    }
    monkeypatch.setattr(catalog, "installed", lambda group: entries)
    assert get_algorithm("squash:width=0.7+gigpo").clip.width == 0.7
    with pytest.raises(UsageError, match=r"unknown algorithm 'squish'\. Did you mean 'squash'\?"):
        get_algorithm("squish")
    with pytest.raises(UsageError, match=r"entry point 'broken' of arena\.algorithms .* does not load"):
        get_algorithm("broken")


def test_installed_methods_are_listed_with_their_package(mine, monkeypatch):
    (mine.parent / "arena_listed_plugin.py").write_text(
        readme_example().replace('    summary = "token ratio, log ratio squashed"\n', "")
    )
    monkeypatch.syspath_prepend(mine.parent)
    info = mine.parent / "arena_squash-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: arena-squash\nVersion: 1.2\n")
    (info / "entry_points.txt").write_text(
        "[arena.algorithms]\nsquash = arena_listed_plugin:my_method\nbroken = arena_listed_plugin:nothing\n"
        "grpo = arena_listed_plugin:my_method\n"
    )
    monkeypatch.setattr(catalog, "installed", recipe.installed.__wrapped__)
    rows = {row["name"]: row for row in catalog.table()}
    assert list(rows) == [*catalog.CATALOG, "squash", "broken"]
    assert rows["squash"]["source"] == "arena-squash 1.2"
    assert rows["squash"]["ratio and clip"] == "squash"
    assert rows["squash"]["advantage"] == rows["grpo"]["advantage"]
    assert rows["broken"]["source"].startswith("arena-squash 1.2: entry point 'broken' of arena.algorithms")
    assert rows["broken"]["advantage"] == "-"
    assert rows["grpo"]["source"] == catalog.CATALOG["grpo"].source


def test_entry_points_are_those_of_the_group(monkeypatch):
    entry = EntryPoint("squash", "somewhere:method", "arena.algorithms")
    monkeypatch.setattr(
        recipe, "entry_points", lambda *, group: [entry] if group == "arena.algorithms" else []
    )
    assert recipe.installed.__wrapped__(ALGORITHM_ENTRY_POINTS) == {"squash": entry}


def test_the_version_of_an_installed_method_is_part_of_the_recipe(monkeypatch):
    dist = SimpleNamespace(name="arena-squash", version="1.2")
    entry = SimpleNamespace(name="squash", dist=dist)
    monkeypatch.setattr(recipe, "installed", lambda group: {"squash": entry})
    assert code_of("squash:width=0.7+gigpo") == {"squash": "arena-squash==1.2"}
    assert code_of("grpo+gigpo") == {}

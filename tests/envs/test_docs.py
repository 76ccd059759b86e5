"""The examples on the environments' pages are real output, and every option is on its page."""

import inspect
from pathlib import Path

import pytest

from arena.envs import make_env
from arena.envs.base import TextEnv
from arena.recipe import EnvConfig

PAGES = Path(__file__).parents[2] / "docs" / "envs"


@pytest.mark.parametrize("name", ["sokoban", "frozen_lake", "tir_math"])
def test_a_page_shows_what_the_environment_says(name):
    page = (PAGES / f"{name}.md").read_text()
    env = make_env(EnvConfig(name=name))
    observation, info = env.reset(seed=3)
    for example in (observation, env.thought(), *info["anchor"].split("\n")):
        assert f"    {example}\n" in page
    base = inspect.signature(TextEnv.__init__).parameters
    options = [option for option in inspect.signature(type(env).__init__).parameters if option not in base]
    assert [option for option in options if f"| `{option}` |" not in page] == []

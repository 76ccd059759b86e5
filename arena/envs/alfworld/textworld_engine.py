"""The original engine: TextWorld's PDDL environment with the domain and grammar of the `alfworld` package.

Needs `pip install "arlarena[alfworld]"`. One engine plays one game: loading takes tenths of a second, a step some
hundredths.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import contextmanager
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from typing import Any

from arena.envs.alfworld.pddl import problem
from arena.envs.alfworld.world import Game

_MISSING = """\
engine=textworld needs the packages alfworld and textworld, and they cannot be imported ({error}). Install them with \
pip install "arlarena[alfworld]", or play with engine=native."""


def original_game(game: Game) -> dict[str, str]:
    """A game as ALFWorld stores it: domain, grammar with the task's sentence, problem."""
    if game.source is not None:
        return {key: game.source[key] for key in ("pddl_domain", "grammar", "pddl_problem")}
    domain, grammar = logic()
    return {
        "pddl_domain": domain,
        "grammar": grammar.replace("UNKNOWN GOAL", game.sentence),
        "pddl_problem": problem(game),
    }


@cache
def logic() -> tuple[str, str]:
    """The ALFRED domain and grammar that ship with the `alfworld` package. Raises ValueError where there is none."""
    try:
        data = files("alfworld") / "data"
        return (data / "alfred.pddl").read_text(), (data / "alfred.twl2").read_text()
    except ImportError as error:
        raise ValueError(_MISSING.format(error=error)) from error


def engine_parts() -> tuple[Any, Any, Any]:
    """TextWorld's EnvInfos and PddlEnv, and ALFWorld's Demangler. Raises ValueError where they cannot be imported."""
    try:
        with _own_arguments():
            from alfworld.agents.utils.misc import Demangler
            from textworld import EnvInfos
            from textworld.envs import PddlEnv
    except ImportError as error:
        raise ValueError(_MISSING.format(error=error)) from error
    return EnvInfos, PddlEnv, Demangler


def engine_version() -> str:
    """The versions of the packages: command words differ between ALFWorld's."""
    return f"alfworld {version('alfworld')}, textworld {version('textworld')}"


class TextworldEngine:
    """Plays one game on the original engine. `data` maps pddl_domain, grammar and pddl_problem to their texts."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        infos_of, env_of, demangler_of = engine_parts()
        with _own_arguments():
            self._env = env_of(infos_of(admissible_commands=True, won=True))
            self._env.load(dict(data))
        # What ALFWorld's wrapper does after loading: numbered names for the mangled ids.
        infos = self._env._entity_infos
        names = demangler_of(game_infos=infos)
        for info in infos.values():
            info.name = names.demangle_alfred_name(info.id)
        self.won = False
        self.commands: tuple[str, ...] = ()

    def reset(self) -> str:
        """Start the game; the text of the first turn."""
        with _own_arguments():
            state = self._env.reset()
        return self._read(state)

    def step(self, command: str) -> str:
        """Play a command; its text."""
        return self._read(self._env.step(command)[0])

    def _read(self, state: Any) -> str:
        self.won = bool(state["won"])
        self.commands = tuple(state["admissible_commands"])
        return state["feedback"]


@contextmanager
def _own_arguments():
    """The planner's translator writes to `sys.argv`; give it back."""
    arguments = sys.argv
    try:
        yield
    finally:
        sys.argv = arguments

"""ALFWorld's game files, `<split>/**/game.tw-pddl`: JSON of pddl_domain, grammar, pddl_problem, walkthrough, solvable.

Games of movable receptacles and slicing, and those that are not marked solvable, are passed over, as in the original.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from arena.envs.alfworld.pddl import parse_problem
from arena.envs.alfworld.world import Game
from arena.errors import UsageError

FILE_NAME = "game.tw-pddl"
SPLITS = ("train", "valid_seen", "valid_unseen")
_RELEASE = "json_2.1.1"


def read_game(path: Path) -> Game:
    """Read a game file. Raises ValueError, with the path, for a file of another form or another kind of task."""
    try:
        data = json.loads(path.read_text())
        sentence = re.search(r"Your task is to: (.*?)\.\"", data["grammar"])
        if sentence is None:
            raise ValueError("its grammar has no sentence 'Your task is to: ...'")
        return replace(parse_problem(data["pddl_problem"], sentence[1]), source=data)
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise ValueError(f"{path} is no ALFWorld game that can be played here: {error!r}") from error


def write_game(path: Path, data: dict[str, Any], walkthrough: Sequence[str]) -> None:
    """Write a game file; `data` has domain, grammar and problem."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({**data, "walkthrough": list(walkthrough), "solvable": True}))


def draw_recorded(directory: str, split: str, tasks: Sequence[str], rng: np.random.Generator) -> Game:
    """A game of a split at random: the first of a random order that is solvable and of one of the task types.

    Raises UsageError if there is none.
    """
    paths = game_paths(directory, split)
    for index in rng.permutation(len(paths)):
        game = read_game(paths[int(index)])
        if game.source and game.source.get("solvable") is True and game.task.type in tasks:
            return game
    raise UsageError(
        f"{Path(directory) / split}: none of {len(paths)} games is solvable and of {', '.join(tasks)}"
    )


@cache
def game_paths(directory: str, split: str) -> tuple[Path, ...]:
    """The game files of a split, in a fixed order. `directory` holds the splits, or ALFWorld's release that does."""
    root = Path(directory).expanduser()
    candidates = [base / split for base in (root, root / _RELEASE) if (base / split).is_dir()]
    if not candidates:
        found = (
            sorted(path.name for path in root.iterdir() if path.is_dir()) if root.is_dir() else "no directory"
        )
        raise ValueError(
            f"data '{directory}' has no directory '{split}' (nor {_RELEASE}/{split}): found {found}. Give the "
            f"directory that alfworld-download filled, with {', '.join(SPLITS)}"
        )
    paths = sorted(
        path for path in candidates[0].rglob(FILE_NAME) if not re.search("movable|Sliced", str(path.parent))
    )
    if not paths:
        raise ValueError(f"{candidates[0]} holds no {FILE_NAME}")
    return tuple(paths)

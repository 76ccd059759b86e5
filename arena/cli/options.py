"""Options that several commands share, and how their values are read."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from arena.launch.plan import Options
from arena.machine import usable_cpus


def whole_number(least: int) -> Callable[[str], int]:
    """A parser of whole numbers from `least`, whose error says what was given and what is allowed."""

    def parse(text: str) -> int:
        if str(text).isdecimal() and int(text) >= least:
            return int(text)
        raise typer.BadParameter(f"it takes a whole number from {least}; given '{text}'.")

    return parse


def worker_count(asked: int | None, jobs: int) -> int:
    """How many workers to start for so many jobs."""
    return min(asked or usable_cpus(), max(1, jobs))


RunsDir = Annotated[
    Path, typer.Option("--runs-dir", envvar="ARENA_RUNS", help="Folder that holds the runs.", metavar="DIR")
]
Tier = Annotated[
    str,
    typer.Option(
        "--tier",
        help="Defaults of the recipe: one of [bold]arena list tiers[/], or a TOML file.",
        metavar="TIER",
    ),
]
Overrides = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        help="Change a recipe field, e.g. [bold]--set kl.coef=0.02[/]. Repeatable.",
        metavar="KEY=VALUE",
    ),
]

Algos = Annotated[str, typer.Option("--algos", help="Comma list of algorithm specs, or all.", metavar="LIST")]
Envs = Annotated[
    str,
    typer.Option(
        "--envs", help="Comma list of environments, or all; your own as ./mine.py:MyEnv.", metavar="LIST"
    ),
]
NumSeeds = Annotated[
    int | None,
    typer.Option("--num-seeds", help="Run seeds 0 to N-1. Default: 1.", metavar="N", parser=whole_number(1)),
]
Seeds = Annotated[
    str | None, typer.Option("--seeds", help="Run these seeds: a comma list, e.g. 3,4.", metavar="LIST")
]
Steps = Annotated[
    int | None,
    typer.Option("--steps", help="Training steps. Default: the tier's.", metavar="N", parser=whole_number(1)),
]
RunName = Annotated[
    str | None,
    typer.Option(
        "--name",
        help="Name of the run; an existing one is resumed. Default: from the tier and the time.",
        metavar="NAME",
    ),
]
Workers = Annotated[
    int | None,
    typer.Option(
        "--workers", help="Cells at a time. Default: one per CPU.", metavar="N", parser=whole_number(1)
    ),
]

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]

DEFAULT_RUNS = Options.runs
DEFAULT_TIER = Options.tier


def default_runs() -> Path:
    """The runs folder of a command without `--runs-dir`."""
    return Path(os.environ.get("ARENA_RUNS") or DEFAULT_RUNS)

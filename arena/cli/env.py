"""`arena env`: look at an environment as a person, or check that it keeps the contract."""

from __future__ import annotations

from typing import Annotated

import typer

from arena.cli.options import DEFAULT_TIER, Overrides, Tier, whole_number
from arena.cli.tables import show
from arena.recipe import EnvConfig, parse_overrides, resolve

app = typer.Typer(no_args_is_help=True, help="Play an environment, or check it.")

Name = Annotated[
    str,
    typer.Argument(
        help="An environment of [bold]arena list envs[/], or your own: [bold]./mine.py:MyEnv[/].",
        metavar="NAME",
    ),
]


def _config(name: str, tier: str, overrides: list[str] | None) -> EnvConfig:
    from arena.envs import name_and_code

    name, code = name_and_code(name)
    return resolve(tier, name, "grpo", 0, parse_overrides(overrides or []), code).env


@app.command()
def check(name: Name, tier: Tier = DEFAULT_TIER, overrides: Overrides = None) -> None:
    """Check the contract of an environment; exits with 1 if a check fails.

    Example: [bold]arena env check sokoban --set env.options.size=7[/]
    """
    from arena.envs.check import check_env

    results = check_env(_config(name, tier, overrides))
    show([{"check": r.name, "result": "pass" if r.passed else "FAIL", "detail": r.detail} for r in results])
    if not all(r.passed for r in results):
        raise typer.Exit(1)


@app.command()
def play(
    name: Name,
    seed: Annotated[int, typer.Option("--seed", help="Task seed.", metavar="N", parser=whole_number(0))] = 0,
    tier: Tier = DEFAULT_TIER,
    overrides: Overrides = None,
) -> None:
    """Play an environment in the terminal, shown in full words whatever the tier's models see."""
    from arena.envs.play import play as play_env

    play_env(_config(name, tier, overrides), seed)

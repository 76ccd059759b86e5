"""Text environments and their registry."""

from __future__ import annotations

import inspect
from importlib import import_module
from importlib.metadata import EntryPoint

from arena.envs import user
from arena.envs.base import TextEnv
from arena.errors import UsageError, unknown_name
from arena.recipe import (
    ENV_ENTRY_POINTS,
    EnvConfig,
    check_code,
    digest_of,
    file_of,
    installed,
    package_of,
    version_of,
)

#: Name -> "module:class". Imported on use, so that a listing stays fast.
ENVS: dict[str, str] = {
    "alfworld": "arena.envs.alfworld:AlfWorld",
    "frozen_lake": "arena.envs.frozen_lake:FrozenLake",
    "sokoban": "arena.envs.sokoban:Sokoban",
    "sudoku": "arena.envs.sudoku:Sudoku",
    "tir_math": "arena.envs.tir_math:TirMath",
    "webshop": "arena.envs.webshop.env:WebShop",
}


def env_class(spec: str) -> type[TextEnv]:
    """The class of an environment: a name, the name of an installed one, or `path.py:Class`.

    Raises UsageError for what is none of them, and for a class that lacks something.
    """
    if spec in ENVS:
        module, _, attribute = ENVS[spec].partition(":")
        return getattr(import_module(module), attribute)
    if file_of(spec)[0]:
        return user.load_file(spec)
    if spec.endswith(".py"):
        raise UsageError(f"'{spec}': a file needs the environment's class, as in './mine.py:MyEnv'.")
    others = installed(ENV_ENTRY_POINTS)
    if spec not in others:
        hint = "Or a file and its class, as in ./mine.py:MyEnv."
        raise unknown_name("environment", spec, [*ENVS, *others], hint)
    return user.load_entry_point(others[spec])


def table() -> list[dict[str, str]]:
    """One row per environment, ours and installed ones, for `arena list envs`."""
    ours = [{"name": name, "summary": env_class(name).summary, "source": "Arena"} for name in ENVS]
    others = installed(ENV_ENTRY_POINTS).items()
    return ours + [_installed_row(entry) for name, entry in others if name not in ENVS]


def _installed_row(entry: EntryPoint) -> dict[str, str]:
    """An environment of a package, with the package as its source, and with what is wrong with it."""
    package = package_of(entry)
    try:
        return {"name": entry.name, "summary": user.load_entry_point(entry).summary, "source": package}
    except UsageError as error:
        return {"name": entry.name, "summary": "-", "source": f"{package}: {error}"}


def name_and_code(spec: str) -> tuple[str, dict[str, str]]:
    """An environment's name, and what it is made of if it is not Arena's own: another content is another recipe.

    Raises as `env_class`, and for one that takes the name of one of Arena's own.
    """
    if spec in ENVS:
        return spec, {}
    name = env_class(spec).name
    if name in ENVS:
        raise UsageError(f"'{spec}': its name '{name}' is that of one of Arena's own; give it another.")
    return name, _code_of(spec)


def make_env(config: EnvConfig) -> TextEnv:
    """Build an environment. Raises UsageError for options that it does not take, and if the code of one that is not
    Arena's own is not the recipe's any more."""
    if config.code:
        check_code(config.spec, config.code, _code_of(config.spec))
    cls = env_class(config.spec)
    allowed = [name for name in inspect.signature(cls).parameters if name not in ("max_turns", "observation")]
    for option in config.options:
        if option not in allowed:
            raise unknown_name(
                "option", option, allowed, "Set with env.options.", of=f"environment '{config.name}'"
            )
    try:
        return cls(max_turns=config.max_turns, observation=config.observation, **config.options)
    except (TypeError, ValueError) as error:
        message = f"environment '{config.name}' refuses env.options {config.options}: {error}"
        raise UsageError(message) from error


def _code_of(spec: str) -> dict[str, str]:
    path, _ = file_of(spec)
    return {spec: digest_of(path)} if path else version_of(spec, installed(ENV_ENTRY_POINTS).get(spec))

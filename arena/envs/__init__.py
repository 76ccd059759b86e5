"""Text environments and their registry."""

from __future__ import annotations

import inspect
from importlib import import_module

from arena.envs.base import TextEnv
from arena.errors import UsageError, unknown_name
from arena.recipe import EnvConfig

#: Name -> "module:class". Imported on use, so that a listing stays fast.
ENVS: dict[str, str] = {
    "frozen_lake": "arena.envs.frozen_lake:FrozenLake",
    "sokoban": "arena.envs.sokoban:Sokoban",
    "tir_math": "arena.envs.tir_math:TirMath",
}


def env_class(name: str) -> type[TextEnv]:
    """The class of an environment. Raises UsageError for an unknown name."""
    if name not in ENVS:
        raise unknown_name("environment", name, ENVS)
    module, _, attribute = ENVS[name].partition(":")
    return getattr(import_module(module), attribute)


def make_env(config: EnvConfig) -> TextEnv:
    """Build an environment. Raises UsageError for options that it does not take."""
    cls = env_class(config.name)
    allowed = [name for name in inspect.signature(cls).parameters if name not in ("max_turns", "observation")]
    for option in config.options:
        if option not in allowed:
            raise unknown_name(
                f"option of environment '{config.name}'", option, allowed, "Set with env.options."
            )
    try:
        return cls(max_turns=config.max_turns, observation=config.observation, **config.options)
    except (TypeError, ValueError) as error:
        message = f"environment '{config.name}' refuses env.options {config.options}: {error}"
        raise UsageError(message) from error

"""Environments that are not ours: a Python file, `./mine.py:MyEnv`, or an entry point in the group `arena.envs`.

Both name a subclass of `TextEnv`, whose `name` is what its folder, its seeds and its tier section are called.
"""

from __future__ import annotations

import re
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import gymnasium

from arena.envs.base import TextEnv
from arena.errors import UsageError, unknown_name
from arena.userfile import entry_value, module_of

_PAGE = "docs/envs/writing-your-own.md has an example"


def load_file(reference: str) -> type[TextEnv]:
    """The class that `path.py:Class` names. Raises UsageError if there is none that can be used."""
    path, _, name = reference.rpartition(":")
    members = vars(module_of(Path(path)))
    if name not in members:
        found = [key for key, value in members.items() if _is_own(value)]
        raise unknown_name("environment", name, found or ["(none)"], of=str(path))
    return _checked(members[name], reference)


def load_entry_point(entry: EntryPoint) -> type[TextEnv]:
    """The class that an entry point names. Raises UsageError if there is none that can be used."""
    return _checked(entry_value(entry), f"{entry.name} ({entry.value})")


def _is_own(value: Any) -> bool:
    return isinstance(value, type) and issubclass(value, TextEnv) and value is not TextEnv


def _checked(value: Any, reference: str) -> type[TextEnv]:
    """`value` if it is a complete class of environments. Raises UsageError, saying what is missing."""
    if not _is_own(value):
        kind = f"the class {value.__name__}" if isinstance(value, type) else f"a {type(value).__name__}"
        raise UsageError(
            f"'{reference}' is {kind}; it must be a subclass of arena.envs.base.TextEnv ({_PAGE})."
        )
    missing = {m for m in dir(value) if getattr(getattr(value, m), "__isabstractmethod__", False)}
    missing |= {member for member in ("name", "summary", "vocabulary") if not hasattr(value, member)}
    missing |= {m for m in ("reset", "step") if getattr(value, m) is getattr(gymnasium.Env, m)}
    if missing:
        raise UsageError(f"'{reference}' lacks {', '.join(sorted(missing))} ({_PAGE}).")
    if not isinstance(value.name, str) or not re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]*", value.name):
        raise UsageError(
            f"'{reference}': its name is what its folder is called: letters, digits, '_' and '-', beginning with a "
            f"letter; given {value.name!r}."
        )
    words = value.vocabulary
    if isinstance(words, str) or not all(isinstance(word, str) for word in words):
        raise UsageError(f"'{reference}': its vocabulary is a tuple of words; given {words!r}.")
    return value

"""Methods that are not ours: a Python file, `./mine.py:my_method`, or an entry point in the group `arena.algorithms`.

Both name an `Algorithm`, or a function without arguments that returns one.
"""

from __future__ import annotations

import inspect
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

from arena.errors import UsageError, unknown_name
from arena.userfile import entry_value, module_of


def load_file(reference: str, kind: type) -> Any:
    """The object of type `kind` that `path.py:name` names. Raises UsageError if there is none."""
    path, _, name = reference.rpartition(":")
    module = module_of(Path(path))
    found = {
        key: value
        for key, value in vars(module).items()
        if isinstance(value, kind) or _is_maker(value, module)
    }
    if name not in found:
        raise unknown_name(kind.__name__.lower(), name, found or ["(none)"], of=str(path))
    return _made(found[name], kind, reference)


def load_entry_point(entry: EntryPoint, kind: type) -> Any:
    """The object of type `kind` that an entry point names."""
    return _made(entry_value(entry), kind, f"{entry.name} ({entry.value})")


def _is_maker(value: Any, module: Any) -> bool:
    """Whether it is a function of the module itself that needs no arguments."""
    return (
        inspect.isfunction(value)
        and value.__module__ == module.__name__
        and not inspect.signature(value).parameters
    )


def _made(value: Any, kind: type, reference: str) -> Any:
    try:
        made = value() if inspect.isfunction(value) else value
    except (Exception, SystemExit) as error:
        raise UsageError(f"'{reference}' fails: {error!r}.") from error
    if not isinstance(made, kind):
        raise UsageError(f"'{reference}' is of type {type(made).__name__}; it must be an {kind.__name__}.")
    return made

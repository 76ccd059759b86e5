"""A user's own code: a Python file as a module, and what an entry point names."""

from __future__ import annotations

import hashlib
import sys
import types
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

from arena.errors import UsageError


def module_of(path: Path) -> types.ModuleType:
    """The file as a module, run once for each content: these very bytes, no cached byte code.

    Raises UsageError if it cannot be read or does not run.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UsageError(f"'{path}' cannot be read ({error.strerror}); given as path.py:name.") from None
    name = f"arena_user_{path.stem}_{hashlib.sha256(bytes(path.resolve()) + content).hexdigest()[:12]}"
    if name not in sys.modules:
        module = types.ModuleType(name)
        module.__file__ = str(path)
        sys.modules[name] = module
        try:
            exec(compile(content, str(path), "exec"), vars(module))
        except (Exception, SystemExit) as error:
            del sys.modules[name]
            hint = ""
            if isinstance(error, ModuleNotFoundError):
                hint = (
                    " Files beside it are not on the import path: keep all in one file, or install a package."
                )
            raise UsageError(f"{path} does not run: {type(error).__name__}: {error}.{hint}") from error
    return sys.modules[name]


def entry_value(entry: EntryPoint) -> Any:
    """What an entry point names. Raises UsageError if it does not load."""
    try:
        return entry.load()
    except (Exception, SystemExit) as error:
        raise UsageError(
            f"entry point '{entry.name}' of {entry.group} ({entry.value}) does not load: {error!r}."
        ) from error

"""This command as a person may type it again."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path


def command_again(name: str) -> str:
    """The command of this process: it names its run, and deletes nothing."""
    words = [word for word in sys.argv[1:] if word != "--fresh"]
    named = any(word == "--name" or word.startswith("--name=") for word in words)
    return f"{program()} {shlex.join(words if named else [*words, '--name', name])}"


def program() -> str:
    """What this process was started as."""
    return "python -m arena" if Path(sys.argv[0]).name == "__main__.py" else "arena"

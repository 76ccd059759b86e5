"""This command as a person may type it again, and when to."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from arena.launch.local import LaunchResult


def command_again(name: str) -> str:
    """The command of this process: it names its run, and deletes nothing."""
    words = [word for word in sys.argv[1:] if word != "--fresh"]
    named = any(word == "--name" or word.startswith("--name=") for word in words)
    return f"{program()} {shlex.join(words if named else [*words, '--name', name])}"


def show_unfinished(result: LaunchResult, again: str) -> None:
    """Print what failed and, after a failure or a stop, the command that goes on."""
    if result.failures:
        print("\nFailed:")
        for label, reason in result.failures.items():
            print(f"  {label}: {reason}")
    if result.exit_code:
        what = (
            f"Stopped by {result.stopped_by.name}; resume" if result.stopped_by else "Run what failed again"
        )
        print(f"\n{what} with:\n  {again}")


def program() -> str:
    """What this process was started as."""
    return "python -m arena" if Path(sys.argv[0]).name == "__main__.py" else "arena"

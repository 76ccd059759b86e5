"""Runs starts and cells in children that die of SIGKILL, at a chosen file or at any moment from outside.

Reads one JSON order per line from stdin; forks before torch has done any work, so that every child is fresh and
nothing is imported twice. Answers with the child's exit code, negative for a signal.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path

import torch

from arena.recipe import Recipe
from arena.training.bc import clone
from arena.training.cell import run_cell


def die_at(file: str, nth: int, when: str) -> None:
    """Kill this process before or after the nth time that `file` gets its final name."""
    rename, seen = Path.replace, [0]

    def replace(self: Path, target: Path) -> Path:
        match = str(target).endswith(file)
        seen[0] += match
        if match and seen[0] == nth and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        result = rename(self, target)
        if match and seen[0] == nth and when == "after":
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    Path.replace = replace  # ty: ignore


def work(order: dict) -> None:
    """Do what the order says, in this process."""
    if order["file"]:
        die_at(order["file"], order["nth"], order["when"])
    recipe, directory = Recipe.model_validate(order["recipe"]), Path(order["directory"])
    if order["start"] is None:
        clone(recipe, directory, lambda *_: None)
    else:
        run_cell(recipe, directory, Path(order["start"]), lambda *_: None)


def main() -> None:
    """Serve orders until stdin ends."""
    torch.set_num_threads(1)
    print("ready", flush=True)
    for line in sys.stdin:
        order = json.loads(line)
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                work(order)
                code = 0
            finally:
                os._exit(code)
        if order["delay"] is not None:
            time.sleep(order["delay"])
            os.kill(
                pid, signal.SIGKILL
            )  # not yet waited for, so that the pid is the child's even if it has ended
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)


if __name__ == "__main__":
    main()

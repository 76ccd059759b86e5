"""Two workers against one: wall time of the same grid.

    python benchmarks/workers.py

Four cells (two methods, two environments) of ten steps from finished BC starts, one thread a worker.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time

GRID = ["--algos", "grpo,sampo", "--envs", "sokoban,frozen_lake", "--steps", "10"]
SIZE = ["--set", "eval.episodes=32", "--set", "bc.steps=150"]


def arena(root: str, *args: str) -> float:
    """Run `arena run` and return its wall time in seconds."""
    start = time.perf_counter()
    command = [sys.executable, "-m", "arena", "run", *GRID, *SIZE, "--runs-dir", root, *args]
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - start


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as root:
        arena(root, "--name", "starts", "--set", "rollout.groups=1", "--workers", "2")
        for k in range(3):
            one = arena(root, "--name", f"one-{k}", "--reuse", "starts", "--workers", "1")
            two = arena(root, "--name", f"two-{k}", "--reuse", "starts", "--workers", "2")
            print(f"one worker {one:.0f} s, two workers {two:.0f} s, ratio {two / one:.2f}", flush=True)

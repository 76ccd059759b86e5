"""Where the parts of a run are, within its folder."""

from __future__ import annotations

from pathlib import Path

#: The name a BC start goes by where a cell has its algorithm.
START = "bc"


def place(env: str, algorithm: str, seed: int) -> Path:
    """The folder of a cell, or of a start (algorithm "bc"), within its run."""
    env, algorithm = env.replace("/", "_"), algorithm.replace("/", "_")
    return Path(
        "bc" if algorithm == START else f"cells/{env}",
        env if algorithm == START else algorithm,
        f"seed-{seed}",
    )

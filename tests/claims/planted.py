"""Cells of exactly the recipe that a claim takes, with evaluations and tokens written by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from arena.claims.cells import Need, Pool, pool
from arena.recipe import parse_overrides, resolve
from arena.records.files import JobStatus, write_json, write_status
from arena.records.layout import place
from arena.records.reader import read_run
from tests.synthetic import write_table

TASKS = 20


def plant(
    run: Path, need: Need, env: str, algo: str, seed: int, *shares: float, tokens: int = 100, **steps: object
) -> Path:
    """Write a finished cell whose evaluations, evenly spread over its steps, succeed on these shares of 20 tasks.

    Every step samples `tokens` tokens; `steps` are further columns of the table, one value or one per step.
    """
    recipe = resolve(need.tier, env, algo, seed, parse_overrides(need.changes))
    folder = run / place(env, algo, seed)
    write_json(folder / "recipe.json", {**recipe.model_dump(mode="json"), "hash": recipe.hash})
    write_status(folder, JobStatus("done", recipe.hash, recipe.steps, recipe.steps, shares[-1], None))
    step = np.arange(1, recipe.steps + 1)
    columns = {"step": step, "tokens_sampled_total": tokens * step, "success": shares[-1], **steps}
    write_table(folder / "steps.parquet", "steps", pd.DataFrame(columns))
    at = np.linspace(0, recipe.steps, len(shares)).round().astype(int)
    frames = [
        pd.DataFrame(
            {
                "step": number,
                "temperature": recipe.eval.temperature,
                "episode": range(TASKS),
                "success": np.arange(TASKS) < round(share * TASKS),
            }
        )
        for number, share in zip(at, shares, strict=True)
    ]
    write_table(folder / "evals.parquet", "evals", pd.concat(frames))
    return folder


def pool_of(*runs: Path) -> Pool:
    """The cells of run folders."""
    return pool(read_run(run) for run in runs)

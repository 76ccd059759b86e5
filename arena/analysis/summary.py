"""One row per cell: where it started, its peak, where it ended, and what that cost."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from arena.analysis.degradation import Degradation, collapse_step, degradation, late_fall
from arena.analysis.tasks import task_numbers
from arena.records.reader import IDENTITY, Cell

#: The summary's columns after env, algo and seed.
SUMMARY_COLUMNS = (
    "state",
    "step",
    "temperature",
    "start",
    "best_start",
    "best_start_temperature",
    "peak",
    "peak_step",
    "final",
    "final_step",
    "drop",
    "relative_drop",
    "drop_noise",
    "gain",
    "gain_noise",
    "degraded",
    "improved",
    "collapse_step",
    "late_fall",
    "final_t1",
    "tokens",
    "seconds",
)


def summarise_cells(
    cells: Sequence[Cell], steps: pd.DataFrame, evals: pd.DataFrame, temperature: float | None = None
) -> pd.DataFrame:
    """The identity columns and `SUMMARY_COLUMNS`, a row for each cell; what is not recorded is missing.

    state: of the cell. step: training steps recorded. temperature: the one given, else the recipe's evaluation
    temperature; start to improved are the fields of `Degradation` at it (success as shares). collapse_step: the
    training step at which the cell's collapse began, missing if it did not collapse. late_fall: whether it fell as
    far at its end and training success does not show that it stays. degraded and late_fall are missing as well where
    the evaluation has a single task and they depend on its noise. final_t1: final at temperature 1. tokens:
    response tokens sampled for training, filtered groups included. seconds: sum of seconds_step.
    """
    rows = [_row(cell, _of(cell, steps), _of(cell, evals), temperature) for cell in cells]
    return pd.DataFrame(rows, columns=[*IDENTITY, *SUMMARY_COLUMNS])


def skipped_updates(steps: pd.DataFrame) -> list[str]:
    """For each cell that skipped updates: how many of how many. `steps`: the `steps` of some cells.

    A mini-batch takes no optimiser step if its gradient is not finite or no token has weight.
    """
    if steps.empty:
        return []
    sums = steps.groupby(["env", "algo", "seed"], sort=False)[
        ["updates", "skipped_updates", "nonfinite"]
    ].sum()
    return [
        f"{env}/{algo}/seed-{seed} took no step in {row.skipped_updates:.0f} of "
        f"{row.updates + row.skipped_updates:.0f} updates ({row.nonfinite:.0f} values recorded were not finite)"
        for (env, algo, seed), row in sums.iterrows()
        if row.skipped_updates
    ]


def mean_best_start(rows: pd.DataFrame) -> float:
    """Mean over seeds of `best_start`, which the methods of a seed share; NaN if no seed has it.

    `rows`: of `summarise_cells`, one environment.
    """
    return float(rows.dropna(subset="best_start").drop_duplicates("seed").best_start.mean())


def _of(cell: Cell, frame: pd.DataFrame) -> pd.DataFrame:
    return frame[(frame.env == cell.env) & (frame.algo == cell.algo) & (frame.seed == cell.seed)]


def _row(
    cell: Cell, steps: pd.DataFrame, evals: pd.DataFrame, temperature: float | None
) -> dict[str, object]:
    row: dict[str, object] = {"env": cell.env, "algo": cell.algo, "seed": cell.seed, "state": cell.state}
    if len(steps):
        last = steps.loc[steps.step.idxmax()]
        row |= {
            "step": int(last.step),
            "tokens": last.tokens_sampled_total,
            "seconds": steps.seconds_step.sum(),
        }
    if temperature is None and cell.recipe:
        temperature = cell.recipe.eval.temperature
    tasks = task_numbers(cell, evals)
    if temperature is not None and (path := degradation(evals, temperature, tasks=tasks)):
        success = steps.set_index("step").success
        row |= {
            **_fields(path),
            "collapse_step": collapse_step(path, success),
            "late_fall": late_fall(path, success),
        }
    if at_one := degradation(evals, 1.0):
        row["final_t1"] = at_one.final
    return row


def _fields(path: Degradation) -> dict[str, object]:
    return {name: getattr(path, name) for name in SUMMARY_COLUMNS if hasattr(path, name)}

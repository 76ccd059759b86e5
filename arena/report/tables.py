"""The tables of a report: the headline numbers, the cells, the recipes, the starts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd

from arena.analysis.degradation import RULE
from arena.analysis.recipes import recipe_values
from arena.analysis.statistics import spread_over_seeds
from arena.records.reader import Cell, Run
from arena.report.document import RowGroup, Table
from arena.report.style import method_order
from arena.report.wording import (
    MISSING,
    NBSP,
    count,
    env_title,
    number,
    percent,
    points,
    temperature,
    with_range,
    with_spread,
)


def summary_table(summary: pd.DataFrame) -> Table:
    """The headline table: a row per environment and method, mean over seeds with the spread."""
    header = (
        "Method",
        "Seeds finished",
        "Start",
        f"Start, best{NBSP}T",
        "Peak",
        "Final",
        "Peak to final, points",
        "Peak to final, relative",
        f"Final, T{NBSP}={NBSP}1",
        "Tokens, millions",
        "Seconds",
    )
    groups = []
    for env, rows in summary.groupby("env"):
        methods = method_order(list(rows.algo))
        known = rows.temperature.dropna()
        title = (
            f"{env_title(str(env))}, success in % at {temperature(known.iloc[0])}"
            if len(known)
            else env_title(str(env))
        )
        groups.append(RowGroup(title, tuple(_summary_row(m, rows[rows.algo == m]) for m in methods)))
    caption = (
        "Mean over seeds; below it the smallest and largest seed where they differ, and Student's 95 % "
        "interval of the mean where there are at least three seeds and they do. Start, best T: the untrained start at "
        f"the best of the temperatures tried. Peak: the largest running mean of {RULE.window} evaluations, or the "
        "start or the end if that is higher. Tokens: sampled for training, in millions. Seconds: of one cell, "
        "evaluation and records included."
    )
    return Table(caption, header, tuple(groups))


def _summary_row(method: str, rows: pd.DataFrame) -> tuple[str, ...]:
    def over_seeds(column: str, form: Any) -> str:
        return with_spread(spread_over_seeds(rows[column].astype(float)), form)

    return (
        method,
        f"{sum(rows.state == 'done')} of {len(rows)}",
        over_seeds("start", points),
        over_seeds("best_start", points) + _best_temperatures(rows),
        over_seeds("peak", points),
        over_seeds("final", points),
        over_seeds("drop", points),
        over_seeds("relative_drop", percent),
        over_seeds("final_t1", points),
        with_range(spread_over_seeds(rows.tokens.astype(float) / 1e6), "{:.3g}".format),
        with_range(spread_over_seeds(rows.seconds.astype(float)), count),
    )


def _best_temperatures(rows: pd.DataFrame) -> str:
    used = sorted(set(rows.best_start_temperature.dropna()))
    return f"\nat T{NBSP}{', '.join(f'{t:g}' for t in used)}" if used else ""


def facts(run: Run) -> Iterable[tuple[str, str]]:
    """How to run it again, from the manifest; keys it lacks are left out."""
    known = run.manifest
    if known.get("command"):
        yield "Command", str(known["command"])
    if known.get("commit"):
        yield "Commit", f"{known['commit']}{', with uncommitted changes' if known.get('dirty') else ''}"
    for key in ("started", "finished", "host", "versions"):
        if known.get(key):
            yield key.title(), _flat_text(known[key])
    for launch in known.get("earlier", []):
        yield "Earlier launch", _flat_text({k: launch[k] for k in _LAUNCH if launch.get(k)})


#: What is told of an earlier launch of the same run.
_LAUNCH = ("command", "commit", "started", "finished")


def _flat_text(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{k.replace('_', ' ')} {_flat_text(v)}" for k, v in value.items() if v is not None)
    return str(value)


def cells_table(cells: Iterable[Cell]) -> Table:
    """Every cell, its state and, if it failed, why."""
    header = ("Method", "Seed", "State", "Step", "Recipe", "Error")
    by_env: dict[str, list[tuple[str, ...]]] = {}
    for cell in cells:
        step = f"{cell.step} of {cell.steps}" if cell.steps else MISSING
        recipe = cell.recipe.hash if cell.recipe else MISSING
        by_env.setdefault(cell.env, []).append(
            (cell.algo, str(cell.seed), cell.state, step, recipe, cell.error or MISSING)
        )
    groups = tuple(RowGroup(env_title(e), tuple(rows)) for e, rows in by_env.items())
    return Table(
        "All cells. Recipe: the hash that identifies a cell; equal hashes mean equal records.",
        header,
        groups,
        numeric=False,
    )


def _recipes_by_env(cells: Iterable[Cell]) -> dict[str, dict[str, set[str]]]:
    """Environment -> recipe field -> the values its cells use."""
    by_env: dict[str, list[Cell]] = {}
    for cell in cells:
        by_env.setdefault(cell.env, []).append(cell)
    values = {env: recipe_values(group) for env, group in by_env.items()}
    return {env: fields for env, fields in values.items() if fields}


def _common(by_env: Mapping[str, Mapping[str, set[str]]]) -> dict[str, str]:
    keys = dict.fromkeys(k for fields in by_env.values() for k in fields)
    united = {k: set().union(*(fields.get(k, {MISSING}) for fields in by_env.values())) for k in keys}
    return {k: next(iter(v)) for k, v in united.items() if len(v) == 1}


def recipe_table(cells: Iterable[Cell]) -> Table:
    """Recipe fields that all cells share."""
    rows = tuple(_common(_recipes_by_env(cells)).items())
    groups = (RowGroup("", rows),) if rows else ()
    return Table("Recipe shared by all cells.", ("Field", "Value"), groups, numeric=False)


def differences_table(cells: Iterable[Cell]) -> Table:
    """Recipe fields in which cells differ, by environment; several values mean that cells of it differ."""
    by_env = _recipes_by_env(cells)
    shared = _common(by_env)
    keys = [k for k in dict.fromkeys(k for fields in by_env.values() for k in fields) if k not in shared]
    rows = tuple((k, *(" / ".join(sorted(f.get(k, {MISSING}))) for f in by_env.values())) for k in keys)
    header = ("Field", *(env_title(e) for e in by_env))
    return Table(
        "Recipe fields that differ between environments or cells.",
        header,
        (RowGroup("", rows),) if rows else (),
        numeric=False,
    )


def starts_table(run: Run) -> Table:
    """The behaviour-cloned starts, with whatever scalars were recorded about them."""
    keys = list(dict.fromkeys(k for s in run.starts for k in s.metrics))
    by_env: dict[str, list[tuple[str, ...]]] = {}
    for start in run.starts:
        row = tuple(_metric(start.metrics.get(k)) for k in keys)
        by_env.setdefault(start.env, []).append((f"seed {start.seed}", *row))
    header = ("Start", *(k.replace("_", " ") for k in keys))
    groups = tuple(RowGroup(env_title(e), tuple(rows)) for e, rows in by_env.items())
    return Table(
        "Behaviour-cloned starts: one per environment and seed, shared by all methods.",
        header,
        groups,
        numeric=False,
    )


def _metric(value: Any) -> str:
    if value is None:
        return MISSING
    if isinstance(value, float):
        return number(value)
    return count(value) if isinstance(value, int) else str(value)

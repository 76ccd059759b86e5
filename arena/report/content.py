"""From a run folder to a `Report`: the words, the tables, and which figures go where."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from arena.analysis.energy import action_counts, task_table
from arena.analysis.microscope import moments
from arena.analysis.summary import mean_best_start, summarise_cells
from arena.analysis.tokens import eight_groups, ratio_quantiles
from arena.errors import UsageError
from arena.records.reader import Cell, Run, load_evals, load_steps, map_cells
from arena.report.alarms import (
    Alarms,
    collapses,
    detectors_section,
    failed_checks,
    find_alarms,
    no_collapse,
)
from arena.report.claims_table import claims_section
from arena.report.document import Microscope, Report, Section
from arena.report.energy_figures import energy_section
from arena.report.env_data import EnvData
from arena.report.figures import env_figures, overview_figure
from arena.report.findings import caveats, finding
from arena.report.microscope import microscope
from arena.report.ranking import ranking_table
from arena.report.stability import stability_section
from arena.report.style import MethodStyle, method_order, method_styles
from arena.report.tables import (
    cells_table,
    differences_table,
    facts,
    recipe_table,
    starts_table,
    summary_table,
)
from arena.report.wording import env_title, state_words


@dataclass(frozen=True)
class _Tables:
    """What all sections read, of all cells: records, `summarise_cells`, `ratio_quantiles` and `eight_groups`."""

    steps: pd.DataFrame
    evals: pd.DataFrame
    summary: pd.DataFrame
    quantiles: pd.DataFrame
    groups: pd.DataFrame


def _read(cells: Sequence[Cell]) -> _Tables:
    steps, evals = load_steps(cells), load_evals(cells)
    return _Tables(
        steps,
        evals,
        summarise_cells(cells, steps, evals),
        map_cells(cells, "tokens", ratio_quantiles, by_step=True),
        map_cells(cells, "tokens", eight_groups),
    )


def silent(_: str) -> None:
    """Hears what is done next, and says nothing."""


def compose_report(run: Run, tell: Callable[[str], None] = silent) -> Report:
    """Read everything of a run that the report shows, and say what it means; `tell` hears what is done next.

    Raises UsageError if the run has no cells.
    """
    if not run.cells:
        raise UsageError(f"{run.path} has no cells to report.")
    tell(f"reading {len(run.cells)} {'cell' if len(run.cells) == 1 else 'cells'} of {run.path}")
    tables = _read(run.cells)
    styles = method_styles(cell.algo for cell in run.cells)
    steps, summary = tables.steps, tables.summary
    tell("examining them with detectors")
    alarms = find_alarms(run.cells, summary)
    detectors = detectors_section(alarms, steps.groupby("env").step.max().to_dict(), styles)
    tell("drawing the figures of each environment")
    sections = _env_sections(run.cells, tables, alarms, styles)
    tell("correlating energy with rewards")
    energy = energy_section(
        map_cells(run.cells, "episodes", task_table), map_cells(run.cells, "tokens", action_counts), steps
    )
    tell("testing published claims")
    others = (detectors, energy, stability_section(run), claims_section(run, tables.groups))
    started = str(run.manifest.get("started", ""))
    return Report(
        title="Stability of policy optimisation on language agents",
        subtitle=" · ".join(
            part for part in (f"Run {run.name}", started[:16].replace("T", " "), _size_of(run)) if part
        ),
        ranking=ranking_table(summary),
        collapses=collapses(summary, alarms.leads) or (no_collapse(summary),),
        findings=tuple(finding(env, summary[summary.env == env]) for env in _envs(run.cells)),
        caveats=(*failed_checks(alarms.examined, alarms.leads), *caveats(run, summary, steps, tables.evals)),
        overview=overview_figure(summary, styles),
        summary=summary_table(summary),
        facts=tuple(facts(run)),
        cells=cells_table(run.cells),
        tables=tuple(
            t for t in (recipe_table(run.cells), differences_table(run.cells), starts_table(run)) if t.groups
        ),
        sections=(*(s for s in sections if s.figures or s.note), *(s for s in others if s)),
    )


def _size_of(run: Run) -> str:
    envs, algos = ({getattr(c, k) for c in run.cells} for k in ("env", "algo"))
    seeds = sorted({len({c.seed for c in run.cells if c.env == env}) for env in envs})
    few, most = seeds[0], seeds[-1]
    counts = [(str(len(envs)), "environment"), (str(len(algos)), "method")]
    counts.append((str(most) if few == most else f"{few} to {most}", "seed"))
    return ", ".join(f"{n} {noun}{'' if n == '1' else 's'}" for n, noun in counts)


def _env_sections(
    cells: Sequence[Cell], tables: _Tables, alarms: Alarms, styles: Mapping[str, MethodStyle]
) -> list[Section]:
    """One for each environment, in alphabetical order."""
    shown = moments(tables.steps, alarms.steps)
    by_name = {(c.env, c.algo, c.seed): c for c in cells}
    return [
        _section(
            env,
            [c for c in cells if c.env == env],
            _env_data(env, tables, styles),
            microscope(env, shown, by_name, alarms.reasons),
        )
        for env in _envs(cells)
    ]


def _envs(cells: Sequence[Cell]) -> list[str]:
    return sorted({c.env for c in cells})


def _env_data(env: str, tables: _Tables, styles: Mapping[str, MethodStyle]) -> EnvData:
    rows = tables.summary[tables.summary.env == env]
    temperatures, best_start = rows.temperature.dropna(), mean_best_start(rows)
    steps, evals = (frame[frame.env == env] for frame in (tables.steps, tables.evals))
    quantiles, groups = tables.quantiles, tables.groups
    return EnvData(
        env=env,
        methods=tuple(method_order([*steps.algo, *evals.algo])),
        styles=styles,
        steps=steps,
        evals=evals,
        quantiles=quantiles[quantiles.env == env] if len(quantiles) else quantiles,
        groups=groups[groups.env == env] if len(groups) else groups,
        temperature=float(temperatures.iloc[0]) if len(temperatures) else 1.0,
        best_start=None if math.isnan(best_start) else best_start,
        seeds=tuple(rows.groupby("algo").seed.nunique()),
    )


def _section(env: str, cells: list[Cell], data: EnvData, tokens: Microscope | None) -> Section:
    unfinished = [f"{c.algo}, seed {c.seed}, {state_words(c)}" for c in cells if not c.finished]
    note = f"Not finished, curves end early or are missing: {'; '.join(unfinished)}." if unfinished else ""
    figures = env_figures(data) if len(data.steps) else ()
    return Section(env, env_title(env), note, figures, microscope=tokens)

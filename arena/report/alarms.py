"""What the detectors say: in words for the first page, as a table, and on a time line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from arena.analysis.detectors import DETECTORS
from arena.analysis.detectors.base import Status
from arena.analysis.detectors.examine import examine_run, first_alarms, with_leads
from arena.records.reader import IDENTITY, Cell
from arena.report.document import Figure, Finding, LegendItem, Panel, RowGroup, Section, Table
from arena.report.env_data import method_legend
from arena.report.findings import of_seeds, true_count
from arena.report.panels import Mark, line_swatch, timeline_panel
from arena.report.ranking import step_range
from arena.report.style import INK, MethodStyle, method_order
from arena.report.wording import MISSING, env_title, listing

#: Warnings that the first page names of one collapse.
NAMED = 3

_KINDS = {
    "check": "Exact checks: a failure is a fault of the run, of its records, or a policy past its collapse",
    "statistical": "Statistical: compared with what is usual, so that a healthy cell may set one off",
}


@dataclass(frozen=True)
class Alarms:
    """What the detectors say of a run.

    `examined`: of `examine_run`; `leads`: of `with_leads`. By environment, method and seed of each cell that collapsed:
    `steps`, the step worth looking at, and `reasons`, why that one.
    """

    examined: pd.DataFrame
    leads: pd.DataFrame
    steps: dict[tuple[str, str, int], int]
    reasons: dict[tuple[str, str, int], str]


def find_alarms(cells: Sequence[Cell], summary: pd.DataFrame) -> Alarms:
    """Examine the cells that finished a step. `summary`: of `summarise_cells`."""
    fallen = summary.dropna(subset="collapse_step")[[*IDENTITY, "collapse_step"]]
    rows = fallen.itertuples(index=False, name=None)
    onsets = {(env, algo, int(seed)): int(step) for env, algo, seed, step in rows}
    examined = examine_run([cell for cell in cells if cell.step])
    leads = with_leads(examined, onsets)
    first = first_alarms(leads)
    return Alarms(
        examined,
        leads,
        onsets | {key: step for key, (step, *_) in first.items()},
        dict.fromkeys(onsets, "where its collapse began")
        | {key: reason(name, level, step, onsets[key]) for key, (step, name, level) in first.items()},
    )


def collapses(summary: pd.DataFrame, leads: pd.DataFrame) -> tuple[Finding, ...]:
    """Per environment and method that collapsed: in which seeds, since when, and which alarms came first.

    `summary`: of `summarise_cells`; `leads`: of `with_leads`.
    """
    told = []
    for env, rows in summary.groupby("env"):
        for method in method_order(list(rows.algo)):
            cells = rows[(rows.algo == method) & rows.final.notna()]
            fallen = cells.collapse_step.dropna()
            if len(fallen):
                own = leads[(leads.env == env) & (leads.algo == method)]
                since = f"collapsed in {of_seeds(len(fallen), cells)}, from step {step_range(fallen)} on."
                told.append(Finding(f"{method}, {env_title(str(env))}:", (since, _warned(own, len(fallen)))))
    return tuple(told)


def no_collapse(summary: pd.DataFrame) -> Finding:
    """What is known where `collapses` finds none: some cells may have."""
    done = summary[summary.state == "done"]
    late, unknown = true_count(done.late_fall), int(done.late_fall.isna().sum())
    unfinished = len(summary) - len(done)
    parts = [f"{late} fell at the end (too late to say whether that stays)"] if late else []
    parts += [f"{unknown} could not be judged"] if unknown else []
    parts += [f"{unfinished} {'is' if unfinished == 1 else 'are'} not finished"] if unfinished else []
    if not parts:
        return Finding("No cell collapsed.", ())
    return Finding(f"No cell is known to have collapsed: of {len(summary)} cells {listing(parts)}.", ())


def _warned(leads: pd.DataFrame, fallen: int) -> str:
    before = leads[(leads.lead > 0).fillna(False).astype(bool)]
    if before.empty:
        return "No detector warned before."
    by = before.groupby("detector", sort=False).lead.agg(["size", "mean"])
    earliest = by.sort_values(["size", "mean"], ascending=False, kind="stable").index[:NAMED]
    parts = []
    for name in earliest:
        rows = before[before.detector == name]
        seeds = "" if len(rows) == fallen else f" in {len(rows)} of {fallen}"
        parts.append(
            f"{_title(name)} (step {step_range(rows.step)}, {step_range(rows.lead)} steps before{seeds})"
        )
    return f"Earliest warnings: {'; '.join(parts)}."


def _title(name: str) -> str:
    """A detector's title within a sentence."""
    title = DETECTORS[name].title
    return f"{title[0].lower()}{title[1:]}"


def failed_checks(found: pd.DataFrame, leads: pd.DataFrame) -> list[str]:
    """For the caveats: each exact check that failed, and where. `found`: of `examine_run`, `leads`: of `with_leads`."""
    failed = found[(found.kind == "check") & (found.status == Status.CRITICAL)]
    late = leads.index[(leads.lead <= 0).fillna(False).astype(bool)]
    notes = []
    for name, rows in failed.groupby("detector", sort=False):
        cells = [
            f"{r.algo}, {env_title(r.env)}, seed {r.seed}{', after its collapse' * (r.Index in late)}"
            for r in rows.itertuples()
        ]
        more = f" and {len(cells) - NAMED} more" if len(cells) > NAMED else ""
        notes.append(f"Exact check failed, {name} ({_title(str(name))}): {'; '.join(cells[:NAMED])}{more}.")
    return notes


def detectors_section(
    alarms: Alarms, last_steps: Mapping[str, int], styles: Mapping[str, MethodStyle]
) -> Section | None:
    """The table of verdicts and the time lines; None if no cell was examined. `last_steps`: by environment."""
    if alarms.examined.empty:
        return None
    figure = timeline_figure(alarms.leads, last_steps, styles)
    tables = (verdicts_table(alarms.examined),)
    return Section("detectors", "Detectors", "", (figure,) if figure.panels else (), tables)


def verdicts_table(found: pd.DataFrame) -> Table:
    """A row per detector, a column per method: the worst verdict over environments and seeds."""
    methods = method_order(list(found.algo))
    groups = []
    for kind, title in _KINDS.items():
        own = found[found.kind == kind]
        rows = tuple(
            (name, *(_verdict(of[of.algo == m]) for m in methods), DETECTORS[str(name)].title)
            for name, of in own.groupby("detector", sort=False)
        )
        if rows:
            groups.append(RowGroup(title, rows))
    caption = (
        "The worst verdict over environments and seeds; below it in how many cells, and the first step. SKIPPED: "
        "what the detector reads was not recorded. DEGENERATE: it was, and cannot decide. Neither is ok. "
        "How each is computed: docs/detectors.md."
    )
    return Table(caption, ("Detector", *methods, "What it finds"), tuple(groups), numeric=False)


def _verdict(rows: pd.DataFrame) -> str:
    """`rows`: of one detector and method, one for each cell."""
    if rows.empty:
        return MISSING
    worst = next(s for s in (Status.CRITICAL, Status.WARN, Status.OK, *Status) if (rows.status == s).any())
    of = f"of {len(rows)}"
    if worst in (Status.CRITICAL, Status.WARN):
        alarmed = rows[rows.status.isin([Status.WARN, Status.CRITICAL])]
        steps = alarmed.step.dropna()
        return f"{worst.shown}\n{len(alarmed)} {of}{f', step {steps.min()}' if len(steps) else ''}"
    silent = [
        f"{s.shown} in {n} {of}" for s in (Status.SKIPPED, Status.DEGENERATE) if (n := sum(rows.status == s))
    ]
    return f"{worst.shown}\n{', '.join(silent)}" if worst == Status.OK and silent else worst.shown


def timeline_figure(
    leads: pd.DataFrame, last_steps: Mapping[str, int], styles: Mapping[str, MethodStyle]
) -> Figure:
    """A panel per environment with an alarm. `leads`: of `with_leads`."""
    panels = tuple(
        Panel(env_title(str(env)), _panel(rows, last_steps[str(env)], styles), _alt(str(env), rows))
        for env, rows in leads.groupby("env")
    )
    caption = (
        "Training steps across; a row for each detector that alarmed, the earliest on top. Hollow: the first step at "
        "which it warned; filled: at which it was critical; the earliest over the method's seeds. Vertical line: the "
        "earliest step at which the method's collapse began. The table has every seed, what was measured, and the "
        "lead: how many steps before the collapse."
    )
    legend = (
        *method_legend(method_order(list(leads.algo)), styles),
        LegendItem(line_swatch(MethodStyle(INK, "None", "o"), hollow=True), "first warn"),
        LegendItem(line_swatch(MethodStyle(INK, "None", "o")), "first critical"),
        LegendItem(line_swatch(MethodStyle(INK, "--", "None"), width=1.2), "collapse began"),
    )
    return Figure("alarms", "When they alarmed", caption, legend, panels, leads_table(leads), tall=True)


def _panel(leads: pd.DataFrame, last_step: int, styles: Mapping[str, MethodStyle]) -> str:
    names = _in_time(leads)
    marks = [
        Mark(names.index(str(name)), str(algo), int(step), critical)
        for column, critical in (("step", False), ("critical_step", True))
        for (name, algo), step in leads.groupby(["detector", "algo"])[column].min().dropna().items()
    ]
    filled = {(m.row, m.algo): m.step for m in marks if m.critical}
    shown = [m for m in marks if m.critical or filled.get((m.row, m.algo)) != m.step]
    own = {method: styles[method] for method in method_order(list(leads.algo))}
    return timeline_panel(names, shown, _onsets(leads), own, last_step)


def _in_time(leads: pd.DataFrame) -> list[str]:
    """Detectors, those that alarmed first in front."""
    return [str(n) for n in leads.groupby("detector", sort=False).step.min().sort_values(kind="stable").index]


def _onsets(leads: pd.DataFrame) -> dict[str, int]:
    """By method, the earliest over seeds."""
    return {str(a): int(s) for a, s in leads.groupby("algo").onset.min().dropna().items()}


def _alt(env: str, leads: pd.DataFrame) -> str:
    told = []
    for method in method_order(list(leads.algo)):
        own = leads[leads.algo == method]
        onset = _onsets(own).get(method)
        began = f"collapse from step {onset}" if onset is not None else "no collapse"
        alarms = []
        for name in _in_time(own):
            rows = own[own.detector == name]
            critical = rows.critical_step.min()
            level = "" if pd.isna(critical) else f", critical from {critical}"
            alarms.append(f"{name} from {rows.step.min()}{level}")
        told.append(f"{method}, {began}: {'; '.join(alarms)}.")
    return f"Alarms in {env_title(env)} by training step, earliest over seeds. {' '.join(told)}"


def leads_table(leads: pd.DataFrame) -> Table:
    """Every alarm of every cell, with its lead."""
    header = ("Detector", "Seed", "First step", "First critical", "Collapse began", "Lead, steps", "Measured")
    groups = []
    for env, rows in leads.groupby("env"):
        for method in method_order(list(rows.algo)):
            own = rows[rows.algo == method].sort_values(["step", "detector", "seed"])
            groups.append(RowGroup(f"{env_title(str(env))}, {method}", tuple(_alarm_rows(own))))
    caption = "Every alarm, by environment and method. Lead: how many steps before the cell's collapse began."
    return Table(caption, header, tuple(groups), numeric=False)


def _alarm_rows(leads: pd.DataFrame) -> Iterable[tuple[str, ...]]:
    columns = ["detector", "seed", "step", "critical_step", "onset", "lead", "summary"]
    for detector, *steps, summary in leads[columns].itertuples(index=False, name=None):
        yield detector, *(MISSING if pd.isna(s) else str(s).replace("-", "−") for s in steps), summary


def reason(detector: str, status: Status, step: int, onset: int) -> str:
    """Why a step is shown under the microscope: which alarm, and how long before the collapse."""
    verb = "is critical" if status == Status.CRITICAL else "warns"
    lead = onset - step
    return f"{detector} {verb}, {lead} {'step' if lead == 1 else 'steps'} before its collapse"

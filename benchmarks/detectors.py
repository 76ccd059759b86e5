"""How often the statistical detectors cry wolf, how often they see a collapse, and how long before it.

    python benchmarks/detectors.py runs/healthy runs/stress [--seeds-choose 10,11 --seeds-score 0,1,2] [--write-docs]

Every finished cell of the runs, equal ones once, gets a label by `arena.analysis.degradation`: collapsed, with its
onset in training success; healthy, if it is neither degraded nor fallen at its end; else unclear, which counts for
nothing. Of each detector, for its warnings (alarms of either level) and its critical alarms: the share of healthy
cells with an alarm, with its exact 95 % interval (Clopper-Pearson); the share of collapsed cells with one, and with
one before the onset; and the median lead, onset less the first alarm in steps, over collapsed cells with an alarm
(negative: after the onset). Cells in which a detector cannot decide are not counted for it. Seeds of `--seeds-choose`
are those that constants were chosen on: they get a table of their own, and the decision is taken on those of
`--seeds-score`.

A detector of what collapses runs keeps its place by `FALSE_ALARMS` and `BEFORE_ONSET`, as a warning, or by
`FALSE_ALARMS` and `RECALL`, as a symptom: it comes too late to warn and says what broke. One of a fault that a run of
Arena does not have (`PLANTS`) keeps it by `FALSE_ALARMS` and `FOUND`: the fault is planted in the middle of healthy
cells.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType

import numpy as np
import pandas as pd
from scipy.stats import binomtest

from arena.analysis.detectors.base import CellRecords, Detector, Status
from arena.analysis.detectors.examine import examine
from arena.analysis.detectors.statistical import REJECTED, STATISTICAL
from arena.analysis.summary import summarise_cells
from arena.records.reader import Cell, find_run, load_evals, load_steps, read_run

#: Largest share of healthy cells with a warning: one in ten is what a reader still looks into.
FALSE_ALARMS = 0.1
#: Smallest share of collapsed cells warned of before the onset: it leads more often than not.
BEFORE_ONSET = 0.5
#: Smallest share of collapsed cells in which a symptom shows.
RECALL = 0.5
#: Smallest share of planted faults found.
FOUND = 0.9

#: All of them, those that were rejected too.
ALL = STATISTICAL | REJECTED

DOCS = Path(__file__).parents[1] / "docs" / "detectors.md"


def _sampler_gap(steps: pd.DataFrame, late: pd.Series) -> pd.DataFrame:
    """A sampler that lags behind: its largest gap becomes 1, a ratio of 2.7."""
    return steps.assign(sampler_gap_max=steps.sampler_gap_max.mask(late, 1.0))


def _lost_weights(steps: pd.DataFrame, late: pd.Series) -> pd.DataFrame:
    """A resume from the start's weights: the metrics go on from those of the first steps."""
    columns = steps.columns.difference(["step"])
    shifted = steps[columns].shift(int((~late).sum()))
    return steps.assign(**{name: steps[name].mask(late, shifted[name]) for name in columns})


#: Faults that no run of Arena has, by the detector that is for them: what they make of `steps` where `late`.
PLANTS: dict[str, Callable[[pd.DataFrame, pd.Series], pd.DataFrame]] = {
    "sampler-mismatch": _sampler_gap,
    "resume": _lost_weights,
}


def distinct(cells: Iterable[Cell]) -> list[Cell]:
    """Of cells of one recipe, as runs share them, the first."""
    found: dict[str, Cell] = {}
    for cell in cells:
        found.setdefault(cell.recipe.hash if cell.recipe else str(cell.path), cell)
    return list(found.values())


def label(cell: Cell) -> tuple[str, float]:
    """collapsed, healthy or unclear; and the onset of a collapse, NaN without one."""
    (found,) = summarise_cells([cell], load_steps([cell]), load_evals([cell])).itertuples()
    if not pd.isna(found.collapse_step):
        return "collapsed", float(found.collapse_step)
    sure = found.degraded is False and found.late_fall is False
    return "healthy" if sure else "unclear", np.nan


def alarms(records: CellRecords, detectors: Iterable[Detector]) -> pd.DataFrame:
    """A row for each detector: `status`, and the first step of a `warn` (of either level) and of a `critical` alarm."""
    rows = [
        (d.name, str(v.status), v.step if v.alarm else None, v.critical_step)
        for d, v in examine(records, detectors)
    ]
    frame = pd.DataFrame(rows, columns=["detector", "status", "warn", "critical"])
    return frame.astype({"warn": float, "critical": float})


def planted(records: CellRecords) -> pd.DataFrame:
    """`alarms` of the detectors of `PLANTS`, each on the cell with its fault from the middle on, which is `onset`."""
    frames = []
    for name, plant in PLANTS.items():
        steps = records.steps.sort_values("step", ignore_index=True)
        middle = len(steps) // 2
        faulty = dataclasses.replace(records, steps=plant(steps, steps.index.to_series() >= middle))
        frames.append(alarms(faulty, [ALL[name]]).assign(onset=float(steps.step[middle])))
    return pd.concat(frames, ignore_index=True)


def measure(cells: Sequence[Cell]) -> pd.DataFrame:
    """A row for each cell and detector: cell (its path), env, algo, seed, label, onset, and those of `alarms`.

    Healthy cells have rows with label "planted", too.
    """
    frames = []
    for cell in cells:
        found, onset = label(cell)
        print(f"{cell.name}: {found}" + (f" from step {onset:.0f}" if onset > 0 else ""), file=sys.stderr)
        if found == "unclear":
            continue
        records = CellRecords.of(cell)
        rows = [alarms(records, ALL.values()).assign(label=found, onset=onset)]
        if found == "healthy":
            rows.append(planted(records).assign(label="planted"))
        names = {"cell": str(cell.path), "env": cell.env, "algo": cell.algo, "seed": cell.seed}
        frames += [frame.assign(**names) for frame in rows]
    return pd.concat(frames, ignore_index=True)


@dataclasses.dataclass(frozen=True)
class Score:
    """Of one detector at one level. Counts of cells; `lead` in steps over the `hit` ones, NaN without."""

    healthy: int
    false: int
    collapsed: int
    hit: int
    before: int
    lead: float

    @property
    def interval(self) -> tuple[float, float]:
        """Clopper-Pearson, 95 %, of the rate of false alarms."""
        ends = binomtest(self.false, self.healthy).proportion_ci(0.95, method="exact")
        return float(ends.low), float(ends.high)


def score(rows: pd.DataFrame, level: str, bad: str = "collapsed") -> Score:
    """Of one detector's rows of `measure`, at level `warn` or `critical`; `bad`: the label that asks for an alarm."""
    decided = rows[~rows.status.isin([Status.SKIPPED, Status.DEGENERATE])]
    healthy, collapsed = decided[decided.label == "healthy"], decided[decided.label == bad]
    lead = (collapsed.onset - collapsed[level]).dropna()
    if bad == "planted":
        lead = lead[lead <= 0]  # no fault is found before it is there
    return Score(
        healthy=len(healthy),
        false=int(healthy[level].notna().sum()),
        collapsed=len(collapsed),
        hit=len(lead),
        before=int((lead > 0).sum()),
        lead=float(lead.median()),
    )


def decision(rows: pd.DataFrame, name: str) -> str:
    """Whether the detector `name` earns its place, by its rows of `measure`, and why not."""
    found = score(rows, "warn", "planted" if name in PLANTS else "collapsed")
    if not found.healthy or not found.collapsed:
        return "open: no cell to decide on"
    reasons = []
    if found.false > FALSE_ALARMS * found.healthy:
        reasons.append("false alarms")
    if name in PLANTS:
        if found.hit < FOUND * found.collapsed:
            reasons.append("misses planted faults")
    elif found.hit < RECALL * found.collapsed:
        reasons.append("silent")
    if reasons:
        return f"no: {', '.join(reasons)}"
    if name in PLANTS:
        return "yes"
    return "yes, warning" if found.before >= BEFORE_ONSET * found.collapsed else "yes, symptom"


def table(rows: pd.DataFrame) -> list[str]:
    """Markdown: a row for each detector."""
    head = [
        *("detector", "false alarms", "95 %", "recall", "before onset", "lead, steps"),
        *("critical: false alarms", "recall", "before onset", "lead, steps", "earns its place"),
    ]
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    for name in ALL:
        own = rows[rows.detector == name]
        bad = "planted" if name in PLANTS else "collapsed"
        warn, critical = score(own, "warn", bad), score(own, "critical", bad)
        low, high = warn.interval if warn.healthy else (np.nan, np.nan)
        cells = [
            f"`{name}`" + (" (planted)" if name in PLANTS else ""),
            _share(warn.false, warn.healthy),
            f"{100 * low:.0f} to {100 * high:.0f} %" if warn.healthy else "-",
            *_detected(warn, planted=name in PLANTS),
            _share(critical.false, critical.healthy),
            *_detected(critical, planted=name in PLANTS),
            decision(own, name),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _detected(found: Score, planted: bool) -> list[str]:
    lead = "-" if np.isnan(found.lead) else f"{found.lead:g}"
    return [
        _share(found.hit, found.collapsed),
        "-" if planted else _share(found.before, found.collapsed),
        lead,
    ]


def _share(count: int, of: int) -> str:
    return f"{100 * count / of:.0f} % ({count}/{of})" if of else "-"


def describe(rows: pd.DataFrame) -> str:
    """Which cells a table is of."""
    cells = rows.drop_duplicates(["cell", "label"])
    parts = []
    for name in ("healthy", "collapsed"):
        own = cells[cells.label == name]
        envs = ", ".join(f"{env} {n}" for env, n in own.env.value_counts(sort=False).sort_index().items())
        parts.append(f"{len(own)} {name} cells" + (f" ({envs})" if envs else ""))
    return f"{' and '.join(parts)}, seeds {', '.join(map(str, sorted(cells.seed.unique())))}"


def page(rows: pd.DataFrame, choose: Sequence[int], scored: Sequence[int]) -> str:
    """The tables, each under a line that says what it is of; that of the decision first."""
    parts = [("", rows)]
    if choose or scored:
        parts = [
            ("Scored, constants chosen on other seeds: ", rows[rows.seed.isin(scored)]),
            ("Seeds that the constants were chosen on: ", rows[rows.seed.isin(choose)]),
        ]
    blocks = [
        [f"{title}{describe(part)}.", "", *table(part), "", *by_method(part)]
        for title, part in parts
        if len(part)
    ]
    return "\n\n".join("\n".join(block) for block in blocks)


def module_of(name: str) -> ModuleType:
    """The module of a detector, with its `RULE`."""
    return import_module(f"arena.analysis.detectors.{name.replace('-', '_')}")


def definitions() -> str:
    """Markdown: of each statistical detector what it reads, when it raises the alarm, and why."""
    blocks = []
    for name, detector in ALL.items():
        module = module_of(name)
        text = "\n\n".join((module.__doc__ or "").strip().split("\n\n")[1:])
        needs = ", ".join(f"`{need}`" for need in detector.needs)
        rejected = " (rejected)" if name in REJECTED else ""
        rule = f"Value: {module.RULE.what}. Alarm: {module.RULE.words}. Reads {needs}. Source: {detector.source}."
        blocks.append(f"### {name}{rejected}\n\n{detector.title}. {rule}\n\n{text}")
    return "\n\n".join(blocks)


def put(page: str, name: str, text: str) -> str:
    """The page with `text` between its markers `<!-- NAME: begin -->` and `<!-- NAME: end -->`."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    before, first, rest = page.partition(begin)
    _, second, after = rest.partition(end)
    if not first or not second:
        raise SystemExit(f"the page lacks the markers {begin} and {end}")
    return f"{before}{begin}\n\n{text}\n\n{end}{after}"


def by_method(rows: pd.DataFrame) -> list[str]:
    """Markdown: of each detector that earns its place, whose healthy cells have its false alarms: a rate over all
    methods may be that of none."""
    lines = []
    for name in ALL:
        own = rows[(rows.detector == name) & (rows.label == "healthy")]
        own = own[~own.status.isin([Status.SKIPPED, Status.DEGENERATE])]
        if not decision(rows[rows.detector == name], name).startswith("yes") or not own.warn.notna().any():
            continue
        counts = own.groupby("algo").warn.agg(["count", "size"])
        loud = counts[counts["count"] > 0].sort_values("count", ascending=False)
        told = ", ".join(f"`{algo}` {row['count']} of {row['size']}" for algo, row in loud.iterrows())
        lines.append(f"- `{name}`: {told}; no other method")
    return ["False alarms by method, cells with one of its healthy cells:", "", *lines] if lines else []


def seeds_of(text: str) -> list[int]:
    """`0,1` as numbers."""
    return [int(part) for part in text.split(",")] if text else []


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", nargs="*", help="run folders")
    parser.add_argument(
        "--seeds-choose", type=seeds_of, default=[], help="seeds constants were chosen on: 10,11"
    )
    parser.add_argument("--seeds-score", type=seeds_of, default=[], help="seeds to decide on: 0,1,2")
    parser.add_argument("--write-docs", action="store_true", help="put the tables into docs/detectors.md")
    args = parser.parse_args()
    wanted = {*args.seeds_choose, *args.seeds_score}
    cells = distinct(
        cell
        for run in args.runs
        for cell in read_run(find_run(run)).cells
        if cell.finished and (not wanted or cell.seed in wanted)
    )
    written = put(DOCS.read_text(), "definitions", definitions())
    if args.runs:
        if not cells:
            raise SystemExit("no finished cell of these seeds in these runs")
        text = page(measure(cells), args.seeds_choose, args.seeds_score)
        print(text)
        command = f"    python benchmarks/detectors.py {' '.join(Path(a).name for a in sys.argv[1:])}"
        written = put(written, "measured", f"{command}\n\n{text}")
    if args.write_docs:
        DOCS.write_text(written)


if __name__ == "__main__":
    main()

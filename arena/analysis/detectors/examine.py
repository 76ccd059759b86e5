"""Detectors on the records of cells."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor

import pandas as pd

from arena.analysis.detectors import DETECTORS
from arena.analysis.detectors.base import CellRecords, Detector, Status, Verdict
from arena.records.reader import IDENTITY, WORKERS, Cell

#: The columns of `examine_run` after env, algo and seed.
COLUMNS = ("detector", "kind", "status", "step", "critical_step", "summary")


def examine(
    records: CellRecords, detectors: Iterable[Detector] = DETECTORS.values()
) -> tuple[tuple[Detector, Verdict], ...]:
    """What each detector says of one cell. Where something that it reads is missing, it is SKIPPED, naming that."""
    return tuple((detector, _verdict(detector, records)) for detector in detectors)


def _verdict(detector: Detector, records: CellRecords) -> Verdict:
    missing = records.missing(detector.needs)
    if missing:
        return Verdict(Status.SKIPPED, f"not recorded: {', '.join(missing)}")
    return detector.judge(records)


def examine_run(cells: Iterable[Cell], detectors: Iterable[Detector] = DETECTORS.values()) -> pd.DataFrame:
    """A row for each cell and detector: identity columns, then `COLUMNS`.

    step: that of the alarm; critical_step: the first that is critical; missing without. `WORKERS` cells at a time.
    """
    detectors = tuple(detectors)

    def work(cell: Cell) -> list[tuple[object, ...]]:
        return [
            (
                cell.env,
                cell.algo,
                cell.seed,
                d.name,
                d.kind,
                str(v.status),
                v.step,
                v.critical_step,
                v.summary,
            )
            for d, v in examine(CellRecords.of(cell), detectors)
        ]

    with ThreadPoolExecutor(WORKERS) as pool:
        rows = [row for rows in pool.map(work, cells) for row in rows]
    found = pd.DataFrame(rows, columns=[*IDENTITY, *COLUMNS])
    return found.astype({"step": "Int64", "critical_step": "Int64"})


def with_leads(found: pd.DataFrame, onsets: Mapping[tuple[str, str, int], int]) -> pd.DataFrame:
    """The alarms of `examine_run` with `onset`, the step where the cell's collapse began, and `lead`.

    The lead is how many steps the alarm came before the onset (negative: after it). Both missing where the cell, by
    environment, method and seed, has no onset. An alarm without a step is left out.
    """
    alarms = found[found.step.notna() & found.status.isin([Status.WARN, Status.CRITICAL])]
    keys = alarms[list(IDENTITY)].itertuples(index=False, name=None)
    onset = pd.array([onsets.get(key, pd.NA) for key in keys], dtype="Int64")
    return alarms.assign(onset=onset, lead=onset - alarms.step)


def first_alarms(leads: pd.DataFrame) -> dict[tuple[str, str, int], tuple[int, str, Status]]:
    """Of each cell that collapsed after an alarm: step, detector and level of the first one worth looking at.

    The first critical step before the onset, or without one the first that warned. `leads`: of `with_leads`.
    """
    chosen: dict[tuple[str, str, int], tuple[int, str, Status]] = {}
    for column, status in (("critical_step", Status.CRITICAL), ("step", Status.WARN)):
        before = leads[(leads[column] < leads.onset).fillna(False).astype(bool)]
        for (env, algo, seed), rows in before.groupby(list(IDENTITY)):
            first = rows.sort_values(column, kind="stable").iloc[0]
            chosen.setdefault((env, algo, int(seed)), (int(first[column]), first.detector, status))
    return chosen

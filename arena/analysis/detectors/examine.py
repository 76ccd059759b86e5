"""Detectors on the records of cells."""

from __future__ import annotations

from collections.abc import Iterable

import pandas as pd

from arena.analysis.detectors import DETECTORS
from arena.analysis.detectors.base import CellRecords, Detector, Status, Verdict
from arena.records.reader import IDENTITY, Cell

#: The columns of `examine_run` after env, algo and seed.
COLUMNS = ("detector", "kind", "status", "step", "summary")


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
    """A row for each cell and detector: identity columns, then `COLUMNS`; step: that of the alarm, missing without."""
    detectors = tuple(detectors)
    rows = [
        (cell.env, cell.algo, cell.seed, d.name, d.kind, str(verdict.status), verdict.step, verdict.summary)
        for cell in cells
        for d, verdict in examine(CellRecords.of(cell), detectors)
    ]
    return pd.DataFrame(rows, columns=[*IDENTITY, *COLUMNS]).astype({"step": "Int64"})

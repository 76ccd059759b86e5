"""Which constants a statistical detector would have, chosen on some seeds: what each of a grid comes to there.

    python benchmarks/detector_constants.py staleness runs/cpu runs/stress --seeds-choose 1

Cells and labels are those of `detectors.py`. For the warning's reference, factor and limit (a factor of 0: the
limit alone), prints how many healthy cells have an alarm and how many collapsed ones have one at all and before the
onset, with the median lead; of constants of equal counts the largest factor and limit, as alarms are then furthest
from what healthy cells do. Those that warn before most onsets come first, of these those of fewest false alarms.
"""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Iterable
from itertools import product
from unittest import mock

import numpy as np
import pandas as pd
from detectors import ALL, PLANTS, distinct, label, module_of, seeds_of

from arena.analysis.detectors.base import CellRecords, Detector, Status, Verdict
from arena.analysis.detectors.causal import Bound, Rule
from arena.records.reader import Cell, find_run, read_run

#: Those with a limit to scale, of what collapses runs.
OPEN = [name for name in ALL if name not in PLANTS and module_of(name).RULE.warn.limit is not None]
REFERENCES = ("start", "before")
FACTORS = (1.25, 1.5, 1.75, 2, 2.5, 3, 4, 5, 6, 8, 10)
#: The limits tried are these times the detector's own.
SCALES = (0.5, 1, 1.5, 2, 3, 4, 6, 8)


@dataclasses.dataclass(frozen=True)
class Judged:
    """What a detector's rule was asked of a cell: the series, and where it counts."""

    rule: Rule
    values: pd.Series
    where: pd.Series | None
    label: str
    onset: float


def judged(detector: Detector, cells: Iterable[Cell]) -> list[Judged]:
    """The cells that are collapsed or healthy and that the detector can decide on."""
    found: list[Judged] = []
    verdict = Rule.verdict
    for cell in cells:
        name, onset = label(cell)
        records = CellRecords.of(cell)
        if name == "unclear" or records.missing(detector.needs):
            continue
        asked: list[Judged] = []

        def note(
            rule: Rule,
            values: pd.Series,
            where: pd.Series | None = None,
            to: list[Judged] = asked,
            about: tuple[str, float] = (name, onset),
        ) -> Verdict:
            to.append(Judged(rule, values, where, *about))
            return verdict(rule, values, where)

        with mock.patch.object(Rule, "verdict", note):
            decided = detector.judge(records).status != Status.DEGENERATE
        found += asked if decided else []
    return found


def counts(asked: Iterable[Judged], reference: str, factor: float, limit: float) -> dict[str, float]:
    """Alarms of one rule: of healthy cells, of collapsed ones, of those before the onset, and their median lead."""
    false, leads = 0, []
    for one in asked:
        bound = Bound(factor=factor or None, limit=limit)
        rule = dataclasses.replace(one.rule, warn=bound, critical=bound, reference=reference)
        verdict = rule.verdict(one.values, one.where)
        if verdict.alarm and one.label == "healthy":
            false += 1
        elif verdict.alarm and verdict.step is not None:
            leads.append(one.onset - verdict.step)
    return {
        "false": false,
        "hit": len(leads),
        "before": sum(lead > 0 for lead in leads),
        "lead": float(np.median(leads)) if leads else np.nan,
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("detector", choices=OPEN)
    parser.add_argument("runs", nargs="+", help="run folders")
    parser.add_argument("--seeds-choose", type=seeds_of, default=[1], help="seeds to choose on: 1 or 10,11")
    args = parser.parse_args()
    cells = (cell for run in args.runs for cell in read_run(find_run(run)).cells)
    asked = judged(
        ALL[args.detector], distinct(c for c in cells if c.finished and c.seed in args.seeds_choose)
    )
    if not asked:
        raise SystemExit("no finished cell of these seeds in these runs that the detector can decide on")
    own = module_of(args.detector).RULE.warn.limit
    assert own is not None  # it is in OPEN
    grid = [
        (*pair, scale * own) for pair, scale in product([("none", 0), *product(REFERENCES, FACTORS)], SCALES)
    ]
    rows = [
        {"reference": reference, "factor": factor, "limit": limit} | counts(asked, reference, factor, limit)
        for reference, factor, limit in grid
    ]
    outcome = ["reference", "false", "hit", "before", "lead"]
    table = pd.DataFrame(rows).sort_values(["factor", "limit"]).drop_duplicates(outcome, keep="last")
    healthy = sum(one.label == "healthy" for one in asked)
    seeds = ", ".join(map(str, args.seeds_choose))
    print(f"{args.detector}, seeds {seeds}: {healthy} healthy, {len(asked) - healthy} collapsed")
    print(table.sort_values(["before", "false"], ascending=[False, True]).head(25).to_string(index=False))


if __name__ == "__main__":
    main()

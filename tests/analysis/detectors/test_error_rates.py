"""benchmarks/detectors.py: labels, counts and the page, on records worked out by hand."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pandas as pd
import pytest

from arena.analysis.detectors.base import CellRecords
from arena.records.reader import read_run
from benchmarks.detectors import (
    ALL,
    DOCS,
    Score,
    alarms,
    by_method,
    decision,
    definitions,
    label,
    planted,
    put,
    score,
    table,
)
from tests.analysis.detectors.test_statistical import AT, PLANTED, healthy
from tests.synthetic import Size, write_run

NAN = math.nan


def rows(*cells: tuple[str, float, float, float, str]) -> pd.DataFrame:
    return pd.DataFrame(cells, columns=["label", "onset", "warn", "critical", "status"]).assign(
        detector="kl-explosion"
    )


#: Three healthy cells that decide, one of them with an alarm; three collapsed ones with leads 6, -2 and none.
ROWS = rows(
    ("healthy", NAN, NAN, NAN, "ok"),
    ("healthy", NAN, NAN, NAN, "ok"),
    ("healthy", NAN, 12, NAN, "warn"),
    ("healthy", NAN, NAN, NAN, "degenerate"),
    ("collapsed", 20, 14, 22, "critical"),
    ("collapsed", 20, 22, NAN, "warn"),
    ("collapsed", 20, NAN, NAN, "ok"),
    ("collapsed", 20, NAN, NAN, "skipped"),
    ("planted", 30, 31, NAN, "warn"),
)


def test_counts_and_leads():
    assert score(ROWS, "warn") == Score(healthy=3, false=1, collapsed=3, hit=2, before=1, lead=2.0)
    assert score(ROWS, "critical") == Score(healthy=3, false=0, collapsed=3, hit=1, before=0, lead=-2.0)


def test_the_interval_is_the_exact_one():
    # Clopper-Pearson with no success of n: 1 - 0.025^(1/n) above, 0 below.
    low, high = Score(10, 0, 0, 0, 0, NAN).interval
    assert (low, high) == pytest.approx((0, 1 - 0.025**0.1), abs=1e-6)


def test_an_alarm_before_the_fault_was_planted_finds_nothing():
    found = score(rows(("planted", 30, 12, NAN, "warn"), ("planted", 30, 31, NAN, "warn")), "warn", "planted")
    assert (found.collapsed, found.hit, found.lead) == (2, 1, -1.0)


@pytest.mark.parametrize(
    ("healthy", "alarmed", "before", "after", "never", "said"),
    [
        (10, 1, 1, 1, 0, "yes, warning"),
        (10, 2, 1, 1, 0, "no: false alarms"),
        (10, 1, 1, 2, 0, "yes, symptom"),
        (10, 1, 0, 1, 1, "yes, symptom"),
        (10, 1, 1, 0, 2, "no: silent"),
        (10, 2, 0, 1, 2, "no: false alarms, silent"),
        (0, 0, 1, 0, 0, "open: no cell to decide on"),
    ],
)
def test_the_rule_of_a_place(healthy, alarmed, before, after, never, said):
    cells = [("healthy", NAN, 12 if i < alarmed else NAN, NAN, "ok") for i in range(healthy)]
    cells += [("collapsed", 20, 10, NAN, "warn")] * before + [("collapsed", 20, 25, NAN, "warn")] * after
    cells += [("collapsed", 20, NAN, NAN, "ok")] * never
    assert decision(rows(*cells), "kl-explosion") == said


def test_a_row_of_the_table():
    (line,) = [line for line in table(ROWS) if line.startswith("| `kl-explosion` |")]
    assert line == (
        "| `kl-explosion` | 33 % (1/3) | 1 to 91 % | 67 % (2/3) | 33 % (1/3) | 2 "
        "| 0 % (0/3) | 33 % (1/3) | 0 % (0/3) | -2 | no: false alarms |"
    )


def test_labels_and_alarms_of_a_run(tmp_path):
    path = write_run(tmp_path / "run", Size(steps=40, eval_every=5), ("sokoban",), ("grpo", "cispo"), (0,))
    cells = read_run(path).cells
    assert [c.algo for c in cells] == ["cispo", "grpo"]
    (collapsed, onset), (other, none) = (label(cell) for cell in cells)
    assert (collapsed, other) == ("collapsed", "healthy")
    assert 15 < onset <= 40 and math.isnan(none)
    # The invented KL explodes before success has fallen by a quarter.
    seen, quiet = (alarms(CellRecords.of(c), [ALL["kl-explosion"]]).iloc[0] for c in cells)
    assert 10 < seen.warn <= seen.critical
    assert quiet.status == "ok" and math.isnan(quiet.warn)


def test_planted_faults_are_found_after_they_were_planted():
    records = healthy()
    steps, early = records.steps, np.exp(-records.steps.step / 4)  # the first steps are unlike the middle
    steps = steps.assign(kl_ref_k3=steps.kl_ref_k3 * (1 - early), entropy=steps.entropy * (1 + 3 * early))
    found = planted(dataclasses.replace(records, steps=steps)).set_index("detector")
    assert found.onset.tolist() == [21.0, 21.0]
    assert (found.warn == 22).all()


def test_alarms_are_of_both_levels():
    plant, step = PLANTED["kl-explosion"]
    found = alarms(plant(healthy()), [ALL["kl-explosion"], ALL["entropy-rise"]])
    assert found.warn.tolist()[0] == found.critical.tolist()[0] == step == AT + 1
    assert found.warn.isna().tolist() == found.critical.isna().tolist() == [False, True]


def test_false_alarms_are_told_by_method():
    many = pd.concat([ROWS, *[ROWS.iloc[:2]] * 5])  # 1 of 13 healthy cells
    told = by_method(many.assign(algo=["b", "a", "a", "a", *"bbbbb", *"ab" * 5]))
    assert told[2:] == ["- `kl-explosion`: `a` 1 of 7; no other method"]
    assert by_method(ROWS.assign(algo="a")) == []  # it does not earn its place


def test_the_page_defines_what_is_registered():
    page = DOCS.read_text()
    assert put(page, "definitions", definitions()) == page, "run: python benchmarks/detectors.py --write-docs"
    for name in ALL:
        assert f"| `{name}`" in page


def test_text_is_put_between_its_markers():
    page = "a\n<!-- x: begin -->\n\nold\n\n<!-- x: end -->\nb <!-- y: begin --> <!-- y: end -->"
    assert put(page, "x", "new") == page.replace("old", "new")
    with pytest.raises(SystemExit, match="lacks the markers <!-- z: begin -->"):
        put(page, "z", "new")

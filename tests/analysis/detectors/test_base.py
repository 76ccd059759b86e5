"""What detectors see of a cell, and what is said where something is missing."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from arena.analysis.detectors import DETECTORS
from arena.analysis.detectors.base import CellRecords, Detector, Status, Verdict
from arena.analysis.detectors.examine import examine, examine_run
from arena.analysis.detectors.statistical import REJECTED
from arena.errors import UsageError
from arena.records.reader import read_run
from arena.records.schema import TABLES
from tests.synthetic import Size, write_run


def detector(needs: tuple[str, ...], judge=None) -> Detector:
    def largest(records: CellRecords) -> Verdict:
        return Verdict.of(Status.WARN, "found", records.steps.set_index("step")["x"].nlargest(2))

    return Detector("named", "Title", "check", "Why.", needs, "Advice.", "Source.", judge or largest)


@pytest.fixture(scope="module")
def cells(tmp_path_factory):
    path = write_run(tmp_path_factory.mktemp("run"), Size(steps=2), ("sokoban",), ("grpo",), (0, 1))
    return read_run(path).cells


@pytest.mark.parametrize(
    ("need", "there"),
    [
        ("steps.grad_norm", True),
        ("steps.value_loss", False),  # recorded as null
        ("steps.no_such_column", False),
        ("evals.success", True),
        ("episodes.reward", True),
        ("episodes.advantage", False),  # null in the synthetic records
        ("turns.prompt", True),
        ("turns.no_such_column", False),
        ("tokens", True),
        ("recipe", True),
    ],
)
def test_a_column_without_a_value_is_missing(cells, need, there):
    assert CellRecords.of(cells[0]).missing([need]) == ([] if there else [need])


#: What a detector may name as read: anything else is never there, and the detector always SKIPPED.
KNOWN = {"recipe", *TABLES} | {f"{name}.{c.name}" for name, table in TABLES.items() for c in table.columns}


@pytest.mark.parametrize("detector", (DETECTORS | REJECTED).values(), ids=lambda d: d.name)
def test_what_a_detector_reads_is_in_the_schema(detector):
    assert set(detector.needs) - KNOWN == set()
    assert detector.needs


def test_bare_frames_have_what_they_hold():
    tokens = pd.DataFrame({"step": [1, 1, 2], "advantage": [0.5, np.nan, 1.5]})
    records = CellRecords(steps=pd.DataFrame({"step": [2, 1], "x": [4.0, 3.0]}), tables={"tokens": tokens})
    assert records.missing(["recipe", "steps.x", "evals", "turns", "tokens.advantage"]) == [
        "recipe",
        "evals",
        "turns",
    ]
    assert records.column("x").to_dict() == {1: 3.0, 2: 4.0}
    assert records.column("y") is None
    sums = records.query("tokens", "SELECT step, sum(advantage) AS a FROM tokens GROUP BY step ORDER BY step")
    assert sums.a.tolist() == [0.5, 1.5]
    assert records.query("turns", "SELECT 1") is None


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ({"step": [1, 2]}, "steps and evals must be pandas frames"),
        (pd.DataFrame({"kl": [0.1]}), r"steps has no column 'step'.* its columns are kl\."),
        (pd.DataFrame({"step": [1, 2, 2, 3]}), "steps has more than one row of step 2"),
    ],
)
def test_records_that_cannot_be_judged_are_refused(steps, message):
    with pytest.raises(UsageError, match=message):
        CellRecords(steps=steps)


def test_a_missing_input_is_named_and_never_ok():
    def never(_: CellRecords) -> Verdict:
        raise AssertionError("judged without its input")

    ((_, verdict),) = examine(CellRecords(), [detector(("steps.x", "recipe"), never)])
    assert verdict.status == Status.SKIPPED
    assert verdict.summary == "not recorded: steps.x, recipe"


def test_a_run_gives_a_row_for_each_cell_and_detector(cells):
    def judge(records: CellRecords) -> Verdict:
        seed = records.recipe.seed
        return Verdict(Status.WARN, "seed 1", (2,), (1.0,)) if seed else Verdict(Status.OK, "seed 0")

    frame = examine_run(cells, [detector(("recipe",), judge)])
    assert frame.critical_step.isna().all()
    assert frame.drop(columns=["step", "critical_step"]).values.tolist() == [
        ["sokoban", "grpo", 0, "named", "check", "ok", "seed 0"],
        ["sokoban", "grpo", 1, "named", "check", "warn", "seed 1"],
    ]
    assert frame.step.isna().tolist() == [True, False]
    assert frame.step[1] == 2


def test_steps_at_fault_ascend():
    ((_, verdict),) = examine(
        CellRecords(steps=pd.DataFrame({"step": [1, 2, 3], "x": [5.0, 1.0, 4.0]})), [detector(("steps.x",))]
    )
    assert (verdict.steps, verdict.values, verdict.step, verdict.alarm) == ((1, 3), (5.0, 4.0), 1, True)


def test_what_cannot_be_said_is_shown_in_capitals():
    assert [s.shown for s in Status] == ["ok", "warn", "critical", "SKIPPED", "DEGENERATE"]

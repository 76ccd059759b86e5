"""What the detectors say in the report, from hand-made verdicts."""

import re

import pandas as pd
import pytest

from arena.analysis.detectors.examine import first_alarms, with_leads
from arena.report.alarms import (
    Alarms,
    collapses,
    detectors_section,
    failed_checks,
    find_alarms,
    no_collapse,
    reason,
    verdicts_table,
)
from arena.report.style import method_styles
from tests.report.test_panels import assert_labelled_inside, drawn  # noqa: F401

#: env, algo, seed, detector, kind, status, first step, first critical step.
VERDICTS = [
    ("sokoban", "cispo", 0, "nonfinite", "check", "ok", None, None),
    ("sokoban", "cispo", 1, "nonfinite", "check", "critical", 30, 30),
    ("sokoban", "grpo", 0, "nonfinite", "check", "skipped", None, None),
    ("sokoban", "cispo", 0, "reference-kl", "statistical", "critical", 12, 18),
    ("sokoban", "cispo", 1, "reference-kl", "statistical", "warn", 14, None),
    ("sokoban", "grpo", 0, "reference-kl", "statistical", "ok", None, None),
    ("sokoban", "cispo", 0, "entropy-rise", "statistical", "warn", 8, None),
    ("sokoban", "cispo", 1, "entropy-rise", "statistical", "critical", 26, 27),
    ("sokoban", "grpo", 0, "entropy-rise", "statistical", "degenerate", None, None),
    ("webshop", "grpo", 0, "reference-kl", "statistical", "skipped", None, None),
    ("webshop", "grpo", 0, "entropy-rise", "statistical", "warn", 3, None),
]
ONSETS = {("sokoban", "cispo", 0): 20, ("sokoban", "cispo", 1): 24}


@pytest.fixture(scope="module")
def found():
    columns = ["env", "algo", "seed", "detector", "kind", "status", "step", "critical_step"]
    frame = pd.DataFrame(VERDICTS, columns=columns).assign(summary="what was measured")
    return frame.astype({"step": "Int64", "critical_step": "Int64"})


@pytest.fixture(scope="module")
def leads(found):
    return with_leads(found, ONSETS)


def test_leads_are_counted_to_the_cells_own_onset(leads):
    told = {(r.algo, r.seed, r.detector): r.lead for r in leads[leads.env == "sokoban"].itertuples()}
    assert told == {
        ("cispo", 1, "nonfinite"): -6,
        ("cispo", 0, "reference-kl"): 8,
        ("cispo", 1, "reference-kl"): 10,
        ("cispo", 0, "entropy-rise"): 12,
        ("cispo", 1, "entropy-rise"): -2,
    }
    assert leads[leads.env == "webshop"].lead.isna().all()


def test_the_first_critical_alarm_before_the_onset_is_looked_at(leads):
    # Of seed 0 the one that was critical in time, though another warned earlier; of seed 1 none was.
    assert first_alarms(leads) == {
        ("sokoban", "cispo", 0): (18, "reference-kl", "critical"),
        ("sokoban", "cispo", 1): (14, "reference-kl", "warn"),
    }
    assert reason("reference-kl", "warn", 14, 24) == "reference-kl warns, 10 steps before its collapse"


def test_what_to_look_at_is_the_first_alarm_else_where_the_collapse_began(found, monkeypatch):
    rows = [(*key, step) for key, step in ONSETS.items()]
    rows += [("sokoban", "gspo", 0, 9.0), ("sokoban", "grpo", 0, None)]
    summary = pd.DataFrame(rows, columns=["env", "algo", "seed", "collapse_step"])
    monkeypatch.setattr("arena.report.alarms.examine_run", lambda cells: found)
    alarms = find_alarms((), summary)
    assert alarms.steps == {
        ("sokoban", "cispo", 0): 18,
        ("sokoban", "cispo", 1): 14,
        ("sokoban", "gspo", 0): 9,
    }
    assert alarms.reasons == {
        ("sokoban", "cispo", 0): "reference-kl is critical, 2 steps before its collapse",
        ("sokoban", "cispo", 1): "reference-kl warns, 10 steps before its collapse",
        ("sokoban", "gspo", 0): "where its collapse began",
    }


def test_the_first_page_says_what_warned_before(leads):
    rows = [(env, algo, seed, step) for (env, algo, seed), step in ONSETS.items()]
    rows += [("sokoban", "cispo", 2, None), ("sokoban", "grpo", 0, None)]
    summary = pd.DataFrame(rows, columns=["env", "algo", "seed", "collapse_step"]).assign(final=0.1)
    (told,) = collapses(summary, leads)
    assert told.title == "cispo, Sokoban:"
    assert told.sentences == (
        "collapsed in 2 of 3 seeds, from step 20–24 on.",
        "Earliest warnings: the KL to the reference jumps (step 12–14, 8–10 steps before); entropy rises (step 8, 12 "
        "steps before in 1 of 2).",
    )
    (told,) = collapses(summary, leads[:0])
    assert told.sentences[1] == "No detector warned before."


def test_that_no_cell_collapsed_is_said_only_where_it_is_known():
    def said(*cells):
        return no_collapse(pd.DataFrame(cells, columns=["state", "late_fall"])).title

    fine, late, unknown = ("done", False), ("done", True), ("done", None)
    assert said(fine, fine) == "No cell collapsed."
    assert said(fine, late, unknown, unknown, ("failed", float("nan")), ("running", True)) == (
        "No cell is known to have collapsed: of 6 cells 1 fell at the end (too late to say whether that stays), 2 "
        "could not be judged and 2 are not finished."
    )
    assert said(fine, unknown) == "No cell is known to have collapsed: of 2 cells 1 could not be judged."


def test_failed_checks_are_named_before_a_number_is_quoted(found, leads):
    told = "Exact check failed, nonfinite (values are not finite): cispo, Sokoban, seed 1"
    assert failed_checks(found, leads) == [f"{told}, after its collapse."]
    earlier = with_leads(found, ONSETS | {("sokoban", "cispo", 1): 31})
    assert failed_checks(found, earlier) == [f"{told}."]
    assert failed_checks(found, with_leads(found, {})) == [f"{told}."]


def test_the_table_has_the_worst_verdict_of_each_method(found):
    checks, statistical = verdicts_table(found).groups
    assert checks.rows == (("nonfinite", "SKIPPED", "critical\n1 of 2, step 30", "Values are not finite"),)
    assert [row[1:3] for row in statistical.rows] == [
        ("ok\nSKIPPED in 1 of 2", "critical\n2 of 2, step 12"),
        ("warn\n1 of 2, step 3", "critical\n2 of 2, step 8"),
    ]


def test_the_timeline_has_marks_numbers_and_words(drawn, found, leads):  # noqa: F811
    section = detectors_section(
        Alarms(found, leads, {}, {}), {"sokoban": 40, "webshop": 40}, method_styles(found.algo)
    )
    (figure,) = section.figures
    assert [p.title for p in figure.panels] == ["Sokoban", "WebShop"]
    assert figure.panels[0].alt == (
        "Alarms in Sokoban by training step, earliest over seeds. cispo, collapse from step 20: entropy-rise from 8, "
        "critical from 27; reference-kl from 12, critical from 18; nonfinite from 30, critical from 30."
    )
    assert figure.panels[1].alt.endswith("grpo, no collapse: entropy-rise from 3.")
    axes = drawn[0][0].axes[0]
    assert [t.get_text() for t in axes.get_yticklabels()] == ["entropy-rise", "reference-kl", "nonfinite"]
    marks = {(line.get_xdata()[0], line.get_markerfacecolor() != "none") for line in axes.lines[1:]}
    assert marks == {(8, False), (27, True), (12, False), (18, True), (30, True)}
    assert axes.lines[0].get_xdata()[0] == 20
    rows = {(g.title, r[0], r[1]): r[2:6] for g in figure.table.groups for r in g.rows}
    assert rows["Sokoban, cispo", "reference-kl", "0"] == ("12", "18", "20", "8")
    assert rows["Sokoban, cispo", "nonfinite", "1"] == ("30", "30", "24", "−6")
    assert rows["WebShop, grpo", "entropy-rise", "0"] == ("3", "—", "—", "—")
    assert all(re.search(r"\d", p.alt) for p in figure.panels)
    for panel in drawn[:2]:
        assert_labelled_inside(*panel)


def test_without_an_examined_cell_there_is_no_section(found):
    assert detectors_section(Alarms(found[:0], with_leads(found[:0], {}), {}, {}), {}, {}) is None

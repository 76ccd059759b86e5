"""The section of published claims: there only if this run's cells can test one."""

from dataclasses import dataclass

import pandas as pd

from arena.claims import Claim, Outcome
from arena.claims.base import all_of, not_run
from arena.claims.published import Number
from arena.records.reader import read_run
from arena.report import claims_table
from arena.report.claims_table import claims_section


@dataclass(frozen=True)
class Answered:
    """A part whose answer is given."""

    outcome: Outcome
    label: str = "part"
    needs: tuple = ()

    def test(self, _):
        return self.outcome


def claim(name, outcome):
    return Claim(
        name, f"{name} holds.", "a paper", "How.", (Answered(outcome),), (Number("GRPO", "0.5", "t"),)
    )


def test_tested_claims_stand_with_their_numbers_and_others_are_counted(monkeypatch, built):
    run = read_run(built.run)
    other = claim("other", not_run("part", "points", ()))
    monkeypatch.setattr(claims_table, "CLAIMS", {"other": other})
    assert claims_section(run, pd.DataFrame()) is None
    found = Outcome("part", "reproduced", "why", "points", effect=3.25, low=1.0, high=5.5, seeds=(0, 1, 2))
    monkeypatch.setattr(claims_table, "CLAIMS", {"other": other, "tested": claim("tested", found)})
    section = claims_section(run, pd.DataFrame())
    assert (
        section.note
        == "1 of 2 claims could not be tested on these cells; arena claims synthetic says what they need."
    )
    ((row,),) = (group.rows for group in section.tables[0].groups)
    assert row == (
        "tested",
        "reproduced",
        "+3.2 [+1.0 to +5.5]",
        "points",
        "0-2",
        "tested holds.\nwhy\nPublished: GRPO: 0.5",
    )


def test_parts_stand_with_what_their_numbers_rest_on(monkeypatch, built):
    parts = [
        Outcome("a", "inconclusive", "on sokoban alone", "points", effect=1.0, seeds=(0, 1)),
        Outcome("b", "reproduced", "why", "points", effect=3.25, low=1.0, high=5.5, seeds=(0, 1, 2)),
        Outcome("c", "not run", "cells are missing: d", "points"),
    ]
    whole = all_of(parts)
    assert (whole.verdict, whole.has_run) == ("not run", True)
    monkeypatch.setattr(claims_table, "CLAIMS", {"tested": claim("tested", whole)})
    section = claims_section(read_run(built.run), pd.DataFrame())
    told = section.tables[0].groups[0].rows[0][-1]
    assert told.splitlines()[1:] == [
        "of 3 parts 1 reproduced, 1 inconclusive, 1 not run",
        "a: inconclusive, +1.0 [-] points; on sokoban alone",
        "b: reproduced, +3.2 [+1.0 to +5.5] points; why",
        "Published: GRPO: 0.5",
    ]

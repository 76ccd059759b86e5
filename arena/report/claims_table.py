"""The published claims that the run's cells can test, as a section of the report."""

from __future__ import annotations

import pandas as pd

from arena.claims import CLAIMS, Claim, Outcome, pool
from arena.records.reader import Run
from arena.report.document import RowGroup, Section, Table
from arena.report.wording import MISSING

_CAPTION = (
    "Tested on this run's finished cells of exactly the recipe that a claim names. Effect: positive in the direction "
    "claimed; in brackets Student's 95 % interval over seeds, - below three. Published: on other models and tasks, "
    "without intervals; a verdict is about the direction of an effect, not its size. How each is tested: "
    "docs/claims.md."
)


def claims_section(run: Run, groups: pd.DataFrame) -> Section | None:
    """Verdict, effect and published numbers; None if the run's cells can test no claim.

    `groups`: `eight_groups` of the run's cells.
    """
    cells = pool([run], groups)
    outcomes = {claim: claim.test(cells) for claim in CLAIMS.values()}
    tested = {claim: outcome for claim, outcome in outcomes.items() if outcome.has_run}
    if not tested:
        return None
    rest = len(outcomes) - len(tested)
    note = (
        f"{rest} of {len(outcomes)} claims could not be tested on these cells; arena claims {run.name} says what "
        "they need."
        if rest
        else ""
    )
    rows = tuple(_row(claim, outcome) for claim, outcome in tested.items())
    header = (
        "Claim",
        "Verdict",
        "Effect",
        "Unit",
        "Seeds",
        "What is claimed, what decides, and what was published",
    )
    return Section(
        "claims",
        "Published claims",
        note,
        (),
        (Table(_CAPTION, header, (RowGroup("", rows),), numeric=False),),
    )


def _part(part: Outcome) -> str:
    """One of several parts, with what its numbers rest on."""
    effect = f", {part.effect_text} {part.unit}" if part.effect is not None else ""
    return f"{part.label}: {part.verdict}{effect}; {part.explanation}"


def _row(claim: Claim, outcome: Outcome) -> tuple[str, ...]:
    told = [claim.statement, outcome.explanation, *(_part(part) for part in outcome.parts if part.has_run)]
    told += [f"Published: {claim.published_text}"] if claim.published else []
    return (
        claim.name,
        outcome.verdict,
        outcome.effect_text or MISSING,
        outcome.unit if outcome.effect is not None else MISSING,
        outcome.seeds_text or MISSING,
        "\n".join(told),
    )

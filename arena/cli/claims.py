"""`arena claims`: what published claims come to on recorded cells."""

from __future__ import annotations

import json as json_text
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from arena.cli.options import DEFAULT_RUNS, Json, RunsDir, default_runs
from arena.cli.tables import NOTHING, show
from arena.errors import unknown_name

if TYPE_CHECKING:
    from arena.claims import Claim, Outcome

EPILOG = """
[bold]Examples[/]

arena claims

arena claims claims-cpu claims-cpu-stress

arena claims --claim sequence-clipping --claim sequence-mask
"""


def claims(
    runs: Annotated[
        list[str] | None,
        typer.Argument(
            help="Names of runs, or their folders, whose cells are taken together. Default: the latest run.",
            metavar="[RUN]...",
        ),
    ] = None,
    claim: Annotated[
        list[str] | None,
        typer.Option(
            "--claim", help="Only this claim of [bold]arena list claims[/]. Repeatable.", metavar="NAME"
        ),
    ] = None,
    runs_dir: RunsDir = DEFAULT_RUNS,
    json: Json = False,
) -> None:
    """Test published claims on the cells of runs: reproduced, not reproduced, inconclusive, or not run.

    A claim that is not reproduced is a result: the exit code is 0.
    """
    from arena.claims import CLAIMS, pool
    from arena.claims.base import as_json
    from arena.claims.cells import commands
    from arena.records.reader import find_run, read_run

    for name in claim or ():
        if name not in CLAIMS:
            raise unknown_name("claim", name, CLAIMS)
    folders = [find_run(run, runs_dir) for run in runs or [None]]
    cells = pool(read_run(folder) for folder in folders)
    found = {CLAIMS[name]: CLAIMS[name].test(cells) for name in dict.fromkeys(claim or CLAIMS)}
    lines = commands(
        (each for outcome in found.values() for each in outcome.missing),
        [folder.name if folder.parent == runs_dir else str(folder) for folder in folders],
        claim or (),
        () if runs_dir == default_runs() else ("--runs-dir", str(runs_dir)),
    )
    if json:
        rows = [as_json(each, outcome) for each, outcome in found.items()]
        named = {"runs": [str(f) for f in folders], "claims": rows, "commands": lines}
        print(json_text.dumps(named, indent=1, allow_nan=False))
    else:
        finished = sum(cell.finished for cell in cells.cells)
        print(f"{finished} finished cells of {', '.join(str(f) for f in folders)}\n")
        _show(found, bool(claim))
        _show_commands(lines)


def _show(found: Mapping[Claim, Outcome], asked: bool) -> None:
    """A table of verdicts; what was run, or asked for, in detail."""
    print("Effects are positive in the direction claimed, with Student's 95 % interval over seeds\n")
    show([_row(claim.name, outcome) for claim, outcome in found.items()])
    for claim, outcome in found.items():
        if asked or outcome.has_run:
            _details(claim, outcome)


def _show_commands(lines: Sequence[str]) -> None:
    if lines:
        print("\nMissing cells are made by these commands, one after another; the last one then answers:")
        for line in lines:
            print(f"  {line}")


def _row(name: str, outcome: Outcome) -> dict[str, str]:
    return {
        "claim": name,
        "verdict": outcome.verdict,
        "effect": _effect(outcome),
        "at equal tokens": _effect(outcome.equal_tokens),
        "unit": outcome.unit if outcome.effect is not None else NOTHING,
        "seeds": outcome.seeds_text or NOTHING,
        "explanation": outcome.explanation,
    }


def _details(claim: Claim, outcome: Outcome) -> None:
    print(f"\n{claim.name}: {claim.statement}\n  {claim.source}. {claim.how}")
    if claim.published:
        print(f"  Published: {claim.published_text}.")
    for part in outcome.parts or (outcome,):
        effect = f", {_effect(part)} {part.unit}" if part.effect is not None else ""
        equal = f", at equal tokens {_effect(part.equal_tokens)}" if part.equal_tokens else ""
        print(f"  - {part.label}: {part.verdict}{effect}{equal}. {part.explanation}.")


def _effect(outcome: Outcome | None) -> str:
    return (outcome.effect_text if outcome else None) or NOTHING

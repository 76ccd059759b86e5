"""`arena list`: the names that the other commands take."""

from __future__ import annotations

from typing import Annotated

import typer

from arena.cli.options import Json
from arena.cli.tables import show
from arena.recipe import field_table, field_values, load_tier, tier_names

app = typer.Typer(
    no_args_is_help=True,
    help="List algorithms, modifiers, environments, tiers, recipe fields, detectors or claims.",
)


@app.command()
def algos(json: Json = False) -> None:
    """The named algorithms, each as its parts. Parts combine: [bold]gspo+gigpo+dynamic[/]."""
    from arena.algorithms.catalog import modifier_table, table

    show(table(), json)
    if not json:
        print("\nModifiers, which set a part of any of them:\n")
        show(modifier_table())


@app.command()
def modifiers(json: Json = False) -> None:
    """The modifiers: what follows a [bold]+[/] in [bold]gspo+gigpo+dynamic[/]."""
    from arena.algorithms.catalog import modifier_table

    show(modifier_table(), json)


@app.command()
def envs(json: Json = False) -> None:
    """The environments."""
    from arena.envs import table

    show(table(), json)


@app.command()
def tiers(json: Json = False) -> None:
    """The tiers: sets of recipe defaults."""
    show(
        [{"name": name, "description": load_tier(name).get("description", "")} for name in tier_names()], json
    )


@app.command()
def detectors(json: Json = False) -> None:
    """The detectors of what goes wrong in a run: exact checks and statistical ones."""
    from arena.analysis.detectors import DETECTORS

    rows = [
        {"name": d.name, "kind": d.kind, "title": d.title, "needs": ", ".join(d.needs), "source": d.source}
        for d in DETECTORS.values()
    ]
    show(rows, json)


@app.command()
def fields(
    tier: Annotated[str, typer.Option("--tier", help="The tier whose values are shown.")] = "cpu",
    json: Json = False,
) -> None:
    """The recipe's fields, with a tier's values: what [bold]arena run --set[/] takes."""
    show(field_values(tier) if json else field_table(tier), json)


@app.command()
def claims(json: Json = False) -> None:
    """The published claims that [bold]arena claims[/] tests."""
    from arena.claims import CLAIMS

    rows = [{"name": c.name, "source": c.source, "statement": c.statement} for c in CLAIMS.values()]
    show(rows, json)

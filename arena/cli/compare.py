"""`arena compare`: two runs, or two methods of one run, paired by environment and seed."""

from __future__ import annotations

import json as json_text
from typing import TYPE_CHECKING, Annotated

import typer

from arena.cli.options import DEFAULT_RUNS, Json, RunsDir
from arena.cli.tables import NOTHING, show

if TYPE_CHECKING:
    from arena.analysis.comparison import Comparison, Comparisons, Means
    from arena.analysis.sides import Side

EPILOG = """
[bold]Examples[/]

arena compare grpo sampo

arena compare grpo sampo --run demo --temperature 1

arena compare before after
"""

#: What "at the end" among the collapsed means.
LATE = (
    "At the end: the last evaluation is below half of the peak, and training success does not show a lasting fall: "
    "too late to say whether it stays."
)

#: Seeds that are listed one by one; of more, the signs are counted.
_LISTED = 8


def compare(
    a: Annotated[str, typer.Argument(help="A run (name or folder), or a method of a run.", metavar="A")],
    b: Annotated[str, typer.Argument(help="The same, to be compared with A.", metavar="B")],
    run: Annotated[
        str | None,
        typer.Option(
            "--run", help="The run whose methods A and B are. Default: the latest run.", metavar="RUN"
        ),
    ] = None,
    temperature: Annotated[
        float | None,
        typer.Option(
            "--temperature", help="Evaluation temperature. Default: that of the recipes.", metavar="T"
        ),
    ] = None,
    runs_dir: RunsDir = DEFAULT_RUNS,
    json: Json = False,
) -> None:
    """Say whether B ends better than A, worse, or neither as far as these seeds can show.

    A and B are two runs, or two methods of one run. Only finished cells that both have are compared.
    """
    from arena.analysis.comparison import as_json
    from arena.analysis.comparison import compare as compare_sides
    from arena.analysis.sides import choose_sides

    sides = choose_sides(a, b, run, runs_dir)
    found = compare_sides(*sides, temperature)
    if json:
        named = {name: {"name": s.name, "run": str(s.where)} for name, s in zip("ab", sides, strict=True)}
        rows = [as_json(row) for row in found.rows]
        print(json_text.dumps({**named, "rows": rows, "warnings": found.warnings}, indent=1, allow_nan=False))
    else:
        _show(sides, found)


def _show(sides: tuple[Side, Side], found: Comparisons) -> None:
    for name, side in zip("AB", sides, strict=True):
        print(f"{name}: {side.name} ({', '.join(side.methods)}; {side.where})")
    print("\nSuccess in %, means over the seeds that both have; differences and falls in points\n")
    show([line for row in found.rows for line in _lines(row, found)])
    if any(means.late_falls for row in found.rows for means in (row.a, row.b)):
        print(f"\n{LATE}")
    print("\nFinal success, B - A in points, with Student's 95 % interval over seeds\n")
    show([_verdict(row, found) for row in found.rows])
    if found.chance:
        print(f"\n{found.chance}")
    for warning in found.warnings:
        print(f"\nWarning: {warning}")


def _lines(row: Comparison, found: Comparisons) -> list[dict[str, str]]:
    a, b = row.a, row.b
    change = {
        "start": _signed(b.start - a.start),
        "peak": _signed(b.peak - a.peak),
        "final": _signed(b.final - a.final),
        "peak to final": _signed(b.drop - a.drop),
        "collapsed": NOTHING,
        "tokens": f"x {b.tokens / a.tokens:.2f}" if a.tokens > 0 else NOTHING,
    }
    sides = {"A": _means(a, len(row.seeds)), "B": _means(b, len(row.seeds)), "B - A": change}
    return [{"cells": _name(row, found), "side": side, **texts} for side, texts in sides.items()]


def _means(means: Means, seeds: int) -> dict[str, str]:
    return {
        "start": _points(means.start),
        "peak": _points(means.peak),
        "final": _points(means.final),
        "peak to final": f"{_points(means.drop)} ({100 * means.relative_drop:.0f} %)",
        "collapsed": f"{means.collapsed} of {seeds}"
        + (f", {means.late_falls} at the end" if means.late_falls else ""),
        "tokens": f"{means.tokens:,.0f}" if means.tokens > 0 else NOTHING,
    }


def _verdict(row: Comparison, found: Comparisons) -> dict[str, str]:
    ends = row.interval
    return {
        "cells": _name(row, found),
        "B - A": _signed(row.final.spread.mean),
        "interval": f"{_signed(ends[0])} to {_signed(ends[1])}" if ends else NOTHING,
        "by seed": _by_seed(row),
        "verdict": row.words,
    }


def _by_seed(row: Comparison) -> str:
    signs = ["+" if d > 0 else "-" if d < 0 else "=" for d in row.final.differences]
    if len(signs) <= _LISTED:
        return ", ".join(f"{seed} {sign}" for seed, sign in zip(row.seeds, signs, strict=True))
    return ", ".join(f"{signs.count(sign)} {sign}" for sign in "+-=" if sign in signs)


def _name(row: Comparison, found: Comparisons) -> str:
    """The environment and temperature; with the method where runs of several are compared."""
    several = len({other.methods for other in found.rows}) > 1
    return f"{row.env}{f' {row.methods[0]}' if several else ''}, T {row.temperature:g}"


def _points(share: float) -> str:
    return f"{100 * share:.1f}"


def _signed(share: float) -> str:
    return f"{round(100 * share, 1) + 0.0:+.1f}"  # + 0.0: no -0.0

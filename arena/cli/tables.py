"""Rows of text on stdout: a table on a terminal, blocks where it is too narrow, plain columns in a pipe."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

#: What a cell without a value holds.
NOTHING = "-"

_GAP = 2
#: Columns that the last one of a table needs before it is wrapped.
_LAST = 30


def show(rows: Sequence[Mapping[str, Any]], as_json: bool = False) -> None:
    """Print the rows; all have the keys of the first, and texts as values unless they are printed as JSON."""
    if as_json:
        print(json.dumps([dict(row) for row in rows], indent=1, ensure_ascii=False))
    elif not rows:
        print("nothing to show")
    elif not sys.stdout.isatty():
        _plain(rows)
    elif _fits(rows, Console().width):
        _table(rows)
    else:
        _blocks(rows)


def _widths(rows: Sequence[Mapping[str, str]]) -> dict[str, int]:
    return {key: max(len(key), *(len(row[key]) for row in rows)) for key in rows[0]}


def _fits(rows: Sequence[Mapping[str, str]], width: int) -> bool:
    """Whether all columns but the last fit unbroken, and leave the last enough to wrap in."""
    *others, last = _widths(rows).values()
    return sum(others) + _GAP * len(others) + min(last, _LAST) <= width


def _plain(rows: Sequence[Mapping[str, str]]) -> None:
    widths = _widths(rows)
    for row in [{key: key for key in widths}, *rows]:
        print((" " * _GAP).join(row[key].ljust(width) for key, width in widths.items()).rstrip())


def _table(rows: Sequence[Mapping[str, str]]) -> None:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, _GAP - 1, 0, 0))
    *others, last = rows[0]
    for key in others:
        table.add_column(key, no_wrap=True)
    table.add_column(last, overflow="fold")
    for row in rows:
        table.add_row(*(Text(row[key]) for key in rows[0]))
    Console().print(table)


def _blocks(rows: Sequence[Mapping[str, str]]) -> None:
    """The first column as a heading, the others beneath it."""
    title, *others = rows[0]
    table = Table.grid(padding=(0, _GAP, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for row in rows:
        table.add_row(Text(row[title], style="bold"))
        for key in (k for k in others if row[k] != NOTHING):
            table.add_row(Text(f"  {key}", style="dim"), Text(row[key]))
    Console().print(table)

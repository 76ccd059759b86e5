"""The numbers that the papers print, as data: the tables in `published/`, facts copied from the papers."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from importlib import resources

from arena.errors import UsageError


@dataclass(frozen=True)
class Number:
    """A published value, as printed, with what it is of and the table it stands in."""

    label: str
    value: str
    table: str
    unit: str = ""

    @property
    def text(self) -> str:
        """What it is of, value and unit."""
        return " ".join(filter(None, (f"{self.label}:", self.value, self.unit)))


def spec(name: str) -> str:
    """Arena's name of a method that the tables call so, as sapo-soft for SAPO_SOFT."""
    return "dapo" if name == "DAPO_GRPO" else name.lower().replace("_", "-")


@cache
def rows(table: str) -> tuple[dict[str, str], ...]:
    """The rows of `published/<table>.csv`, column -> text."""
    text = (resources.files("arena.claims") / "published" / f"{table}.csv").read_text(encoding="utf-8")
    return tuple(csv.DictReader(text.splitlines(), strict=True))


def number(label: str, table: str, column: str, unit: str = "", **where: str) -> Number:
    """The value in `column` of the one row that has the values `where`. Raises UsageError unless there is one."""
    found = [row for row in rows(table) if all(row[key] == value for key, value in where.items())]
    if len(found) != 1:
        raise UsageError(f"published table {table}: {len(found)} rows have {where}; it takes one.")
    return Number(label, found[0][column], table, unit)

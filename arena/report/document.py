"""The report as data: what `report.html.j2` and `report.typ` both render."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class RowGroup:
    """Rows under a common heading ("" for none). The first cell of a row is its heading.

    A line break inside a cell separates the value from its spread, which is set smaller.
    """

    title: str
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Table:
    """A table with its caption; columns of numbers stand to the right, of words (not `numeric`) to the left."""

    caption: str
    header: tuple[str, ...]
    groups: tuple[RowGroup, ...]
    numeric: bool = True


@dataclass(frozen=True)
class Panel:
    """One small plot. `alt` says in words what it shows, with the key numbers."""

    title: str
    svg: str
    alt: str


@dataclass(frozen=True)
class LegendItem:
    """A swatch and what it stands for."""

    svg: str
    label: str


@dataclass(frozen=True)
class Figure:
    """Panels with shared axes, one legend, and the numbers behind them. A `tall` one may take several pages."""

    id: str
    title: str
    caption: str
    legend: tuple[LegendItem, ...]
    panels: tuple[Panel, ...]
    table: Table | None
    tall: bool = False


@dataclass(frozen=True)
class Level:
    """A level of colour, -4 to 4; the values it stands for, in words; and its colour on white paper, "" for none."""

    number: int
    label: str
    fill: str


@dataclass(frozen=True)
class Lens:
    """What tokens can be coloured by: a letter for its CSS classes, and the levels it shows."""

    key: str
    title: str
    meaning: str
    legend: tuple[Level, ...]


@dataclass(frozen=True)
class Token:
    """A token's text; its CSS classes, a lens's letter and level each, and x without gradient; its numbers.

    `fill` is its colour by the first lens on white paper, "" for none.
    """

    text: str
    classes: str
    numbers: str
    fill: str


@dataclass(frozen=True)
class SlideTurn:
    """One turn's response and how it moved. `extremes` are its most extreme tokens, `table` has the numbers of all."""

    name: str
    moved: str
    tokens: tuple[Token, ...]
    extremes: str
    table: Table | None


@dataclass(frozen=True)
class Slide:
    """Turns of one cell at one step, and why that step."""

    title: str
    why: str
    turns: tuple[SlideTurn, ...]


@dataclass(frozen=True)
class Microscope:
    """Turns as coloured tokens; the reader chooses the lens, the first one at first."""

    id: str
    title: str
    caption: str
    lenses: tuple[Lens, ...]
    slides: tuple[Slide, ...]


@dataclass(frozen=True)
class Section:
    """Everything about one environment, or about one question.

    `note` names the cells that are not finished, "" if all are. `tables` stand before the figures.
    """

    id: str
    title: str
    note: str
    figures: tuple[Figure, ...]
    tables: tuple[Table, ...] = ()
    microscope: Microscope | None = None


@dataclass(frozen=True)
class Finding:
    """A paragraph of the first page: about one environment, or about one method that collapsed in one."""

    title: str
    sentences: tuple[str, ...]


@dataclass(frozen=True)
class Report:
    """The whole report."""

    title: str
    subtitle: str
    ranking: Table
    collapses: tuple[Finding, ...]
    findings: tuple[Finding, ...]
    caveats: tuple[str, ...]
    overview: Figure
    summary: Table
    facts: tuple[tuple[str, str], ...]
    cells: Table
    tables: tuple[Table, ...]
    sections: tuple[Section, ...]

"""Numbers and names as a reader wants them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

from arena.analysis.statistics import Spread
from arena.records.reader import Cell

NBSP = "\u00a0"
DASH = "–"
MISSING = "—"


#: Names that are not made of words with a capital each.
_TITLES = {"alfworld": "ALFWorld", "frozen_lake": "FrozenLake", "tir_math": "TIR Math", "webshop": "WebShop"}


def env_title(name: str) -> str:
    """An environment's name as a heading: tir_math as TIR Math, my_line as My Line."""
    return _TITLES.get(name) or name.replace("_", " ").title()


def percent(share: float | None) -> str:
    """0.5634 as 56.3 %."""
    return MISSING if share is None or math.isnan(share) else f"{100 * share:.1f}{NBSP}%"


def points(share: float | None) -> str:
    """A difference of shares in points: 0.1 as 10.0."""
    return MISSING if share is None or math.isnan(share) else f"{100 * share:.1f}"


def number(value: float | None) -> str:
    """Three significant digits."""
    if value is None or math.isnan(value):
        return MISSING
    return f"{value:.3g}"


def count(value: float | None) -> str:
    """A whole number, thousands set apart by a narrow space that does not break."""
    return MISSING if value is None or math.isnan(value) else f"{value:,.0f}".replace(",", "\u202f")


def temperature(value: float) -> str:
    """T = 0.5, with 0 named as greedy."""
    return f"T{NBSP}={NBSP}{value:g}" + (" (greedy)" if value == 0 else "")


def with_spread(spread: Spread | None, form: Callable[[float], str]) -> str:
    """The mean; below it the range over seeds unless they agree, and the 95 % interval or that there is no spread."""
    lines = [with_range(spread, form)]
    if spread and spread.interval and spread.same:
        lines.append(f"same in all {spread.seeds} seeds")
    elif spread and spread.interval:
        lines.append(f"CI {form(spread.interval[0])} to {form(spread.interval[1])}".replace(f"{NBSP}%", ""))
    return "\n".join(lines)


def with_range(spread: Spread | None, form: Callable[[float], str]) -> str:
    """The mean; below it the range over seeds unless they agree."""
    if spread is None:
        return MISSING
    lines = [form(spread.mean)]
    if form(spread.low) != form(spread.high):
        lines.append(f"{form(spread.low)}{DASH}{form(spread.high)}".replace(f"{NBSP}%", ""))
    return "\n".join(lines)


def listing(names: Sequence[str]) -> str:
    """a, b and c."""
    *head, last = names
    return f"{', '.join(head)} and {last}" if head else last


def seeds_range(counts: Iterable[int]) -> str:
    """How many seeds methods have: 1 seed, 2 seeds, or 2 to 3 seeds."""
    numbers = sorted(set(counts))
    shown = str(numbers[0]) if len(numbers) == 1 else f"{numbers[0]} to {numbers[-1]}"
    return f"{shown} {'seed' if numbers == [1] else 'seeds'}"


def state_words(cell: Cell) -> str:
    """Where a cell stands and, if it failed, why."""
    reached = f"{cell.state} at step {cell.step} of {cell.steps}" if cell.step else cell.state
    return f"{reached}: {cell.error}" if cell.error else reached

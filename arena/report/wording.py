"""Numbers and names as a reader wants them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from arena.analysis.statistics import Spread
from arena.records.reader import Cell

NBSP = "\u00a0"
DASH = "–"
MISSING = "—"


def env_title(name: str) -> str:
    """frozen_lake as Frozen Lake."""
    return name.replace("_", " ").title()


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
    """The mean; below it the range over seeds, and the 95 % interval where there is one."""
    if spread is None:
        return MISSING
    lines = [form(spread.mean)]
    if spread.seeds > 1:
        lines.append(f"{form(spread.low)}{DASH}{form(spread.high)}".replace(f"{NBSP}%", ""))
    if spread.interval:
        lines.append(f"CI {form(spread.interval[0])} to {form(spread.interval[1])}".replace(f"{NBSP}%", ""))
    return "\n".join(lines)


def listing(names: Sequence[str]) -> str:
    """a, b and c."""
    *head, last = names
    return f"{', '.join(head)} and {last}" if head else last


def seeds_phrase(seeds: int) -> str:
    """What the spread over seeds can mean with this many."""
    if seeds == 1:
        return "one seed, so no spread and no interval"
    if seeds == 2:
        return "2 seeds, so the band is their range; no interval is given below three seeds"
    return f"{seeds} seeds; the band is their range, the table adds Student's 95{NBSP}% interval of the mean"


def state_words(cell: Cell) -> str:
    """Where a cell stands and, if it failed, why."""
    reached = f"{cell.state} at step {cell.step} of {cell.steps}" if cell.step else cell.state
    return f"{reached}: {cell.error}" if cell.error else reached

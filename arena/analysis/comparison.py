"""Two methods or runs beside each other, paired by environment and seed: numbers and verdicts in words."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pandas as pd

from arena.analysis.recipes import recipe_differences
from arena.analysis.sides import Pair, Side, left_out, pairs
from arena.analysis.statistics import MOST_SEEDS, PairedDifference, paired_difference
from arena.analysis.summary import skipped_updates, summarise_cells
from arena.errors import UsageError
from arena.records.reader import Cell, load_evals, load_steps

ComparisonVerdict = Literal["better", "worse", "equal", "open"]

#: Columns of `summarise_cells` that are shown as means over seeds.
_MEANS = ("start", "peak", "final", "drop", "relative_drop", "tokens")


@dataclass(frozen=True)
class Means:
    """Means over seeds of one side: success as shares, `drop` from peak to final, `tokens` sampled for training.

    `collapsed` counts seeds, and `late_falls` those that fell as far at their end and of which training success does
    not show whether that stays (`arena.analysis.degradation`).
    """

    start: float
    peak: float
    final: float
    drop: float
    relative_drop: float
    tokens: float
    collapsed: int
    late_falls: int


def interval_of(difference: PairedDifference) -> tuple[float, float] | None:
    """Student's 95 % interval; None for the reason that `why_no_interval` gives."""
    return None if difference.why_no_interval else difference.spread.interval


def verdict_of(difference: PairedDifference) -> ComparisonVerdict:
    """Better or worse where the interval excludes 0, equal where all seeds are, else open."""
    if not any(difference.differences):
        return "equal"
    interval = interval_of(difference)
    if interval is None or interval[0] <= 0 <= interval[1]:
        return "open"
    return "better" if interval[0] > 0 else "worse"


@dataclass(frozen=True)
class Comparison:
    """B beside A in one environment. `final` is B - A of final success over `seeds`, in their order."""

    env: str
    methods: tuple[str, str]
    temperature: float
    seeds: tuple[int, ...]
    a: Means
    b: Means
    final: PairedDifference

    @property
    def verdict(self) -> ComparisonVerdict:
        """That of the difference of final success."""
        return verdict_of(self.final)

    @property
    def interval(self) -> tuple[float, float] | None:
        """Student's 95 % interval of B - A; None for the reason that `why_no_interval` gives."""
        return interval_of(self.final)

    @property
    def why_no_interval(self) -> str | None:
        """For the user; None if there is one."""
        return self.final.why_no_interval

    @property
    def words(self) -> str:
        """The verdict as a sentence; an open one says how many seeds it would take."""
        if self.verdict == "equal":
            return (
                "no difference: the same in every seed"
                if len(self.seeds) > 1
                else "no difference in the one seed"
            )
        if self.verdict != "open":
            return f"B is {self.verdict}"
        reason = self.why_no_interval
        if self.final.spread.same:
            return f"open: {reason}"
        needed = self.final.seeds_needed
        count = f"about {needed}" if needed else f"more than {MOST_SEEDS}"
        estimate = f"{count} seeds would show one of this size (an estimate)"
        if reason:
            return f"open: {reason}; {estimate}"
        return f"no difference that {len(self.seeds)} seeds can show; {estimate}"


@dataclass(frozen=True)
class Comparisons:
    """All environments (and methods, where runs of several are compared), and what to know before quoting them."""

    rows: tuple[Comparison, ...]
    warnings: tuple[str, ...]

    @property
    def chance(self) -> str | None:
        """How often one of several intervals is wrong by chance, in words; None for fewer than two."""
        count = sum(row.interval is not None for row in self.rows)
        if count < 2:
            return None
        return (
            f"Each interval is at 95 % on its own: of {count} without a true difference, one or more is expected to "
            f"exclude 0 by chance in {100 * (1 - 0.95**count):.0f} % of comparisons."
        )


def compare(a: Side, b: Side, temperature: float | None = None) -> Comparisons:
    """Compare the finished cells that both sides have, at `temperature` or (None) at that of their recipes.

    Raises UsageError if they have none in common, or were not evaluated at that temperature.
    """
    matched = pairs(a, b)
    groups: dict[tuple[str, str, str], list[Pair]] = {}
    for pair in matched:
        groups.setdefault((pair.a.env, pair.a.algo, pair.b.algo), []).append(pair)
    rows, skipped = [], []
    for group in groups.values():
        row, lines = _compare(group, temperature)
        rows.append(row)
        skipped += lines
    return Comparisons(tuple(rows), (*_recipe_warnings(groups.values()), *_left_out(a, b, matched), *skipped))


def _compare(group: Sequence[Pair], temperature: float | None) -> tuple[Comparison, list[str]]:
    """One environment and method: the comparison, and the cells of it that skipped updates."""
    group = sorted(group, key=lambda pair: pair.a.seed)
    at = _temperature(group, temperature)
    tables, lines = [], []
    for name, cells in (("A", [pair.a for pair in group]), ("B", [pair.b for pair in group])):
        steps, evals = load_steps(cells), load_evals(cells)
        _check_evaluated(name, cells, evals, at)
        tables.append(summarise_cells(cells, steps, evals, at))
        lines += [f"{name}: {line}: it did not learn as it was meant to." for line in skipped_updates(steps)]
    in_a, in_b = (table.sort_values("seed") for table in tables)
    first = group[0]
    comparison = Comparison(
        env=first.a.env,
        methods=(first.a.algo, first.b.algo),
        temperature=at,
        seeds=tuple(pair.a.seed for pair in group),
        a=_means(in_a),
        b=_means(in_b),
        final=paired_difference(in_a.final, in_b.final),
    )
    return comparison, lines


def _means(table: pd.DataFrame) -> Means:
    values = {name: float(table[name].astype(float).mean()) for name in _MEANS}
    falls = int((table.late_fall == True).sum())  # noqa: E712 (missing is not)
    return Means(**values, collapsed=int(table.collapse_step.notna().sum()), late_falls=falls)


def _temperature(group: Sequence[Pair], given: float | None) -> float:
    """The one given, else the recipes' evaluation temperature. Raises UsageError where recipes differ in it."""
    if given is not None:
        return given
    used = {c.recipe.eval.temperature for pair in group for c in (pair.a, pair.b) if c.recipe}
    if len(used) != 1:
        shown = ", ".join(f"{t:g}" for t in sorted(used)) or "none"
        raise UsageError(
            f"the recipes of {group[0].a.env} have more than one evaluation temperature or none ({shown}). "
            "Choose one with --temperature."
        )
    return used.pop()


def _check_evaluated(name: str, cells: Sequence[Cell], evals: pd.DataFrame, temperature: float) -> None:
    """Raise UsageError unless every cell's last evaluation, and that of its start, are at the temperature too."""
    for cell in cells:
        own = evals[evals.seed == cell.seed]
        there = set(own[own.step == own.step.max()].temperature) & set(own[own.step == 0].temperature)
        if temperature not in there:
            shown = ", ".join(f"{t:g}" for t in sorted(there)) or "none"
            raise UsageError(
                f"{cell.name} of {name} has no evaluation at temperature {temperature:g} at start and end. "
                f"Temperatures it has: {shown}."
            )


def _recipe_warnings(groups: Iterable[Sequence[Pair]]) -> list[str]:
    """A line per set of differing recipe fields, with the environments that differ in them."""
    lines: dict[str, list[str]] = {}
    for group in groups:
        differing = recipe_differences([p.a for p in group], [p.b for p in group])
        text = ", ".join(f"{field} ({x}; {y})" for field, (x, y) in differing.items())
        lines.setdefault(text, []).append(group[0].a.env)
    return [
        f"the recipes of {', '.join(dict.fromkeys(envs))} differ beside the method, in (A; B): {text}"
        for text, envs in lines.items()
        if text
    ]


def _left_out(a: Side, b: Side, matched: Sequence[Pair]) -> list[str]:
    out = {"A": left_out(a, [p.a for p in matched]), "B": left_out(b, [p.b for p in matched])}
    return [
        f"{name} has cells without a finished partner, left out: {cells}"
        for name, cells in out.items()
        if cells
    ]


def as_json(row: Comparison) -> dict[str, Any]:
    """For programs: shares, not points; what is missing is null."""
    return {
        "env": row.env,
        "method_a": row.methods[0],
        "method_b": row.methods[1],
        "temperature": row.temperature,
        "seeds": list(row.seeds),
        "a": _finite(row.a),
        "b": _finite(row.b),
        "final_difference": row.final.spread.mean,
        "interval": list(row.interval) if row.interval else None,
        "why_no_interval": row.why_no_interval,
        "by_seed": list(row.final.differences),
        "verdict": row.verdict,
        "seeds_needed": row.final.seeds_needed if row.verdict == "open" else None,
        "words": row.words,
    }


def _finite(means: Means) -> dict[str, float | None]:
    return {name: value if math.isfinite(value) else None for name, value in vars(means).items()}

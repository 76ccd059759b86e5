"""What the figures of one environment are drawn from, and the words and tables that go with any curve."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from arena.analysis.statistics import spread_over_seeds
from arena.report.document import LegendItem, RowGroup, Table
from arena.report.panels import line_swatch, short_number
from arena.report.style import MethodStyle
from arena.report.wording import env_title, with_spread

Form = Callable[[float], str]


@dataclass(frozen=True)
class EnvData:
    """Everything recorded in one environment. Frames have env, algo and seed columns.

    `methods` is in report order, `styles` those of all methods of the report, and `seeds` says how many seeds each
    method has. `temperature` is the recipe's evaluation temperature; `best_start` the mean over seeds of the start's
    success at its best temperature, as a share.
    """

    env: str
    methods: tuple[str, ...]
    styles: Mapping[str, MethodStyle]
    steps: pd.DataFrame
    evals: pd.DataFrame
    quantiles: pd.DataFrame
    groups: pd.DataFrame
    temperature: float
    best_start: float | None
    seeds: tuple[int, ...]

    @property
    def title(self) -> str:
        """The environment's name for readers."""
        return env_title(self.env)

    @property
    def last_step(self) -> int:
        """The last step recorded by any cell."""
        return int(self.steps.step.max())


@dataclass(frozen=True)
class Series:
    """A column of a frame with algo, seed and step columns, for a data table."""

    title: str
    frame: pd.DataFrame
    column: str
    form: Form


def method_legend(methods: Iterable[str], styles: Mapping[str, MethodStyle]) -> tuple[LegendItem, ...]:
    """Colour, line and marker of each method."""
    return tuple(LegendItem(line_swatch(styles[m]), m) for m in methods)


def series_table(caption: str, methods: Sequence[str], series: Sequence[Series]) -> Table:
    """Mean and spread over seeds: a row group per method, a row per step, a column per series."""
    groups = []
    for method in methods:
        columns = [_by_step(s, method) for s in series]
        steps = sorted({step for column in columns for step in column})
        rows = tuple((str(step), *(column.get(step, "") for column in columns)) for step in steps)
        if rows:
            groups.append(RowGroup(method, rows))
    return Table(caption, ("Step", *(s.title for s in series)), tuple(groups))


def _by_step(series: Series, method: str) -> dict[int, str]:
    rows = series.frame[series.frame.algo == method]
    texts = {}
    for step, group in rows[["step", series.column]].groupby("step"):
        text = with_spread(spread_over_seeds(group[series.column]), series.form)
        texts[int(str(step))] = text.replace("\n", " · ")
    return texts


def describe_curves(title: str, data: EnvData, curves: pd.DataFrame, form: Form, x_label: str) -> str:
    """First, highest and last mean of each method in words. `curves`: algo, x, mean."""
    parts = []
    for method in data.methods:
        curve = curves[curves.algo == method].sort_values("x")
        if curve.empty:
            continue
        first, last, top = curve.iloc[0], curve.iloc[-1], curve.loc[curve["mean"].idxmax()]
        parts.append(
            f"{method}: {form(first['mean'])} at {short_number(first.x)}, highest {form(top['mean'])} at "
            f"{short_number(top.x)}, {form(last['mean'])} at {short_number(last.x)}."
        )
    return f"{title}, {data.title}, against {x_label}; means over seeds. {' '.join(parts)}"


def in_order(curves: pd.DataFrame, methods: Sequence[str]) -> pd.DataFrame:
    """Curves sorted by method in report order, then by x."""
    order = pd.Categorical(curves.algo, list(methods), ordered=True)
    return curves.assign(order=order).sort_values(["order", "x"]).drop(columns="order")

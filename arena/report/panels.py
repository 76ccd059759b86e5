"""The kinds of panel, drawn with matplotlib.

Each takes numbers and returns an SVG; words are left to `figures`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.patches import Rectangle
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

from arena.report.style import (
    GRID,
    INK,
    ON_TILE,
    PANEL_WIDTH,
    MethodStyle,
    drawing_style,
    new_canvas,
    tint,
    to_svg,
)

Limits = tuple[float, float]

#: Markers per line, at most: more would hide the line.
_MARKERS = 8

#: Inches that three lines take in a tile, and the size of their letters, points, where three tiles stand side by side.
_TILE_HEIGHT, _TILE_FONT = 0.5, 7.5

#: Opacity of the bands of a fan, widest first; they add up where they overlap.
FAN_OPACITIES = (0.25, 0.35, 0.6)

#: Distances between ticks, up to a power of ten.
_TICKS = (1, 2, 5, 10)


@dataclass(frozen=True)
class Scale:
    """The axes of a panel.

    `percent` labels shares as per cent; `reference` draws a dotted horizontal line.
    """

    x_label: str
    x: Limits
    y: Limits
    log: bool = False
    percent: bool = False
    reference: float | None = None


def line_panel(curves: pd.DataFrame, scale: Scale, styles: Mapping[str, MethodStyle]) -> str:
    """Mean and range over seeds against x, a line per method. Columns: algo, x, mean, low, high."""
    with drawing_style():
        canvas, axes = new_canvas()
        if scale.reference is not None:
            axes.axhline(scale.reference, color=INK, linewidth=1.0, linestyle=(0, (1, 2)))
        opacity = min(
            0.16, 1.2 / max(1, curves.algo.nunique())
        )  # bands of many methods would cover their lines
        for place, (algo, curve) in enumerate(curves.groupby("algo", sort=False)):
            style, curve = styles[str(algo)], curve.sort_values("x")
            floor = scale.y[0] if scale.log else -np.inf
            curve = curve[curve["mean"] >= floor]  # on a log axis not zeros, nor what lies below the frame
            low = curve.low.clip(lower=floor)
            axes.fill_between(curve.x, low, curve.high, color=style.colour, alpha=opacity, linewidth=0)
            every = max(1, -(-len(curve) // _MARKERS))
            axes.plot(
                curve.x,
                curve["mean"],
                color=style.colour,
                linestyle=style.line,
                marker=style.marker,
                markevery=(place % every, every),
                clip_on=False,
            )
        _finish(axes, scale)
        return to_svg(canvas)


def mirrored_panel(curve: pd.DataFrame, scale: Scale, upper: str, lower: str) -> str:
    """Two shares against the step, the second drawn downward. Columns: step, high, low."""
    with drawing_style():
        canvas, axes = new_canvas()
        axes.fill_between(curve.step, 0, curve.high, color=upper, linewidth=0.8, alpha=0.85)
        axes.fill_between(curve.step, 0, -curve.low, color=lower, linewidth=0.8, alpha=0.85)
        axes.axhline(0, color=INK, linewidth=0.6)
        if not curve[["high", "low"]].to_numpy().any():
            axes.annotate("none at any step", (0.5, 0.56), xycoords="axes fraction", ha="center")
        _finish(axes, scale)
        axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{100 * abs(y):g} %"))
        return to_svg(canvas)


def fan_panel(quantiles: pd.DataFrame, scale: Scale, colour: str, band: Limits) -> str:
    """Nested bands of quantiles, the median and the maximum, on a log axis. Columns: step, q01..q99, max."""
    with drawing_style():
        canvas, axes = new_canvas()
        for edge in band:
            axes.axhline(edge, color=INK, linewidth=0.7, linestyle=(0, (1, 3)))
        for low, high, opacity in zip(
            ("q01", "q05", "q25"), ("q99", "q95", "q75"), FAN_OPACITIES, strict=True
        ):
            axes.fill_between(
                quantiles.step, quantiles[low], quantiles[high], color=colour, linewidth=0, alpha=opacity
            )
        axes.plot(quantiles.step, quantiles.q50, color=INK, linewidth=1.0)
        axes.plot(quantiles.step, quantiles["max"], color=colour, linewidth=1.0, linestyle=(0, (4, 1.5)))
        _finish(axes, scale)
        return to_svg(canvas)


def stacked_panel(shares: pd.DataFrame, scale: Scale, colours: Mapping[str, str]) -> str:
    """Shares that sum to 1 against the step.

    Index: step; a column for each key of `colours`, stacked in order.
    """
    with drawing_style():
        canvas, axes = new_canvas()
        axes.stackplot(
            shares.index,
            [shares[name] for name in colours],
            colors=list(colours.values()),
            linewidth=0.3,
            edgecolor="white",
        )
        axes.grid(False)
        _finish(axes, scale)
        return to_svg(canvas)


def scatter_panel(layers: Sequence[tuple[pd.DataFrame, str]], trend: pd.DataFrame, scale: Scale) -> str:
    """Points, the last layer on top, and a line. Each layer: columns x and y, and a colour; the line: x and y."""
    with drawing_style():
        canvas, axes = new_canvas()
        for points, colour in layers:
            axes.plot(points.x, points.y, "o", color=colour, markersize=2.6, markeredgewidth=0, alpha=0.6)
        axes.plot(trend.x, trend.y, color=INK, linewidth=1.2, marker="o", markersize=3.6)
        _finish(axes, scale)
        axes.xaxis.set_major_locator(MaxNLocator(5, steps=_TICKS))
        return to_svg(canvas)


@dataclass(frozen=True)
class Journey:
    """A method's way in one environment: means over seeds, and the final value of each seed. Shares."""

    algo: str
    start: float
    peak: float
    final: float
    finals: tuple[float, ...]


def journey_panel(journeys: Sequence[Journey], scale: Scale, styles: Mapping[str, MethodStyle]) -> str:
    """Start, peak and final success of each method on one line each.

    `scale.reference` is drawn vertically.
    """
    height = 0.62 + 0.46 * len(journeys)
    with drawing_style():
        canvas, axes = new_canvas(PANEL_WIDTH, height)
        if scale.reference is not None:
            axes.axvline(scale.reference, color=INK, linewidth=1.0, linestyle=(0, (1, 2)))
        for place, way in enumerate(journeys):
            style, row = styles[way.algo], -place
            points = (way.start, way.peak, way.final)
            axes.plot([min(points), max(points)], [row, row], color=tint(style.colour, 0.55), linewidth=2.2)
            axes.plot(way.start, row, marker="|", color=INK, markersize=9, markeredgewidth=1.4, clip_on=False)
            axes.plot(
                way.finals,
                [row] * len(way.finals),
                ".",
                color=style.colour,
                markersize=3.5,
                alpha=0.8,
                clip_on=False,
            )
            axes.plot(
                way.peak,
                row,
                marker=style.marker,
                markersize=7,
                color=style.colour,
                markerfacecolor="none",
                clip_on=False,
            )
            axes.plot(way.final, row, marker=style.marker, markersize=6, color=style.colour, clip_on=False)
            axes.annotate(
                way.algo, (0, row), (0, 8.5), xycoords=("axes fraction", "data"), textcoords="offset points"
            )
        axes.set(xlim=scale.x, ylim=(-len(journeys) + 0.55, 0.8), yticks=[], xlabel=scale.x_label)
        axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{100 * x:g} %"))
        axes.xaxis.set_major_locator(MaxNLocator(6, steps=_TICKS))
        axes.spines["left"].set_visible(False)
        axes.set_position((0.035, 0.42 / height, 0.905, 1 - 0.46 / height))
        return to_svg(canvas)


@dataclass(frozen=True)
class Tile:
    """A cell of a map: its lines of text, and its colour, None for none; `hatched` for what was not measured."""

    lines: tuple[str, ...]
    colour: str | None
    hatched: bool = False


def map_panel(
    tiles: Sequence[Sequence[Tile]], rows: Sequence[str], columns: Sequence[str], y_label: str
) -> str:
    """A table of coloured tiles, the first row on top, with its numbers written in. `tiles`: rows x columns."""
    height = 0.42 + _TILE_HEIGHT * len(rows)
    size = min(_TILE_FONT, 3 * _TILE_FONT / len(columns))
    with drawing_style():
        canvas, axes = new_canvas(PANEL_WIDTH, height)
        for y, line in enumerate(tiles):
            for x, tile in enumerate(line):
                face, hatch = tile.colour or "none", "////" if tile.hatched else None
                axes.add_patch(
                    Rectangle((x, y), 1, 1, facecolor=face, edgecolor=GRID, linewidth=0.8, hatch=hatch)
                )
                colour = ON_TILE if tile.colour else INK
                words = "\n".join(tile.lines)
                axes.text(x + 0.5, y + 0.5, words, ha="center", va="center", color=colour, fontsize=size)
        axes.grid(False)
        axes.set(xlim=(0, len(columns)), ylim=(len(rows), 0))
        axes.set_xticks([x + 0.5 for x in range(len(columns))], columns)
        axes.set_yticks([y + 0.5 for y in range(len(rows))], rows)
        axes.set_ylabel(y_label)
        axes.tick_params(length=0)
        axes.spines[["left", "bottom"]].set_visible(False)
        axes.set_position((0.16, 0.26 / height, 0.82, 1 - 0.32 / height))
        return to_svg(canvas)


@dataclass(frozen=True)
class Mark:
    """An alarm of a method in a row of a time line."""

    row: int
    algo: str
    step: int
    critical: bool


def timeline_panel(
    rows: Sequence[str],
    marks: Sequence[Mark],
    onsets: Mapping[str, int],
    styles: Mapping[str, MethodStyle],
    last_step: int,
) -> str:
    """Marks by step, in rows from top to bottom, filled if critical; `onsets`: a vertical line for some methods.

    In a row the methods, in the order of `styles`, stand below each other, so that marks of one step are all seen.
    """
    height = 0.46 + len(rows) * (0.15 + 0.035 * len(styles))
    shift = {m: 0.7 * ((place + 0.5) / len(styles) - 0.5) for place, m in enumerate(styles)}
    with drawing_style():
        canvas, axes = new_canvas(PANEL_WIDTH, height)
        for algo, step in onsets.items():
            axes.axvline(step, color=styles[algo].colour, linewidth=1.2, linestyle=(0, (4, 2)))
        for mark in marks:
            style = styles[mark.algo]
            axes.plot(
                mark.step,
                mark.row + shift[mark.algo],
                marker=style.marker,
                markersize=4.5,
                color=style.colour,
                markerfacecolor=style.colour if mark.critical else "none",
                clip_on=False,
            )
        axes.set(xlim=(0, last_step * 1.02), ylim=(len(rows) - 0.4, -0.6), xlabel="training step")
        axes.set_yticks(range(len(rows)), rows, fontsize=_TILE_FONT - 0.5)
        axes.tick_params(axis="y", length=0)
        axes.xaxis.set_major_locator(MaxNLocator(6, integer=True, steps=_TICKS))
        axes.set_position((0.36, 0.38 / height, 0.62, 1 - 0.42 / height))
        return to_svg(canvas)


def line_swatch(style: MethodStyle, width: float = 1.6, hollow: bool = False) -> str:
    """A short line, `width` points, with its marker; for legends."""
    with drawing_style():
        canvas = Canvas(figsize=(0.36, 0.15))
        axes = canvas.add_axes((0, 0, 1, 1))
        axes.axis("off")
        axes.plot([0, 1, 2], [0, 0, 0], color=style.colour, linestyle=style.line, linewidth=width)
        axes.plot(
            [1],
            [0],
            color=style.colour,
            marker=style.marker,
            markersize=4.5,
            markerfacecolor="none" if hollow else style.colour,
        )
        axes.set(xlim=(0, 2), ylim=(-1, 1))
        return to_svg(canvas)


def patch_swatch(colour: str, opacity: float = 1.0) -> str:
    """A filled rectangle, for legends."""
    box = f'<rect width="26" height="11" rx="2" fill="{colour}" fill-opacity="{opacity}"/>'
    return (
        f'<svg viewBox="0 0 26 11" width="26pt" height="11pt" xmlns="http://www.w3.org/2000/svg">{box}</svg>'
    )


def dot_swatch(colour: str) -> str:
    """A dot, for legends."""
    dot = f'<circle cx="13" cy="5.5" r="4" fill="{colour}"/>'
    return (
        f'<svg viewBox="0 0 26 11" width="26pt" height="11pt" xmlns="http://www.w3.org/2000/svg">{dot}</svg>'
    )


def _finish(axes: Axes, scale: Scale) -> None:
    axes.set_xlabel(scale.x_label, labelpad=2)
    if scale.log:
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(FixedLocator(log_ticks(*scale.y)))
        axes.yaxis.set_minor_locator(NullLocator())
        axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: log_label(y)))
    else:
        axes.yaxis.set_major_locator(MaxNLocator(5, steps=_TICKS))
    if scale.percent:
        axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{100 * y:g} %"))
    axes.set(xlim=scale.x, ylim=scale.y)
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True, steps=_TICKS))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: short_number(x)))


def log_ticks(low: float, high: float) -> list[float]:
    """Round numbers in [low, high], at most seven: the finer, the narrower the range."""
    decades = math.log10(high / low)
    leading = (1, 1.2, 1.5, 2, 3, 5, 8) if decades < 1 else (1, 2, 5) if decades < 2.5 else (1,)
    exponents = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    ticks = [lead * 10.0**exponent for exponent in exponents for lead in leading]
    inside = [tick for tick in ticks if low <= tick <= high]
    return inside[:: max(1, -(-len(inside) // 7))]


def log_label(value: float) -> str:
    """A tick of `log_ticks`, short enough for the margin: 0.05, 20 k, and 2e-4 where zeros would crowd it."""
    if 1e-3 <= value < 1e12:
        return short_number(value)
    mantissa, exponent = f"{value:.1e}".split("e")
    return f"{float(mantissa):g}e{int(exponent)}"


def short_number(value: float) -> str:
    """1234567 as 1.2 M, 12000 as 12 k, at most three digits."""
    for size, unit in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if abs(value) >= size:
            return f"{value / size:.3g}{unit}"
    return f"{value:.3g}"

"""The figures about tokens: clip shares, ratio quantiles, and the eight groups. A panel per method each."""

from __future__ import annotations

import numpy as np
import pandas as pd

from arena.analysis.tokens import FALLING, GROUPS, NEUTRAL, QUANTILE_COLUMNS
from arena.records.schema import RATIO_BAND
from arena.report.document import Figure, LegendItem, Panel, RowGroup, Table
from arena.report.env_data import EnvData, Series, series_table
from arena.report.panels import (
    FAN_OPACITIES,
    Scale,
    fan_panel,
    line_swatch,
    mirrored_panel,
    patch_swatch,
    stacked_panel,
)
from arena.report.style import BLUE, GREEN, GREY, INK, ORANGE, VERMILLION, MethodStyle, tint
from arena.report.wording import number, percent

_GROUP_HUES = {"A<0 r<1": VERMILLION, "A<0 r>1": ORANGE, "A>0 r<1": GREEN, "A>0 r>1": BLUE}

#: Group -> colour: hue for the signs of advantage and log ratio, a lighter tint for low entropy, grey for
#: neutral.
GROUP_COLOURS = {
    group: "#b4b8bd"
    if group == NEUTRAL
    else tint(_GROUP_HUES[group[:7]], 0.0 if group.endswith("high") else 0.45)
    for group in GROUPS
}


def out_of_band_figure(data: EnvData) -> Figure:
    """Shares of tokens whose ratio left [0.8, 1.2] on the side that their advantage pushes to."""
    caption = (
        "Share of response tokens whose importance ratio left a band that is the same for all methods. "
        "Upward: advantage above 0 and ratio above 1.2. Downward: advantage below 0 and ratio below 0.8. "
        "In a collapse the share grows and is mostly the lower one."
    )
    title = "Tokens outside the ratio band [0.8, 1.2]"
    return _mirrored_figure(data, "out-of-band", title, caption, "out_of_band_high", "out_of_band_low")


def clipped_figure(data: EnvData) -> Figure:
    """Shares of tokens whose gradient the method's own clip removed."""
    caption = (
        "Upward: by the upper clip (advantage above 0). Downward: by the lower clip (advantage below 0). "
        "Ranges differ between methods: a sequence-level clip is far narrower than a token-level one, so a "
        "large share is not a fault in itself. CISPO's clip bounds the weight and removes no gradient."
    )
    title = "Tokens whose gradient the method's own clip removed"
    return _mirrored_figure(data, "clipped", title, caption, "clipped_high", "clipped_low")


def _mirrored_figure(data: EnvData, name: str, title: str, caption: str, high: str, low: str) -> Figure:
    means = (
        data.steps.groupby(["algo", "step"])[[high, low]].mean().dropna(how="all").fillna(0.0).reset_index()
    )
    means = means.rename(columns={high: "high", low: "low"})
    top = max(0.01, float(means[["high", "low"]].max().max()) * 1.08) if len(means) else 0.01
    scale = Scale("training step", (0, data.last_step), (-top, top))
    panels = []
    for method in data.methods:
        curve = means[means.algo == method]
        if len(curve):
            alt = f"{title}, {method}, {data.title}, by training step. {_largest_and_last(curve)}"
            panels.append(Panel(method, mirrored_panel(curve, scale, BLUE, VERMILLION), alt))
    legend = (
        LegendItem(patch_swatch(BLUE), "upper (advantage > 0)"),
        LegendItem(patch_swatch(VERMILLION), "lower (advantage < 0)"),
    )
    series = [
        Series("Upper share", data.steps, high, percent),
        Series("Lower share", data.steps, low, percent),
    ]
    table = series_table(f"{data.title}: {title[0].lower()}{title[1:]}, by step", data.methods, series)
    caption = f"{caption} Mean over seeds; one scale for all panels."
    return Figure(f"{data.env}-{name}", title, caption, legend, tuple(panels), table)


def _largest_and_last(curve: pd.DataFrame) -> str:
    words = []
    for column, name in (("high", "Upper"), ("low", "Lower")):
        peak, last = curve.loc[curve[column].idxmax()], curve.iloc[-1]
        words.append(
            f"{name} share: largest {percent(peak[column])} at step {peak.step:.0f}, last "
            f"{percent(last[column])}."
        )
    return " ".join(words)


def ratio_figure(data: EnvData) -> Figure:
    """Quantiles of the token ratio on a shared logarithmic scale."""
    means = _mean_quantiles(data.quantiles)
    panels, rows = [], []
    for method in data.methods if len(means) else ():
        curve = means[means.algo == method]
        if len(curve):
            limits = (min(float(means.q01.min()) / 1.1, 0.7), max(float(means["max"].max()) * 1.15, 1.4))
            scale = Scale("training step", (0, data.last_step), limits, log=True)
            panel = fan_panel(curve, scale, data.styles[method].colour, RATIO_BAND)
            panels.append(Panel(method, panel, _describe_ratios(method, data, curve)))
            rows.append(RowGroup(method, _ratio_rows(curve)))
    low, middle, high = np.cumsum(FAN_OPACITIES).clip(max=0.9)
    legend = (
        LegendItem(patch_swatch(GREY, high), "25–75 %"),
        LegendItem(patch_swatch(GREY, middle), "5–95 %"),
        LegendItem(patch_swatch(GREY, low), "1–99 %"),
        LegendItem(line_swatch(MethodStyle(INK, "-", "None"), width=1.2), "median"),
        LegendItem(line_swatch(MethodStyle(GREY, "--", "None"), width=1.2), "largest"),
        LegendItem(line_swatch(MethodStyle(INK, ":", "None"), width=1.2), "0.8 and 1.2"),
    )
    caption = (
        "Quantiles of the token ratio exp(log π − log π_old) over all tokens and updates of a step, log "
        "ratios clamped to ±20 as in the loss. Geometric mean over seeds; the largest is the largest of "
        "all seeds. In each step's first mini-batch every ratio is 1. One logarithmic scale for all "
        "panels. Only recorded tokens."
    )
    header = ("Step", "1 %", "5 %", "25 %", "median", "75 %", "95 %", "99 %", "largest")
    table = Table(f"{data.title}: quantiles of the token ratio, by step", header, tuple(rows))
    return Figure(f"{data.env}-ratios", "Importance ratios", caption, legend, tuple(panels), table)


def _mean_quantiles(quantiles: pd.DataFrame) -> pd.DataFrame:
    """algo, step, q01..q99 (geometric means over seeds), max (over seeds)."""
    if quantiles.empty:
        return quantiles
    columns, by = list(QUANTILE_COLUMNS), ["algo", "step"]
    logs = quantiles.assign(**{c: np.log(quantiles[c]) for c in columns})
    means = np.exp(logs.groupby(by)[columns].mean())
    return means.assign(max=quantiles.groupby(by)["max"].max()).reset_index()


def _describe_ratios(method: str, data: EnvData, curve: pd.DataFrame) -> str:
    last = curve.iloc[-1]
    return (
        f"Importance ratio of tokens, {method}, {data.title}, by training step. At the last step, "
        f"{last.step:.0f}: 1st percentile {number(last.q01)}, median {number(last.q50)}, 99th percentile "
        f"{number(last.q99)}, largest {number(last['max'])}. Largest over all steps "
        f"{number(curve['max'].max())}."
    )


def _ratio_rows(curve: pd.DataFrame) -> tuple[tuple[str, ...], ...]:
    columns = [*QUANTILE_COLUMNS, "max"]
    return tuple((f"{row.step:.0f}", *(number(row[c]) for c in columns)) for _, row in curve.iterrows())


def groups_figure(data: EnvData) -> Figure:
    """The eight groups as stacked shares of the KL to the reference."""
    scale = Scale("training step", (0, data.last_step), (0, 1), percent=True)
    panels, rows = [], []
    for method in data.methods if len(data.groups) else ():
        shares = _mean_shares(data.groups[data.groups.algo == method])
        if len(shares):
            alt = _describe_groups(method, data, shares)
            panels.append(Panel(method, stacked_panel(shares, scale, GROUP_COLOURS), alt))
            values = zip(shares.index, shares.to_numpy(), strict=True)
            rows.append(RowGroup(method, tuple((str(step), *map(percent, row)) for step, row in values)))
    legend = tuple(LegendItem(patch_swatch(c), _group_label(g)) for g, c in GROUP_COLOURS.items())
    caption = (
        "A sequence is one turn's response in one update. It is grouped by the sign of its mean advantage "
        "A, by whether its ratio r = exp(mean log ratio) is below or above 1, and by whether its mean "
        "entropy is above (high) or below (low) the median of the cell's first step. Area: the group's "
        "share of the step's KL to the reference, mean over seeds. Neutral: A is 0, or r is 1 as in each "
        "step's first mini-batch. In a collapse the share with A < 0 and r < 1 jumps."
    )
    header = ("Step", *(_group_label(g) for g in GROUPS))
    table = Table(f"{data.title}: share of the KL to the reference by group, by step", header, tuple(rows))
    title = "Who carries the KL: eight groups of sequences"
    return Figure(f"{data.env}-groups", title, caption, legend, tuple(panels), table)


def _mean_shares(groups: pd.DataFrame) -> pd.DataFrame:
    """Mean over seeds of the share. Index: step; a column for each of GROUPS. Steps without KL are left out."""
    known = groups.dropna(subset="share")
    if known.empty:
        return pd.DataFrame(columns=list(GROUPS))
    return known.pivot_table(index="step", columns="group", values="share", aggfunc="mean")[list(GROUPS)]


def _describe_groups(method: str, data: EnvData, shares: pd.DataFrame) -> str:
    falling = shares[list(FALLING)].sum(axis=1)
    first, last, top = falling.index[0], falling.index[-1], falling.idxmax()
    largest = str(shares.iloc[-1].idxmax())
    return (
        f"Shares of the KL to the reference, {method}, {data.title}, by training step. Sequences with "
        f"negative advantage and ratio below 1 carry {percent(falling[first])} at step {first}, "
        f"{percent(falling[last])} at step {last}, at most {percent(falling[top])} at step {top}. Largest "
        f"group at the last step: {_group_label(largest)} with {percent(shares.iloc[-1].max())}."
    )


def _group_label(group: str) -> str:
    if group == NEUTRAL:
        return "neutral (A = 0 or r = 1)"
    advantage, ratio, _, entropy = group.split()
    return f"A {advantage[1]} 0, r {ratio[1]} 1, {entropy} entropy"

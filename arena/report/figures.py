"""The figures of a report: which numbers, which panels, which words. Drawing is left to `panels`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from arena.analysis.statistics import MIN_SEEDS_FOR_INTERVAL, curve_over_seeds
from arena.analysis.success import success_by_eval, with_tokens
from arena.analysis.summary import mean_best_start
from arena.report.document import Figure, LegendItem, Panel
from arena.report.env_data import (
    EnvData,
    Form,
    Series,
    describe_curves,
    in_order,
    method_legend,
    series_table,
)
from arena.report.panels import Journey, Limits, Scale, journey_panel, line_panel, line_swatch
from arena.report.style import INK, MethodStyle, method_order
from arena.report.token_figures import clipped_figure, groups_figure, out_of_band_figure, ratio_figure
from arena.report.wording import env_title, number, percent, seeds_range, temperature

#: On logarithmic axes, what is below is rounding.
LOWEST_DRAWN = 1e-8
_START_LINE = "the start at its best temperature"


def env_figures(data: EnvData) -> tuple[Figure, ...]:
    """All figures of an environment, in reading order; those without data are left out."""
    figures = (
        success_figure(data),
        movement_figure(data),
        sampling_figure(data),
        values_figure(data),
        out_of_band_figure(data),
        clipped_figure(data),
        ratio_figure(data),
        groups_figure(data),
    )
    return tuple(f for f in figures if f.panels)


def overview_figure(summary: pd.DataFrame, styles: Mapping[str, MethodStyle]) -> Figure:
    """Start, peak and final success of every method, a panel per environment. `summary`: summarise_cells."""
    known = summary.dropna(subset="final")
    top = round_up(float(known[["peak", "best_start"]].max().max()), 0.1) if len(known) else 1.0
    panels = []
    for env, rows in known.groupby("env"):
        journeys = [_journey(m, rows[rows.algo == m]) for m in method_order(list(rows.algo))]
        best = mean_best_start(rows)
        label = f"success at {temperature(rows.temperature.iloc[0])}"
        words = [
            f"{j.algo}: start {percent(j.start)}, peak {percent(j.peak)}, final {percent(j.final)}."
            for j in journeys
        ]
        alt = (
            f"{env_title(str(env))}, {label}, means over seeds. {' '.join(words)} "
            f"The start at its best temperature: {percent(best)}."
        )
        scale = Scale(label, (0, top), (0, 1), reference=best)
        panels.append(Panel(env_title(str(env)), journey_panel(journeys, scale, styles), alt))
    legend = (
        LegendItem(line_swatch(MethodStyle(INK, "None", "|")), "start"),
        LegendItem(line_swatch(MethodStyle(INK, "None", "o"), hollow=True), "peak"),
        LegendItem(line_swatch(MethodStyle(INK, "None", "o")), "final (small dots: each seed)"),
        LegendItem(line_swatch(MethodStyle(INK, ":", "None"), width=1.2), _START_LINE),
    )
    caption = (
        "From the behaviour-cloned start to the peak and to the end of training, means over seeds. The "
        "distance from the hollow to the filled marker is what a method lost after its peak."
    )
    return Figure("overview", "Start, peak and end", caption, legend, tuple(panels), None)


def _journey(algo: str, rows: pd.DataFrame) -> Journey:
    finals = tuple(float(v) for v in rows.final)
    return Journey(algo, float(rows.start.mean()), float(rows.peak.mean()), float(rows.final.mean()), finals)


def success_figure(data: EnvData) -> Figure:
    """Success at the evaluation temperature and at 1, against steps and against sampled tokens."""
    scores = with_tokens(success_by_eval(data.evals), data.steps)
    top = round_up(float(scores.success.max()), 0.1) if len(scores) else 1.0
    panels, series = [], []
    for t in sorted({data.temperature, 1.0} & set(scores.temperature)):
        chosen = scores[scores.temperature == t]
        reference = data.best_start if t == data.temperature else None
        for by, (x_label, curves) in _success_curves(chosen).items():
            scale = Scale(x_label, _x_limits(curves.x), (0, top), percent=True, reference=reference)
            title = f"Success at {temperature(t)}, by {by}"
            alt = describe_curves(title, data, curves, percent, x_label)
            panels.append(Panel(title, line_panel(in_order(curves, data.methods), scale, data.styles), alt))
        series.append(Series(f"Success at {temperature(t)}", chosen, "success", percent))
    legend = method_legend(data.methods, data.styles)
    if data.best_start is not None:
        legend += (LegendItem(line_swatch(MethodStyle(INK, ":", "None"), width=1.2), _START_LINE),)
    band = (
        f"smallest to largest of {seeds_range(data.seeds)}" if max(data.seeds) > 1 else "none, with one seed"
    )
    if max(data.seeds) >= MIN_SEEDS_FOR_INTERVAL:
        band += "; from three seeds on the table adds Student's 95 % interval of the mean"
    caption = (
        "Share of held-out episodes solved; the tasks are the same at every evaluation. Line: mean over "
        f"seeds. Band: {band}. Step 0 is the behaviour-cloned start that all methods of a seed share; what "
        "stays below the dotted line could be had by sampling that start differently."
    )
    table = series_table(f"{data.title}: success by evaluation", data.methods, series)
    return Figure(f"{data.env}-success", "Success", caption, legend, tuple(panels), table)


def _success_curves(scores: pd.DataFrame) -> dict[str, tuple[str, pd.DataFrame]]:
    """By step and by tokens: the axis label, and algo, x, mean, low, high.

    Token counts are means over seeds.
    """
    curves = curve_over_seeds(scores, "success", ["algo", "step"])
    tokens = scores.groupby(["algo", "step"]).tokens.mean().rename("x").reset_index()
    by_tokens = curves.merge(tokens, on=["algo", "step"]).dropna(subset="x")
    return {
        "step": ("training step", curves.assign(x=curves.step)),
        "tokens": ("response tokens sampled", by_tokens),
    }


@dataclass(frozen=True)
class Metric:
    """A column of `steps` drawn as a panel. Metrics with the same `axis` share their y limits."""

    column: str
    title: str
    form: Form
    log: bool = False
    percent: bool = False
    axis: str = ""


def movement_figure(data: EnvData) -> Figure:
    """KL to the behaviour policy and to the reference, and gradient norm."""
    caption = (
        "KL: k3 estimates, token means; to the behaviour policy that sampled the batch, over all "
        "mini-batches of the step, and to the reference, which is the behaviour-cloned start, over the first, "
        "whose tokens are the policy's own. Gradient norm: global, before clipping, mean over the "
        "mini-batches. Logarithmic axes; zeros are not drawn."
    )
    metrics = (
        Metric("kl_behaviour_k3", "KL to the behaviour policy, nats per token", number, log=True),
        Metric("kl_ref_k3", "KL to the reference, nats per token", number, log=True),
        Metric("grad_norm", "Gradient norm", number, log=True),
    )
    return _metrics_figure(data, "movement", "How far the policy moves", caption, metrics)


def sampling_figure(data: EnvData) -> Figure:
    """Entropy of thought and action tokens, and the share of valid responses."""
    caption = (
        "Mean entropy of the sampling distribution over thought and over action tokens (tags are action "
        "tokens), and the share of turns whose response is strictly valid."
    )
    metrics = (
        Metric("entropy_think", "Entropy of thought tokens, nats", number, axis="entropy"),
        Metric("entropy_action", "Entropy of action tokens, nats", number, axis="entropy"),
        Metric("valid_format", "Turns with a valid response", percent, percent=True),
    )
    return _metrics_figure(data, "sampling", "What the policy samples", caption, metrics)


def values_figure(data: EnvData) -> Figure:
    """What values explain and their loss, for methods that have values."""
    caption = (
        "Methods with values only. Share of the variance of the values' targets that the values explained before "
        "the update (drawn from -1 up), and the loss of the values in units of the largest return."
    )
    metrics = (
        Metric("value_explained", "Variance of returns explained", number),
        Metric("value_loss", "Value loss", number, log=True),
    )
    return _metrics_figure(data, "values", "How well values are learned", caption, metrics)


def _metrics_figure(data: EnvData, name: str, title: str, caption: str, metrics: Sequence[Metric]) -> Figure:
    curves = {m: curve_over_seeds(data.steps, m.column, ["algo", "step"]) for m in metrics}
    curves = {m: c.assign(x=c.step) for m, c in curves.items() if len(c)}
    panels = []
    for metric, curve in curves.items():
        sharing = [c for m, c in curves.items() if m == metric or (m.axis and m.axis == metric.axis)]
        limits = _y_limits(pd.concat(sharing), metric)
        scale = Scale("training step", (0, data.last_step), limits, metric.log, metric.percent)
        alt = describe_curves(metric.title, data, curve, metric.form, "training step")
        panels.append(Panel(metric.title, line_panel(in_order(curve, data.methods), scale, data.styles), alt))
    series = [Series(m.title, data.steps, m.column, m.form) for m in curves]
    table = series_table(f"{data.title}: {title[0].lower()}{title[1:]}, by step", data.methods, series)
    caption = f"{caption} Line: mean over seeds; band: smallest to largest seed."
    legend = method_legend(data.methods, data.styles)
    return Figure(f"{data.env}-{name}", title, caption, legend, tuple(panels), table)


def _y_limits(curve: pd.DataFrame, metric: Metric) -> Limits:
    if metric.log:
        values = pd.concat([curve["mean"], curve.high])
        positive = values[values > 0]
        if positive.empty:
            return (0.1, 1.0)
        high = float(positive.max())
        low = max(float(positive.min()), min(LOWEST_DRAWN, high))
        return (low / 1.5, max(high * 1.5, low * 4))
    if metric.percent:
        return (max(0.0, np.floor(float(curve.low.min()) * 10 - 0.5) / 10), 1.005)
    return (min(0.0, max(-1.0, float(curve.low.min()))), float(curve.high.max()) * 1.08 or 1.0)


def _x_limits(x: pd.Series) -> Limits:
    top = float(x.max()) if len(x) else 1.0
    return (-0.02 * top, top * 1.02 or 1.0)


def round_up(share: float, unit: float) -> float:
    """The next multiple of `unit` that leaves some room above `share`, at most 1."""
    return float(min(1.0, np.ceil(share / unit + 0.2) * unit))

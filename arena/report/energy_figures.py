"""The section about energy: what it says about the variance of rewards, and what of tokens and gradient is action."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import pandas as pd

from arena.analysis.energy import (
    MEASURES,
    PAPER_ACTION,
    PAPER_SOKOBAN_SHARE,
    START_STEPS,
    actfocus_effect,
    action_shares,
    correlations,
    gradient_ratios,
)
from arena.analysis.statistics import MIN_SEEDS_FOR_INTERVAL, spread_over_seeds
from arena.records.reader import IDENTITY
from arena.report.document import Figure, LegendItem, Panel, RowGroup, Section, Table
from arena.report.panels import Scale, dot_swatch, line_swatch, scatter_panel
from arena.report.style import BLUE, GREY, INK, MethodStyle, method_order
from arena.report.wording import MISSING, count, env_title, listing, number, percent, with_spread
from arena.seeding import stream_seed

#: Most points of a panel, of the start and of later: more hide each other, and an SVG point takes 80 bytes.
MOST_POINTS = {"start": 120, "later": 180}

_COLOURS = {"start": BLUE, "later": GREY}
_PERIODS = {"start": f"First {START_STEPS} steps", "run": "Whole run"}
_CLASSES = {"action": "action tokens", "think": "thought tokens", "all": "all response tokens"}
_PAIRS = [(role, coefficient) for role in _CLASSES for coefficient in ("spearman", "pearson")]
_PAIR_NAMES = [
    f"{role}, {c.title()}" for role in ("Action", "Thought", "All") for c in ("spearman", "pearson")
]


def energy_section(tasks: pd.DataFrame, counts: pd.DataFrame, steps: pd.DataFrame) -> Section | None:
    """Tables over environments, and a figure for each; None where nothing of it was recorded.

    `tasks` and `counts`: identity columns and those of `task_table` and `action_counts`; `steps` of `load_steps`.
    """
    tables, figures = [], ()
    if len(tasks) and (found := correlations(tasks)).value.notna().any():
        tables.append(correlations_table(found))
        figures = tuple(scatter_figure(str(env), tasks[tasks.env == env], found) for env in _envs(found))
    shares, ratios = action_shares(counts) if len(counts) else counts, gradient_ratios(steps)
    if len(shares) or ratios.log_ratio.notna().any():
        tables.append(roles_table(shares, ratios))
    if not tables:
        return None
    return Section("energy", "Energy and the variance of rewards", "", figures, tuple(tables))


def correlations_table(found: pd.DataFrame) -> Table:
    """Spearman and Pearson by environment and pooled, for both periods, beside the paper's number."""
    groups = []
    for period, title in _PERIODS.items():
        chosen = found[(found.period == period) & (found.level != "cell")]
        rows = [_row(env_title(env), chosen[chosen.env == env], "energy") for env in _envs(found)]
        whole = chosen[chosen.level == "all"]
        if len(rows) > 1:
            rows.append(_row("Mean of environments", whole, "energy"))
        rows += [
            _row(words, whole, prefix)
            for prefix, words in {"centred_energy": "Centred energy", "entropy": "Entropy"}.items()
            if whole[whole.measure.str.startswith(prefix)].value.notna().any()
        ]
        groups.append(RowGroup(title, tuple(rows)))
    near = ("near 0",) * 4
    paper = ("ActFocus paper, pooled", *(f"{PAPER_ACTION:g}",) * 2, *near, MISSING, MISSING)
    groups.append(RowGroup("Published, coefficient not stated", (paper,)))
    caption = (
        "Correlation of a task's mean energy under the frozen reference with the variance of its reward over the "
        "group's rollouts, between the tasks of one step (Spearman: ranks within the step). Mean over cells, then "
        "seeds, then environments; below it the 95 % bootstrap interval over seeds and their tasks, which takes "
        f"{MIN_SEEDS_FOR_INTERVAL} seeds and is too narrow for three that differ (it covers 81 to 90 % in place of "
        f"95 %). Energy depends on the tokens seen only: in the first {START_STEPS} steps "
        "they are about those of the reference, as in the paper; the whole run has more tasks. Centred energy (of "
        "logits minus their mean) and entropy (of the policy that sampled): means of environments. Tags are left "
        "out. Tasks: groups in steps that have a correlation for action tokens, over all cells; in step 1 the methods "
        "of a seed share theirs. Seeds: of the environment with fewest."
    )
    return Table(caption, ("Environment", *_PAIR_NAMES, "Tasks", "Seeds"), tuple(groups))


def _row(title: str, rows: pd.DataFrame, prefix: str) -> tuple[str, ...]:
    known = _by(rows, "measure", "coefficient")
    values = [known.get((f"{prefix}_{role}", c)) for role, c in _PAIRS]
    first = known[f"{prefix}_action", "spearman"]
    return title, *map(_estimate, values), count(first.tasks), str(first.seeds)


def _by(rows: pd.DataFrame, *columns: str) -> dict[tuple[object, ...], pd.Series]:
    """Rows by the values of some columns."""
    return {tuple(row[list(columns)]): row for _, row in rows.iterrows()}


def _estimate(row: pd.Series | None) -> str:
    """A correlation, below it its interval if there is one."""
    if row is None or math.isnan(row.value):
        return MISSING
    ends = "" if math.isnan(row.low) else f"\n{_signed(row.low)} to {_signed(row.high)}"
    return f"{_signed(row.value)}{ends}"


def _signed(value: float) -> str:
    return f"{round(value, 2) + 0:+.2f}".replace("-", "−")


def scatter_figure(env: str, tasks: pd.DataFrame, found: pd.DataFrame) -> Figure:
    """Reward variance against energy less the step's mean, a point per task, a panel per class of tokens."""
    own = found[found.env == env]
    panels = []
    for role, words in _CLASSES.items():
        points = _points(tasks, f"energy_{role}")
        if len(points):
            drawn = _sampled(points, (env, role))
            top = float(points.y.max()) * 1.1 or 1.0
            reach = max(abs(drawn.x).max() * 1.06, 1e-6)
            scale = Scale("energy less the step's mean, nats", (-reach, reach), (-0.06 * top, top))
            layers = [(drawn[drawn.period == p], _COLOURS[p]) for p in ("later", "start")]
            trend = _fifths(points)
            title = f"Variance of reward, by {words}"
            alt = (
                f"{title}, {env_title(env)}: {len(drawn)} of {len(points)} tasks drawn. {_told(own, role)} Mean "
                f"variance from the lowest to the highest fifth by energy: {listing([*map(number, trend.y)])}."
            )
            panels.append(Panel(title, scatter_panel(layers, trend, scale), alt))
    legend = (
        LegendItem(dot_swatch(BLUE), f"task of the first {START_STEPS} steps"),
        LegendItem(dot_swatch(GREY), "task of a later step"),
        LegendItem(line_swatch(MethodStyle(INK, "-", "o")), "means of fifths of all tasks by energy"),
    )
    caption = (
        "A point is a task: a group of one step. Across: its mean energy, less the mean over the tasks of the same "
        "cell and step, because energy has a constant of its own in every reference; to the right the reference is "
        "less sure. Upward: the variance of the reward over the group, moved at random by up to 2 % of its largest, "
        f"because few values occur. At most {sum(MOST_POINTS.values())} points, chosen at random. Each panel has its "
        "own scale across."
    )
    table = _details(env, own)
    return Figure(f"{env}-energy", env_title(env), caption, legend, tuple(panels), table)


def _points(tasks: pd.DataFrame, measure: str) -> pd.DataFrame:
    """x, y and period of the tasks that have both; tasks that methods share once."""
    known = tasks.dropna(subset=[measure, "reward_variance"])
    x = known[measure] - known.groupby([*IDENTITY, "step"])[measure].transform("mean")
    period = (known.step <= START_STEPS).map({True: "start", False: "later"})
    keys = known[["seed", "step", "group_id"]].assign(x=x.round(9), y=known.reward_variance, period=period)
    return keys.drop_duplicates()


def _sampled(points: pd.DataFrame, key: tuple[str, str]) -> pd.DataFrame:
    """At most `MOST_POINTS` of each period, y moved a little."""
    rng = np.random.default_rng(stream_seed("energy points", *key))
    by_period = [(points[points.period == period], most) for period, most in MOST_POINTS.items()]
    drawn = pd.concat([part.sample(min(len(part), most), random_state=rng) for part, most in by_period])
    return drawn.assign(y=drawn.y + rng.uniform(-0.02, 0.02, len(drawn)) * points.y.max())


def _fifths(points: pd.DataFrame) -> pd.DataFrame:
    """Mean x and y of each fifth of the points by x; of fewer points, fewer parts."""
    fifth = points.x.rank(method="first").sub(1).mul(5 / len(points)).astype(int)
    return points.groupby(fifth)[["x", "y"]].mean()


def _told(own: pd.DataFrame, role: str) -> str:
    """The correlations of a class of tokens in words."""
    rows = own[(own.level == "env") & (own.measure == f"energy_{role}")]
    parts = []
    for period, title in _PERIODS.items():
        values = _by(rows[rows.period == period], "coefficient")
        told = [
            f"{str(c).title()} {_estimate(r)}".replace("\n", ", 95 % interval ") for (c,), r in values.items()
        ]
        parts.append(f"{title}, {count(values['spearman',].tasks)} tasks: {'; '.join(told)}.")
    return " ".join(parts)


def _details(env: str, own: pd.DataFrame) -> Table:
    """Every measure, over seeds and by cell."""
    columns = [(p, c) for p in _PERIODS for c in ("spearman", "pearson")]
    groups = []
    cells = own[own.level == "cell"].groupby(["algo", "seed"])
    for title, rows in [
        ("Over seeds", own[own.level == "env"]),
        *((f"{algo}, seed {seed}", rows) for (algo, seed), rows in cells),
    ]:
        known = _by(rows, "measure", "period", "coefficient")
        body = [
            (_measure_name(m), *(_estimate(known[m, *key]).replace("\n", " · ") for key in columns))
            for m in MEASURES
        ]
        groups.append(RowGroup(title, tuple(body)))
    header = ("Measure", *(f"{_PERIODS[p]}, {c.title()}" for p, c in columns))
    caption = (
        f"{env_title(env)}: correlation with the variance of the reward. Intervals: over seeds, from "
        f"{MIN_SEEDS_FOR_INTERVAL} on; of a cell over its tasks."
    )
    return Table(caption, header, tuple(groups))


def _measure_name(measure: str) -> str:
    prefix, _, role = measure.rpartition("_")
    return f"{prefix.replace('_', ' ').capitalize()}, {_CLASSES[role]}"


def roles_table(shares: pd.DataFrame, ratios: pd.DataFrame) -> Table:
    """Action tokens among response tokens and, where recorded, the gradient through them, by method."""
    measured = ratios.log_ratio.notna().any()
    effects = _by(actfocus_effect(ratios), "env", "algo")
    cells = ratios[["env", "algo"]].drop_duplicates()
    groups = []
    for env, rows in cells.groupby("env"):
        body = []
        for method in method_order(list(rows.algo)):
            row = (method, *_share_cells(shares, env, method))
            if measured:
                of_method = ratios[(ratios.env == env) & (ratios.algo == method)]
                row += (_over_seeds(of_method.log_ratio, _ratio), _effect(effects.get((env, method))))
            body.append(row)
        groups.append(RowGroup(env_title(str(env)), tuple(body)))
    header = ("Method", "Action tokens, tags included", "Action tokens, tags left out")
    caption = (
        "Share of action tokens among the response tokens trained on, whole run; mean over seeds, below it smallest "
        "and largest seed and, from three seeds on, Student's 95 % interval. The ActFocus paper: about "
        f"{100 * PAPER_SOKOBAN_SHARE:g} % in Sokoban."
    )
    if measured:
        header += ("Gradient, action over thought", "Against the method without ActFocus")
        caption += (
            " Gradient: norm through action tokens over norm through thought tokens, as measured in each step's first "
            "mini-batch; geometric means over steps and seeds. Against the method without ActFocus: quotient of the "
            "two methods' ratios, paired by seed."
        )
    return Table(caption, header, tuple(groups))


def _share_cells(shares: pd.DataFrame, env: object, method: str) -> Iterable[str]:
    if shares.empty:
        return (MISSING, MISSING)
    own = shares[(shares.env == env) & (shares.algo == method) & (shares.period == "run")]
    return [_over_seeds(own[c], percent) for c in ("with_tags", "without_tags")]


def _over_seeds(values: pd.Series, form: Callable[[float], str]) -> str:
    return with_spread(spread_over_seeds(values.astype(float)), form)


def _ratio(log: float) -> str:
    return number(math.exp(log))


def _effect(row: pd.Series | None) -> str:
    if row is None:
        return MISSING
    ends = "" if math.isnan(row.low) else f"\nCI {number(row.low)} to {number(row.high)}"
    return f"{number(row.times)} times {row.base}{ends}"


def _envs(found: pd.DataFrame) -> Sequence[str]:
    return sorted(set(found[found.level == "env"].env))

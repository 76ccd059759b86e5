"""ActFocus's diagnosis (arXiv 2605.14558): does energy tell which tasks have rewards that vary between rollouts?

A task is a group of one training step. Its energy is the mean over its rollouts of `episodes.energy_*`, its outcome the
variance of the reward over them. Tasks are compared within a step of a cell only: there the policy is one, and so is
the reference. Energy holds a constant of its own in every reference (adding it to all logits changes no probability),
and energy and success both drift in training; neither may pass for a relation between tasks. So a cell's correlation
is that of deviations from the step's mean (Spearman: of ranks within the step); a seed's is the mean of its cells', an
environment's the mean of its seeds', and pooled it is the mean of the environments'. No level mixes levels below it,
which rules out Simpson's paradox. How energy is used in training is left to `arena.algorithms.weighting`.

Also here: which share of a response is action, and how much of the gradient goes through it.
"""

from __future__ import annotations

import math

import duckdb
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from arena.analysis.statistics import paired_difference, why_no_interval
from arena.recipe import split_spec
from arena.records.reader import IDENTITY
from arena.seeding import stream_seed

Array = NDArray[np.float64]

#: Columns of `episodes` that are correlated with the variance of the reward.
MEASURES = (
    "energy_action",
    "energy_think",
    "energy_all",
    "centred_energy_action",
    "centred_energy_think",
    "entropy_action",
    "entropy_think",
)

COEFFICIENTS = ("spearman", "pearson")

#: The steps looked at. Energy is a fixed function of the tokens seen, so both are valid; rewards depend on the policy.
#: "start": the first `START_STEPS`, where it is the reference or close to it, as in the paper's setting. "run": all of
#: them, many more tasks, of a policy that has moved away.
PERIODS = ("start", "run")

#: Step 1 alone, where policy and reference are one, has 16 tasks on the CPU tier: an interval about 1 wide for a cell.
#: At step 5 the KL to the reference is 2 to 8 % of that at the end (grpo in reports/demo, six environments: 0.0007 to
#: 0.010 nats).
START_STEPS = 5

#: The paper's correlation for action tokens, over all its environments; for thought and for all tokens it gives "near
#: 0". It does not say which coefficient.
PAPER_ACTION = 0.537

#: The paper's share of action tokens in Sokoban's responses.
PAPER_SOKOBAN_SHARE = 0.04

#: Bootstrap draws: fewer than `statistics.DRAWS`, because each of them ranks every step's tasks again. The ends of an
#: interval then move by about 2 % of its width (standard deviation over generator seeds, synthetic cells of 40 steps of
#: 16 tasks), below the second digit that is shown.
DRAWS = 1000

#: ActFocus by name, and the method it is without it; other specs add "+actfocus".
_WITHOUT = {"actfocus": "grpo", "ppo-actfocus": "ppo"}
_PARAMETERS = ("alpha", "beta")


def task_table(episodes: duckdb.DuckDBPyRelation) -> pd.DataFrame:
    """One row per task of one cell, from its `episodes`.

    Columns: step, group_id, task_seed, rollouts, reward_variance (Bessel-corrected, over all rollouts; NaN for a single
    one) and `MEASURES` (means over the rollouts that have a value; NaN where none has, as for groups that a filter
    dropped, or the column is not recorded). Energies and entropies in nats.
    """
    means = ", ".join(
        f"avg({name}) AS {name}" if name in episodes.columns else f"NULL::DOUBLE AS {name}"
        for name in MEASURES
    )
    # Rounded, so that the order of equal rewards does not break ties of the variance.
    query = f"""
        SELECT step, group_id, any_value(task_seed) AS task_seed, count(*) AS rollouts,
            round(var_samp(reward), 12) AS reward_variance, {means}
        FROM episodes GROUP BY step, group_id ORDER BY step, group_id
    """
    return _query(episodes, "episodes", query)


def correlations(tasks: pd.DataFrame, draws: int = DRAWS) -> pd.DataFrame:
    """Correlation of each measure with the variance of the reward: by cell, by environment, and over environments.

    `tasks`: identity columns and those of `task_table`. Columns: level (cell, env, all), env, algo, seed (missing where
    the row is over them), period, measure, coefficient, value, low, high, tasks, seeds, note. `value` is NaN without a
    step in which both measure and variance differ between tasks. `tasks` are those of such steps, over all cells; in
    step 1 the methods of a seed share theirs. `seeds`: those with a value; for "all", of the environment with fewest.

    `low` and `high`: 95 % percentile bootstrap, a cell's draws moved to have its value as their mean. A cell's is over
    tasks, drawn anew within each step. Above, it is over seeds: seeds are drawn anew, and for each its tasks; below
    three seeds it is missing, and `note`, else empty, says why. Methods of a seed share the draw of tasks. Draws in
    which the tasks are all alike are left out.
    """
    rows, environments = [], []
    for env, own in tasks.groupby("env"):
        by_seed = []
        for seed, of_seed in own.groupby("seed"):
            cells = []
            for algo, of_cell in of_seed.groupby("algo"):
                found = _cell(of_cell, (str(env), int(str(seed))), draws)
                cells.append(found)
                rows += _rows(("cell", env, algo, seed), *found, None)
            by_seed.append((_mean([c[0] for c in cells]), np.sum([c[1] for c in cells], axis=0)))
        values = np.stack([v for v, _ in by_seed])
        seeds = (~np.isnan(values[:, 0])).sum(axis=0)
        count = np.sum([n for _, n in by_seed], axis=0)
        rng = np.random.default_rng(stream_seed("energy seeds", str(env)))
        size = (draws, len(values))
        drawn = values[rng.integers(len(values), size=size), rng.integers(1, 1 + draws, size=size)]
        of_env = np.concatenate([_mean(list(values[:, :1])), _mean(list(np.moveaxis(drawn, 1, 0)))])
        environments.append((of_env, count, seeds))
        rows += _rows(("env", env, None, None), of_env, count, seeds)
    if environments:
        pooled = _mean([e[0] for e in environments])
        fewest = np.min([np.where(e[2] > 0, e[2], np.iinfo(int).max) for e in environments], axis=0)
        seeds = np.where(np.isnan(pooled[0]), 0, fewest)
        rows += _rows(("all", None, None, None), pooled, np.sum([e[1] for e in environments], axis=0), seeds)
    columns = [*_KEYS, "value", "low", "high", "tasks", "seeds", "note"]
    return pd.DataFrame(rows, columns=columns).astype({"seed": "Int64"})


_KEYS = ("level", *IDENTITY, "period", "measure", "coefficient")


def _cell(tasks: pd.DataFrame, key: tuple[str, int], draws: int) -> tuple[Array, NDArray[np.int64]]:
    """Correlations of one cell, (1 + draws, periods, measures, coefficients), and its tasks, (periods, measures, 1).

    The first of the draws is what was observed.
    """
    shape = (len(PERIODS), len(MEASURES), len(COEFFICIENTS))
    sums = np.zeros((1 + draws, *shape, 3))
    used = np.zeros((*shape[:2], 1), dtype=np.int64)
    for step, rows in tasks.dropna(subset="reward_variance").groupby("step"):
        rng = np.random.default_rng(stream_seed("energy tasks", *key, int(str(step))))
        n = len(rows)
        drawn = rng.multinomial(n, np.full(n, 1 / n), size=draws)
        counts = np.vstack([np.ones((1, n)), drawn.astype(float)])
        periods = [int(str(step)) <= START_STEPS, True]
        for place, measure in enumerate(MEASURES):
            given = rows[measure].notna().to_numpy()
            x, y = (rows[c].to_numpy(float)[given] for c in (measure, "reward_variance"))
            part = _within(counts[:, given], x, y)
            sums[:, periods, place] += part[:, None]
            used[periods, place] += given.sum() if part[0].any() else 0
    spread = np.sqrt(sums[..., 0] * sums[..., 1])
    values = np.divide(sums[..., 2], spread, out=np.full_like(spread, np.nan), where=spread > 0)
    # A task drawn twice is a tie, which draws Spearman to 0 by as much as its error over many steps of few tasks.
    values[1:] = (values[1:] + values[0] - _mean(list(values[1:]))).clip(-1, 1)
    return values, used


def _within(counts: Array, x: Array, y: Array) -> Array:
    """Sums of squares and products of deviations from the mean, of ranks and of values: (draws, coefficients, 3).

    `counts`: how often a draw has each task, (draws, tasks). Zero where a draw's x or y do not differ.
    """
    if not x.size:
        return np.zeros((len(counts), len(COEFFICIENTS), 3))
    ranks = [counts @ ((v < v[:, None]) + 0.5 * (v == v[:, None])).T for v in (x, y)]
    return np.stack([_sums(counts, *ranks), _sums(counts, x - x[0], y - y[0])], axis=1)


def _sums(counts: Array, x: Array, y: Array) -> Array:
    size = np.maximum(counts.sum(axis=1, keepdims=True), 1)
    dx, dy = (v - (counts * v).sum(axis=1, keepdims=True) / size for v in (x, y))
    sums = np.stack([(counts * a * b).sum(axis=1) for a, b in ((dx, dx), (dy, dy), (dx, dy))], axis=-1)
    rounding = 1e-20 * np.array([np.ptp(x), np.ptp(y)]) ** 2
    sums[(sums[:, :2] <= rounding).any(axis=1)] = 0
    return sums


def _mean(parts: list[Array]) -> Array:
    """The mean of arrays of one shape over those that are known; NaN where none is."""
    stacked = np.stack(parts)
    known = (~np.isnan(stacked)).sum(axis=0)
    return np.divide(np.nansum(stacked, axis=0), known, out=np.full(known.shape, np.nan), where=known > 0)


def _rows(
    name: tuple[object, ...], values: Array, tasks: NDArray[np.int64], seeds: NDArray[np.int64] | None
) -> list[tuple[object, ...]]:
    """The rows of one cell (`seeds` None: its interval is over tasks) or of one level above."""
    ends = pd.DataFrame(values[1:].reshape(len(values) - 1, -1)).quantile([0.025, 0.975]).to_numpy()
    ends = ends.reshape(2, *values.shape[1:])
    rows = []
    for place in np.ndindex(values.shape[1:]):
        period, measure, coefficient = place
        number = 1 if seeds is None else int(seeds[place])
        note = (None if seeds is None else why_no_interval(number)) or ""
        known = not math.isnan(values[0][place]) and not note
        low, high = ends[:, *place] if known else (math.nan, math.nan)
        what = (PERIODS[period], MEASURES[measure], COEFFICIENTS[coefficient])
        rows.append((*name, *what, values[0][place], low, high, int(tasks[period, measure, 0]), number, note))
    return rows


def action_counts(tokens: duckdb.DuckDBPyRelation) -> pd.DataFrame:
    """Response tokens of one cell by step, each counted once: columns step, tokens, action, body, body_action.

    `action`: within the action block, tags included; `body`: tags left out, as in the energies. Only recorded groups
    (`record.token_fraction`). Missing where tags are not recorded.
    """
    tag = "tag" if "tag" in tokens.columns else "NULL::BOOLEAN"
    query = f"""
        SELECT step, count(*) AS tokens, count(*) FILTER (role = 'action') AS action,
            if(count({tag}) > 0, count(*) FILTER (NOT {tag}), NULL) AS body,
            if(count({tag}) > 0, count(*) FILTER (NOT {tag} AND role = 'action'), NULL) AS body_action
        FROM tokens WHERE epoch = 0 GROUP BY step ORDER BY step
    """
    return _query(tokens, "tokens", query)


def action_shares(counts: pd.DataFrame) -> pd.DataFrame:
    """Shares of action tokens among response tokens. `counts`: identity columns and those of `action_counts`.

    Columns: identity, period, with_tags, without_tags. A row per cell and period; NaN where not recorded.
    """
    parts = []
    for period in PERIODS:
        chosen = counts[counts.step <= START_STEPS] if period == "start" else counts
        sums = chosen.groupby(list(IDENTITY))[["tokens", "action", "body", "body_action"]].sum(min_count=1)
        shares = {"with_tags": sums.action / sums.tokens, "without_tags": sums.body_action / sums.body}
        parts.append(pd.DataFrame({"period": period, **shares}).reset_index())
    return pd.concat(parts, ignore_index=True)


def gradient_ratios(steps: pd.DataFrame) -> pd.DataFrame:
    """How large the policy gradient through action tokens is beside that through thought tokens, by cell.

    `steps`: of `load_steps`. Columns: identity, actfocus (whether energies weighted its tokens), think and action
    (gradient norms), log_ratio (of action over think): means of logarithms over the steps that have both, the norms
    exponentiated. NaN where `record.grad_by_role` was off.
    """
    steps = steps.reset_index(drop=True)
    norms = steps[["grad_norm_think", "grad_norm_action"]].astype(float)
    logs = np.log(norms.where(norms > 0)).dropna()
    frame = steps[list(IDENTITY)].assign(
        actfocus=steps.weight_mu.notna(), think=logs.grad_norm_think, action=logs.grad_norm_action
    )
    means = frame.groupby(list(IDENTITY)).agg(
        actfocus=("actfocus", "any"), think=("think", "mean"), action=("action", "mean")
    )
    means["log_ratio"] = means.action - means.think
    return means.assign(think=np.exp(means.think), action=np.exp(means.action)).reset_index()


def actfocus_effect(ratios: pd.DataFrame) -> pd.DataFrame:
    """By how much a method's ratio is larger with ActFocus than without, as measured, paired by seed.

    `ratios`: of `gradient_ratios`. Columns: env, algo (with ActFocus), base (the same method without), seeds, times
    (the geometric mean of the quotients), low, high (Student's 95 % interval, NaN below three seeds). A row for each
    environment and pair of methods that were both recorded.
    """
    known, rows = ratios.dropna(subset="log_ratio"), []
    for (env, algo), own in known[known.actfocus].groupby(["env", "algo"]):
        base = without_actfocus(str(algo))
        others = known[(known.env == env) & (known.algo == base)]
        pairs = own.merge(others, on="seed", suffixes=("", "_base"))
        if len(pairs):
            spread = paired_difference(pairs.log_ratio_base, pairs.log_ratio).spread
            ends = spread.interval or (math.nan, math.nan)
            rows.append((env, algo, base, spread.seeds, *map(math.exp, (spread.mean, *ends))))
    return pd.DataFrame(rows, columns=["env", "algo", "base", "seeds", "times", "low", "high"])


def without_actfocus(spec: str) -> str | None:
    """The spec of the same method without ActFocus; None if the spec does not name ActFocus."""
    path, head, modifiers = split_spec(spec)
    kept = tuple(m for m in modifiers if m.split(":")[0].strip() != "actfocus")
    name, *settings = head.split(":")
    base = head
    if not path and name.strip() in _WITHOUT:
        others = (pair for pair in settings if pair.partition("=")[0] not in _PARAMETERS)
        base = ":".join([_WITHOUT[name.strip()], *others])
    if base == head and kept == modifiers:
        return None
    return "+".join([f"{path}:{base}" if path else base, *kept])


def _query(relation: duckdb.DuckDBPyRelation, name: str, query: str) -> pd.DataFrame:
    rows = relation.query(name, query)
    assert rows is not None  # a SELECT always has a result
    return rows.df()

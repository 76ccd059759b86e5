"""What happened to the tokens: ratio quantiles and the eight groups of ARLArena's collapse diagnosis.

Both read the tokens of one cell through DuckDB, so a table may be larger than memory; the results have a row
or nine per training step. Clip shares need no such pass: `steps` has them for every token.
"""

from __future__ import annotations

import duckdb
import pandas as pd

#: Quantile levels of the importance ratio.
LEVELS = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)

#: The columns that `ratio_quantiles` names the levels by.
QUANTILE_COLUMNS = tuple(f"q{round(100 * level):02d}" for level in LEVELS)

#: A sequence whose mean log ratio is smaller than this has ratio 1: the first mini-batch, up to rounding.
NEUTRAL_LOG_RATIO = 1e-6

#: The group of sequences with advantage 0 or ratio 1.
NEUTRAL = "neutral"

#: The eight groups (sign of the advantage, side of the ratio, entropy), then neutral.
GROUPS = (
    "A<0 r<1 H high",
    "A<0 r<1 H low",
    "A<0 r>1 H high",
    "A<0 r>1 H low",
    "A>0 r<1 H high",
    "A>0 r<1 H low",
    "A>0 r>1 H high",
    "A>0 r>1 H low",
    NEUTRAL,
)

#: The groups that ARLArena finds to drive a collapse: what was sampled is pushed down, and has fallen already.
FALLING = tuple(group for group in GROUPS if group.startswith("A<0 r<1"))


def ratio_quantiles(tokens: duckdb.DuckDBPyRelation) -> pd.DataFrame:
    """Quantiles of the token importance ratio of each step, over all tokens and updates.

    Columns: step, q01, q05, q25, q50, q75, q95, q99, min, max, tokens (rows with a ratio). Quantiles are
    interpolated between log ratios and then exponentiated; log ratios are clamped to +-20 as in the loss.
    """
    columns = ", ".join(f"exp(q[{i}]) AS {name}" for i, name in enumerate(QUANTILE_COLUMNS, start=1))
    query = f"""
        WITH ratios AS (
            SELECT step, greatest(-20, least(20, log_ratio::DOUBLE)) AS x
            FROM tokens WHERE log_ratio IS NOT NULL
        ),
        quantiles AS (
            SELECT step, quantile_cont(x, {list(LEVELS)}) AS q,
                min(x) AS low, max(x) AS high, count(*) AS tokens
            FROM ratios GROUP BY step
        )
        SELECT step, {columns}, exp(low) AS min, exp(high) AS max, tokens FROM quantiles ORDER BY step
    """
    return _query(tokens, query)


def eight_groups(tokens: duckdb.DuckDBPyRelation) -> pd.DataFrame:
    """The share of each step's KL to the reference that each of `GROUPS` carries (ARLArena's diagnosis).

    A sequence is one turn's response in one update. Its group is the sign of its mean advantage, the side of
    1 that exp(mean log ratio) lies on, and whether its mean entropy is above ("high") the median over the
    sequences of the cell's first recorded step; the source leaves that threshold open. Sequences with
    advantage 0 or ratio 1 are neutral.

    Columns: step, group, sequences, kl (sum of kl_ref over the group's tokens, nats), share (of the step's
    sum; NaN if that is 0). Every step has a row for each group.
    """
    query = f"""
        WITH sequences AS (
            SELECT step, avg(advantage) AS a, avg(log_ratio) AS r, avg(entropy) AS h, sum(kl_ref) AS kl
            FROM tokens GROUP BY step, epoch, minibatch, episode_id, turn
        ),
        threshold AS (SELECT median(h) AS h FROM sequences WHERE step = (SELECT min(step) FROM sequences)),
        named AS (
            SELECT step, coalesce(kl, 0) AS kl, CASE
                WHEN a IS NULL OR r IS NULL OR a = 0 OR abs(r) < {NEUTRAL_LOG_RATIO} THEN '{NEUTRAL}'
                ELSE concat(
                    if(a < 0, 'A<0', 'A>0'), ' ', if(r < 0, 'r<1', 'r>1'), ' ',
                    if(sequences.h > threshold.h, 'H high', 'H low'))
                END AS name
            FROM sequences, threshold
        ),
        sums AS (SELECT step, name, count(*) AS sequences, sum(kl) AS kl FROM named GROUP BY step, name),
        totals AS (SELECT step, sum(kl) AS kl FROM named GROUP BY step),
        names AS (SELECT unnest({list(GROUPS)}) AS name, unnest(range({len(GROUPS)})) AS place)
        SELECT totals.step, names.name AS "group", coalesce(sums.sequences, 0) AS sequences,
            coalesce(sums.kl, 0) AS kl, coalesce(sums.kl, 0) / nullif(totals.kl, 0) AS share
        FROM totals CROSS JOIN names LEFT JOIN sums ON sums.step = totals.step AND sums.name = names.name
        ORDER BY totals.step, names.place
    """
    return _query(tokens, query)


def falling_share(groups: pd.DataFrame) -> pd.Series:
    """By step, the share of the KL that the sequences of `FALLING` carry. `groups`: of `eight_groups`, of one cell."""
    if groups.empty:
        return pd.Series(dtype=float, index=pd.Index([], dtype=int))
    return groups[groups.group.isin(FALLING)].groupby("step").share.sum(min_count=1)


def _query(tokens: duckdb.DuckDBPyRelation, query: str) -> pd.DataFrame:
    rows = tokens.query("tokens", query)
    assert rows is not None  # a SELECT always has a result
    return rows.df()

"""Which turns deserve to be read token by token, and their tokens.

Of a few cells one step, of it the turns that moved most. Of a cell that collapsed the step is chosen by the caller (its
first alarm, or its onset); of another it is the one in which the cell's tokens left the ratio band most.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from pathlib import Path

import duckdb
import pandas as pd
from tokenizers import Tokenizer

from arena.records.layout import START, place
from arena.records.reader import IDENTITY, Cell, connection, relation

#: Cells of an environment, and turns of a cell: what a reader goes through, and a report holds beside its figures.
CELLS, TURNS = 2, 3

_FURTHEST = ("out_of_band_low", "kl_behaviour_k3")


@dataclass(frozen=True)
class Moment:
    """A step of a cell to look at: the one chosen for a cell that collapsed, or the one in which it went furthest."""

    env: str
    algo: str
    seed: int
    step: int
    collapsed: bool


def moments(steps: pd.DataFrame, collapsed: Mapping[tuple[str, str, int], int]) -> list[Moment]:
    """At most `CELLS` cells of each environment, of different methods; environments in alphabetical order.

    `steps`: of `load_steps`. `collapsed`: by environment, method and seed the step to show of each cell that collapsed;
    these come first, the earlier step first. Another cell is shown at the step with its largest `out_of_band_low`, of
    equal ones that with the largest `kl_behaviour_k3`; cells are ordered by the same. What is still equal is ordered by
    step, method and seed.
    """
    if steps.empty:
        return []
    furthest = (
        steps.fillna(dict.fromkeys(_FURTHEST, -1.0))
        .sort_values([*_FURTHEST, "step"], ascending=[False, False, True], kind="stable")
        .drop_duplicates(list(IDENTITY))
        .sort_values([*_FURTHEST, "algo", "seed"], ascending=[False, False, True, True], kind="stable")
    )
    found = [
        Moment(
            env, algo, int(seed), collapsed.get((env, algo, seed), int(step)), (env, algo, seed) in collapsed
        )
        for env, algo, seed, step in furthest[[*IDENTITY, "step"]].itertuples(index=False, name=None)
    ]
    found.sort(key=lambda m: (m.env, not m.collapsed, m.step if m.collapsed else 0))
    methods = {(m.env, m.algo): m for m in reversed(found)}
    chosen = [m for m in found if methods[m.env, m.algo] is m]
    return [m for k, m in enumerate(chosen) if sum(o.env == m.env for o in chosen[:k]) < CELLS]


def moved_turns(tokens: duckdb.DuckDBPyRelation, step: int) -> pd.DataFrame:
    """The tokens of the `TURNS` turns of `step` with the largest mean |log ratio|.

    Each turn in the update where it is largest, and each response once. Of equal updates the first counts, of equal
    turns that of the lower episode and turn. Rows by `place` (from 1) and position. Columns: place, moved (mean
    |log ratio| of the turn), then those of `tokens`.
    """
    query = f"""
        WITH updates AS (
            SELECT episode_id, turn, epoch, minibatch, avg(abs(log_ratio::DOUBLE)) AS moved,
                list(token_id ORDER BY position) AS response
            FROM tokens WHERE step = {step} GROUP BY ALL HAVING moved IS NOT NULL
        ),
        turns AS (
            SELECT *, row_number() OVER (PARTITION BY episode_id, turn ORDER BY moved DESC, epoch, minibatch) AS nth
            FROM updates
        ),
        responses AS (
            SELECT *, row_number() OVER (PARTITION BY response ORDER BY moved DESC, episode_id, turn) AS copy
            FROM turns WHERE nth = 1
        ),
        places AS (
            SELECT episode_id, turn, epoch, minibatch, moved,
                row_number() OVER (ORDER BY moved DESC, episode_id, turn) AS place
            FROM responses WHERE copy = 1
        )
        SELECT place, moved, tokens.* FROM tokens JOIN places USING (episode_id, turn, epoch, minibatch)
        WHERE step = {step} AND place <= {TURNS} ORDER BY place, position
    """
    rows = tokens.query("tokens", query)
    assert rows is not None  # a SELECT always has a result
    return rows.df()


def turns_at(cell: Cell, step: int) -> pd.DataFrame:
    """`moved_turns` of a cell's step; no rows if none of its tokens were recorded."""
    with connection() as opened:
        tokens = relation(opened, cell, "tokens", step)
        return pd.DataFrame() if tokens is None else moved_turns(tokens, step)


def token_texts(cell: Cell, ids: Sequence[int]) -> list[str]:
    """What each of a response's ids adds to its text, by the tokenizer saved with the cell or with its start.

    A token that is part of a character adds it where the character ends at the latest. Without a tokenizer the ids, as
    #17.
    """
    start = cell.path.parents[3] / place(cell.env, START, cell.seed)
    saved = (folder / "model" / "tokenizer.json" for folder in (cell.path, start))
    path = next((p for p in saved if p.exists()), None)
    return [f"#{i}" for i in ids] if path is None else _pieces(_tokenizer(path), ids)


def _pieces(tokenizer: Tokenizer, ids: Sequence[int]) -> list[str]:
    prefixes = [tokenizer.decode(ids[:k], skip_special_tokens=False) for k in range(1, len(ids) + 1)]
    # From the right, because the replacement characters of half a character may be more than the character is.
    ends = list(accumulate((len(p) for p in reversed(prefixes)), min))[::-1]
    return [prefixes[-1][a:b] for a, b in zip([0, *ends], ends, strict=False)]


@lru_cache(maxsize=4)
def _tokenizer(path: Path) -> Tokenizer:
    return Tokenizer.from_file(str(path))

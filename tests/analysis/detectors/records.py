"""Small records of a correct cell, by hand, to plant faults in: two steps of two groups of four episodes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from arena.analysis.detectors.base import CellRecords
from arena.recipe import resolve
from arena.seeding import EVAL_SEED_START

STEPS, GROUPS, SIZE, TURNS = 2, 2, 4, 2
ROLES = ("think", "think", "action", "action", "eos")
#: One of four succeeds, then two of four: normalised by hand, (r - mean) / std with the Bessel-corrected deviation.
REWARD = (1.0, 0.0, 0.0, 0.0, 1.0, 1.0, 0.0, 0.0)
ADVANTAGE = (1.5, -0.5, -0.5, -0.5, *(2 * [np.sqrt(3) / 2]), *(2 * [-np.sqrt(3) / 2]))


def healthy(algo: str = "grpo", **sections: Any) -> CellRecords:
    """The records of a correct cell; `sections` of its recipe may be given, as `rollout={"layout": "trajectory"}`."""
    episodes, turns, tokens = _episodes(), _turns(), _tokens()
    return CellRecords(
        recipe=resolve("cpu", "sokoban", algo, 0, sections),
        steps=pd.DataFrame(
            {
                "step": range(1, STEPS + 1),
                "grad_norm": 0.5,
                "kl_ref_k3": [1e-14, 1e-3],
                "first_log_ratio_max": 3e-6,
                "truncated_responses": [0.0, 0.9],
                "nonfinite": 0,
            }
        ),
        evals=pd.DataFrame({"step": 0, "task_seed": [EVAL_SEED_START, EVAL_SEED_START + 1]}),
        tables={"episodes": episodes, "turns": turns, "tokens": tokens},
    )


def planted(records: CellRecords, table: str, change: Callable[[pd.DataFrame], pd.DataFrame]) -> CellRecords:
    """With one table changed: `change` gets a copy of it."""
    if table in ("steps", "evals"):
        return replace(records, **{table: change(getattr(records, table).copy())})
    frame = records.tables[table]
    assert isinstance(frame, pd.DataFrame)
    return replace(records, tables={**records.tables, table: change(frame.copy())})


def setting(column: str, value: Any, **where: Any) -> Callable[[pd.DataFrame], pd.DataFrame]:
    """A change for `planted`: `column` is `value` in the rows whose columns are as given."""

    def change(frame: pd.DataFrame) -> pd.DataFrame:
        rows = np.logical_and.reduce([frame[name] == given for name, given in where.items()])
        frame.loc[rows, column] = value
        return frame

    return change


def _ids(*shape: int) -> list[np.ndarray]:
    return [part.ravel() for part in np.indices(shape)]


def _episodes() -> pd.DataFrame:
    step, episode = _ids(STEPS, GROUPS * SIZE)
    return pd.DataFrame(
        {
            "step": step + 1,
            "group_id": episode // SIZE,
            "episode_id": episode,
            "task_seed": 10 * step + episode // SIZE,
            "reward": np.tile(REWARD, STEPS),
            "advantage": np.tile(ADVANTAGE, STEPS),
        }
    )


def _turns() -> pd.DataFrame:
    """Prompts as with a history of two turns, in either observation style; in a trajectory's, see the test."""
    step, episode, turn = _ids(STEPS, GROUPS * SIZE, TURNS)
    return pd.DataFrame(
        {
            "step": step + 1,
            "group_id": episode // SIZE,
            "episode_id": episode,
            "turn": turn,
            "prompt": np.where(turn == 0, " rules state0", " rules state0 up state1"),
            "anchor": np.where(turn == 0, "start", "later"),
            "truncated": False,
            "advantage": np.tile(np.repeat(ADVANTAGE, TURNS), STEPS),
            "advantage_step": np.nan,
        }
    )


def _tokens() -> pd.DataFrame:
    """Each token has log-probability -4, so an episode of ten -40."""
    step, episode, turn, position = _ids(STEPS, GROUPS * SIZE, TURNS, len(ROLES))
    return pd.DataFrame(
        {
            "step": step + 1,
            "epoch": 0,
            "minibatch": turn,
            "group_id": episode // SIZE,
            "episode_id": episode,
            "turn": turn,
            "position": position,
            "token_id": np.random.default_rng(0).integers(0, 50, size=step.size),
            "role": np.array(ROLES)[position],
            "sampler_logprob": -4.0,
            "old_logprob": -4.0,
            "masked": False,
            "clipped_low": False,
            "clipped_high": False,
            "advantage": np.tile(np.repeat(ADVANTAGE, TURNS * len(ROLES)), STEPS),
            "weight": 1.0,
        }
    )

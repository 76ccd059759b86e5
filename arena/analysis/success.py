"""Success on the evaluation tasks, by training steps and by sampled tokens."""

from __future__ import annotations

import pandas as pd

from arena.records.reader import IDENTITY


def success_by_eval(evals: pd.DataFrame) -> pd.DataFrame:
    """One row per cell, temperature and evaluation, from `load_evals`.

    Columns: env, algo, seed, temperature, step, success (share of episodes), episodes.
    """
    keys = [*IDENTITY, "temperature", "step"]
    successes = evals.assign(success=evals.success.astype(float)).groupby(keys).success
    return successes.agg(success="mean", episodes="size").reset_index()


def with_tokens(evaluations: pd.DataFrame, steps: pd.DataFrame) -> pd.DataFrame:
    """Add `tokens`: response tokens the cell had sampled for training before each evaluation, 0 at step 0."""
    sampled = steps[[*IDENTITY, "step", "tokens_sampled_total"]].rename(
        columns={"tokens_sampled_total": "tokens"}
    )
    joined = evaluations.merge(sampled, on=[*IDENTITY, "step"], how="left")
    joined.loc[joined.step == 0, "tokens"] = 0
    return joined

"""A run folder of invented but plausible numbers, written through the schema, for tests of the readers.

Two environments x three methods x two seeds. `cispo` on `sokoban` rises and collapses: its success falls, its
ratios and its KL explode. Everything is drawn from seeded generators. `steps` is computed from the token rows
wherever both hold the same thing, so that readers can be checked against each other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from arena.recipe import Recipe
from arena.records.files import JobStatus, write_json, write_status
from arena.records.schema import TABLES
from arena.seeding import EVAL_SEED_START, stream_seed

ENVS = ("frozen_lake", "sokoban")
ALGOS = ("grpo", "sampo", "cispo")
COLLAPSING = ("sokoban", "cispo")
#: Bounds of the ratio; GRPO's where a method is not named. CISPO's remove no gradient.
CLIPS = {"sampo": (0.997, 1.004), "cispo": (0.0, 1.2)}
MINIBATCHES = 4
GROUP_SIZE = 4
MANIFEST = {
    "schema_version": 1,
    "name": "synthetic",
    "command": "arena run --algos grpo,sampo,cispo --envs all --num-seeds 2 --name synthetic",
    "commit": "0123456789abcdef0123456789abcdef01234567",
    "dirty": False,
    "versions": {"arena": "0.1.0", "python": "3.11.9", "torch": "2.13.0", "transformers": "5.24.0"},
    "host": {"platform": "Linux-x86_64", "cpus": 2},
    "started": "2026-01-02T03:04:05+00:00",
    "finished": "2026-01-02T03:24:05+00:00",
}


@dataclass(frozen=True)
class Size:
    """How large the run is."""

    steps: int = 20
    groups: int = 4
    turns: int = 3
    tokens: int = 6
    eval_episodes: int = 32
    eval_every: int = 5


def write_run(
    path: Path,
    size: Size = Size(),
    envs: Sequence[str] = ENVS,
    algos: Sequence[str] = ALGOS,
    seeds: Sequence[int] = (0, 1),
) -> Path:
    """Write the run to `path` and return it."""
    for env in envs:
        for seed in seeds:
            metrics = {"demonstrations": 612, "expert_success": 0.61, "loss": 0.31, "success": {"0.5": 0.34}}
            write_json(path / "bc" / env / f"seed-{seed}" / "bc.json", metrics)
            for algo in algos:
                write_cell(path, env, algo, seed, size)
    write_json(path / "manifest.json", MANIFEST)
    return path


def write_cell(path: Path, env: str, algo: str, seed: int, size: Size, last_step: int | None = None) -> Path:
    """Write one cell; with `last_step` it failed after that step."""
    folder = path / "cells" / env / algo.replace("/", "_") / f"seed-{seed}"
    recipe = Recipe.model_validate(
        {
            "tier": "cpu",
            "algorithm": algo,
            "seed": seed,
            "steps": size.steps,
            "env": {"name": env},
            "rollout": {"groups": size.groups, "group_size": GROUP_SIZE},
            "eval": {"every": size.eval_every, "episodes": size.eval_episodes},
        }
    )
    last = size.steps if last_step is None else last_step
    write_json(folder / "recipe.json", {**recipe.model_dump(mode="json"), "hash": recipe.hash})
    rows, sampled = [], 0
    for step in range(1, last + 1):
        rng = np.random.default_rng(stream_seed("synthetic", env, algo, seed, step))
        tokens = _tokens(rng, env, algo, step, size)
        episodes = _episodes(rng, env, algo, step, size)
        sampled += len(tokens)
        rows.append(
            _steps_row(tokens, episodes, rng, env, algo, step, size) | {"tokens_sampled_total": sampled}
        )
        for table, frame in (("tokens", tokens), ("episodes", episodes), ("turns", _turns(tokens))):
            write_table(folder / table / f"step-{step:05d}.parquet", table, frame)
    write_table(folder / "steps.parquet", "steps", pd.DataFrame(rows))
    evals = _evals(env, algo, seed, last, size)
    write_table(folder / "evals.parquet", "evals", evals)
    failure = None if last_step is None else "RuntimeError: the loss is not finite"
    state = "done" if failure is None else "failed"
    write_status(
        folder, JobStatus(state, recipe.hash, last, size.steps, float(evals.success.mean()), failure)
    )
    return folder


def write_table(path: Path, table: str, columns: pd.DataFrame | Mapping[str, Any]) -> None:
    """Write a table under its schema; columns that are not given are null."""
    frame = pd.DataFrame(columns)
    schema = TABLES[table].schema
    unknown = set(frame.columns) - set(schema.names)
    assert not unknown, f"not in the schema of {table}: {unknown}"
    arrays = [
        pa.array(frame[f.name], f.type, from_pandas=True) if f.name in frame else pa.nulls(len(frame), f.type)
        for f in schema
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_arrays(arrays, schema=schema), path, compression="zstd")


def level(env: str, algo: str, step: int, steps: int) -> float:
    """The probability of success at temperature 1 that the run is drawn from."""
    start, gain = (0.3, 0.3) if env == "sokoban" else (0.25, 0.45)
    progress = step / steps
    if (env, algo) == COLLAPSING:
        return max(0.03, start + gain * progress * 2 - 2.2 * max(0.0, progress - 0.4))
    speed = {"sampo": 1.0, "grpo": 0.85, "cispo": 0.7}.get(algo, 0.6)
    return start + gain * speed * (1 - np.exp(-3 * progress))


def _spread(env: str, algo: str, step: int, size: Size) -> float:
    """Standard deviation of the token log ratio after the first mini-batch."""
    if (env, algo) == COLLAPSING:
        return 0.03 * float(np.exp(4 * max(0.0, step / size.steps - 0.35)))
    return 0.004 if algo == "sampo" else 0.03


def _tokens(rng: np.random.Generator, env: str, algo: str, step: int, size: Size) -> pd.DataFrame:
    episodes = size.groups * GROUP_SIZE
    shape = (episodes, size.turns, size.tokens)
    episode, turn, position = (a.ravel() for a in np.indices(shape))
    sequence = episode * size.turns + turn
    minibatch = rng.permutation(episodes * size.turns)[sequence] * MINIBATCHES // (episodes * size.turns)
    advantage = rng.choice([-1.2, -0.4, 0.0, 0.5, 1.1], size=episodes)[episode]
    spread = _spread(env, algo, step, size)
    collapsed = spread > 0.05
    log_ratio = rng.normal(-spread / 4 if collapsed else 0.0, spread, size=episode.size)
    log_ratio = np.where(minibatch == 0, 0.0, log_ratio)
    ratio = np.exp(log_ratio)
    low, high = CLIPS.get(algo, (0.8, 1.2))
    think = position < size.tokens // 2
    entropy = rng.gamma(2.0, np.where(think, 0.25, 0.12) * (1 - 0.4 * step / size.steps))
    old = -rng.exponential(0.6, size=episode.size)
    logprob = old + log_ratio
    kl_ref = rng.exponential(0.02 * step / size.steps + spread**2, size=episode.size)
    return pd.DataFrame(
        {
            "step": step,
            "epoch": 0,
            "minibatch": minibatch,
            "group_id": episode // GROUP_SIZE,
            "episode_id": episode,
            "turn": turn,
            "position": position,
            "token_id": rng.integers(0, 64, size=episode.size),
            "role": np.where(think, "think", np.where(position == size.tokens - 1, "eos", "action")),
            "tag": position == 0,
            "sampler_logprob": old,
            "old_logprob": old,
            "logprob": logprob,
            "ref_logprob": logprob - rng.normal(0, np.sqrt(kl_ref)),
            "log_ratio": log_ratio,
            "ratio_applied": ratio.clip(low, high),
            "clipped_low": (advantage < 0) & (ratio < low) & (algo != "cispo"),
            "clipped_high": (advantage > 0) & (ratio > high) & (algo != "cispo"),
            "masked": False,
            "advantage": advantage,
            "advantage_sign": np.sign(advantage).astype(int),
            "entropy": entropy,
            "energy": rng.normal(-8, 1, size=episode.size),
            "weight": 1.0,
            "kl_ref": kl_ref,
        }
    )


def _episodes(rng: np.random.Generator, env: str, algo: str, step: int, size: Size) -> pd.DataFrame:
    episode = np.arange(size.groups * GROUP_SIZE)
    success = rng.random(episode.size) < level(env, algo, step, size.steps)
    # The energy of action tokens rises with the spread of the group's rewards, that of thought does not.
    spread = success.reshape(-1, GROUP_SIZE).std(axis=1)[episode // GROUP_SIZE]
    action, think = rng.normal((spread, 0 * spread), 0.3) - 8
    return pd.DataFrame(
        {
            "step": step,
            "group_id": episode // GROUP_SIZE,
            "episode_id": episode,
            "task_seed": 1000 * step + episode // GROUP_SIZE,
            "generation_batch": 0,
            "kept": True,
            "filled": False,
            "reward": success.astype(float),
            "format_penalty": 0.0,
            "success": success,
            "turns": size.turns,
            "valid_turns": size.turns,
            "terminated": success,
            "truncated": ~success,
            "response_tokens": size.turns * size.tokens,
            "energy_action": action,
            "energy_think": think,
            "energy_all": 0.1 * action + 0.9 * think,
        }
    )


def _turns(tokens: pd.DataFrame) -> pd.DataFrame:
    keys = ["step", "group_id", "episode_id", "turn"]
    turns = tokens.groupby(keys).agg(
        response_tokens=("position", "size"),
        advantage=("advantage", "mean"),
        sequence_log_ratio=("log_ratio", "mean"),
    )
    text = {"prompt": "P", "response": "<think>x</think><action>up</action>", "action": "up"}
    return turns.reset_index().assign(
        **text, valid=True, admissible=True, reward=0.0, truncated=False, masked=False
    )


def _steps_row(
    tokens: pd.DataFrame,
    episodes: pd.DataFrame,
    rng: np.random.Generator,
    env: str,
    algo: str,
    step: int,
    size: Size,
) -> dict[str, Any]:
    ratio = np.exp(tokens.log_ratio)
    spread = _spread(env, algo, step, size)
    sampled = len(tokens)
    return {
        "step": step,
        "updates": MINIBATCHES,
        "skipped_updates": 0,
        "kl_ref_k3": tokens.kl_ref.mean(),
        "kl_behaviour_k3": (ratio - 1 - tokens.log_ratio).mean(),
        "entropy": tokens.entropy.mean(),
        "entropy_think": tokens.entropy[tokens.role == "think"].mean(),
        "entropy_action": tokens.entropy[tokens.role == "action"].mean(),
        "grad_norm": float(rng.gamma(20, 0.02) * (1 + 200 * spread**2)),
        "ratio_mean": ratio.mean(),
        "ratio_max": ratio.max(),
        "ratio_min": ratio.min(),
        "clipped_low": tokens.clipped_low.mean(),
        "clipped_high": tokens.clipped_high.mean(),
        "out_of_band_low": ((tokens.advantage < 0) & (ratio < 0.8)).mean(),
        "out_of_band_high": ((tokens.advantage > 0) & (ratio > 1.2)).mean(),
        "masked": 0.0,
        "valid_format": min(1.0, 0.96 + 0.04 * step / size.steps) - min(0.6, 0.5 * max(0.0, spread - 0.05)),
        "success": episodes.success.mean(),
        "reward_mean": episodes.reward.mean(),
        "tokens_sampled": sampled,
        "tokens_trained": len(tokens),
        "nonfinite": 0,
        "learning_rate": 2e-4,
        "seconds_step": 1.5,
    }


def _evals(env: str, algo: str, seed: int, last: int, size: Size) -> pd.DataFrame:
    frames = []
    steps = sorted(
        {0, *range(size.eval_every, last + 1, size.eval_every), *([last] if last == size.steps else [])}
    )
    for step in steps:
        for temperature in (0.0, 0.5, 1.0) if step == 0 else (0.5, 1.0):
            key = (env, seed, temperature) if step == 0 else (env, seed, temperature, algo, step)
            rng = np.random.default_rng(stream_seed("synthetic-eval", *key))
            chance = level(env, algo, step, size.steps) + 0.12 * (1 - temperature)
            success = rng.random(size.eval_episodes) < chance
            frames.append(
                pd.DataFrame(
                    {
                        "step": step,
                        "temperature": temperature,
                        "episode": np.arange(size.eval_episodes),
                        "task_seed": EVAL_SEED_START + np.arange(size.eval_episodes),
                        "success": success,
                        "reward": success.astype(float),
                        "turns": size.turns,
                        "valid_turns": size.turns,
                        "truncated": ~success,
                        "response_tokens": size.turns * size.tokens,
                    }
                )
            )
    return pd.concat(frames, ignore_index=True)

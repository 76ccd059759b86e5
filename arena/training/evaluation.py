"""Evaluation on held-out tasks, with random streams of its own: training never depends on the schedule."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from transformers import PreTrainedModel

from arena.recipe import Recipe
from arena.seeding import eval_task_seed, stream_seed
from arena.training.rollout import Roller


def temperatures(recipe: Recipe, step: int) -> list[float]:
    """The recipe's evaluation temperature and 1; at step 0 also greedy (0) and 0.5: the start at its best."""
    return sorted({recipe.eval.temperature, 1.0} | ({0.0, 0.5} if step == 0 else set()))


def evaluate(
    model: PreTrainedModel, roller: Roller, recipe: Recipe, step: int, at: Sequence[float] | None = None
) -> list[dict[str, Any]]:
    """Rows of the `evals` table. Tasks and sampling noise are the same at every evaluation of a seed."""
    env, seed, count = recipe.env.name, recipe.seed, recipe.eval.episodes
    used = list(at if at is not None else temperatures(recipe, step))
    tasks = [eval_task_seed(env, seed, i) for i in range(count)]
    noise = roller.noise(count, stream_seed("eval-noise", env, seed)).repeat(len(used), 1, 1)
    per_episode = torch.tensor(used).repeat_interleave(count)
    dynamics = [stream_seed("eval-dynamics", env, seed, i) for i in range(count)] * len(used)
    episodes = roller.run(model, tasks * len(used), per_episode, noise, dynamics)
    return [
        {
            "step": step,
            "temperature": used[i // count],
            "episode": i % count,
            "task_seed": episode.task_seed,
            "success": episode.success,
            "reward": episode.reward,
            "turns": len(episode.turns),
            "valid_turns": episode.valid_turns,
            "truncated": not episode.terminated,
            "response_tokens": episode.response_tokens,
        }
        for i, episode in enumerate(episodes)
    ]


def success_rate(rows: Sequence[dict[str, Any]], temperature: float) -> float:
    """Share of successful episodes at one temperature."""
    outcomes = [row["success"] for row in rows if row["temperature"] == temperature]
    return sum(outcomes) / len(outcomes)

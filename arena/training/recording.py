"""From what a step produced to its records: rows of `steps`, columns of `episodes`, `turns` and `tokens`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch
from torch import Tensor

from arena.algorithms.loss import kl_k3
from arena.algorithms.normalise import equal_returns
from arena.recipe import Recipe
from arena.records.schema import EPISODES, RATIO_BAND, TURNS
from arena.records.writer import role_column, step_file, write_columns, write_rows
from arena.training.batch import ACTION, THINK, Batch, Group, format_penalty
from arena.training.update import UpdateResult


def write_step_tables(
    directory: Path, step: int, groups: Sequence[Group], batch: Batch, result: UpdateResult, recipe: Recipe
) -> int:
    """Write the step's `episodes`, `turns` and `tokens` files. Returns the number of non-finite values."""
    episodes = episode_rows(step, groups, batch, recipe.format.penalty)
    turns = turn_rows(step, groups, batch, result, recipe.format.penalty)
    recorded = _recorded_groups(batch, recipe)
    return (
        write_rows(step_file(directory, EPISODES.name, step), "episodes", episodes)
        + write_rows(step_file(directory, TURNS.name, step), "turns", turns)
        + write_columns(
            step_file(directory, "tokens", step), "tokens", token_columns(step, batch, result, recorded)
        )
    )


def token_columns(step: int, batch: Batch, result: UpdateResult, groups: np.ndarray) -> dict[str, Any]:
    """Columns of `tokens` for the given groups, in order of epoch, mini-batch and row."""
    tokens = result.tokens
    row, position = tokens.row, tokens.position
    keep = torch.from_numpy(np.isin(batch.group[batch.rows.turn[row, position]].numpy(), groups))
    row, position = row[keep], position[keep]
    at = (row, position)
    advantage = batch.advantage[at].numpy()
    turn = batch.rows.turn[at]
    return {
        "step": np.full(len(row), step),
        "epoch": tokens.epoch[keep].numpy(),
        "minibatch": tokens.minibatch[keep].numpy(),
        "group_id": batch.group[turn].numpy(),
        "episode_id": batch.episode[turn].numpy(),
        "turn": batch.turn[turn].numpy(),
        "position": batch.rows.position[at].numpy(),
        "token_id": batch.rows.response_ids[at].numpy(),
        "role": role_column(batch.role[at].numpy()),
        "tag": batch.tag[at].numpy(),
        "sampler_logprob": batch.sampler_logprob[at].numpy(),
        "old_logprob": batch.old.logprob[at].numpy(),
        "logprob": tokens.logprob[keep].numpy(),
        "ref_logprob": batch.reference.logprob[at].numpy(),
        "log_ratio": tokens.log_ratio[keep].numpy(),
        "ratio_applied": tokens.ratio_applied[keep].numpy(),
        "clipped_low": tokens.clipped_low[keep].numpy(),
        "clipped_high": tokens.clipped_high[keep].numpy(),
        "masked": tokens.masked[keep].numpy(),
        "advantage": advantage,
        "advantage_sign": np.sign(advantage),
        "entropy": batch.old.entropy[at].numpy(),
        "energy": batch.reference.energy[at].numpy(),
        "weight": batch.weight[at].numpy(),
        "kl_ref": tokens.kl_ref[keep].numpy(),
    }


def turn_rows(
    step: int, groups: Sequence[Group], batch: Batch, result: UpdateResult, penalty: float
) -> list[dict[str, Any]]:
    """Rows of `turns`."""
    log_ratio, masked = _last_update(batch, result)
    value = None if batch.value is None else batch.value.before
    parts = batch.advantages
    row_of = {key: i for i, key in enumerate(zip(batch.episode.tolist(), batch.turn.tolist(), strict=True))}
    rows = []
    for group, k, episode in _each(groups):
        for t, turn in enumerate(episode.turns):
            parsed = turn.response.parsed
            row: dict[str, Any] = {
                "step": step,
                "group_id": group.group_id,
                "episode_id": group.episode_id(k),
                "turn": t,
                "prompt": turn.prompt,
                "response": turn.response.text,
                "action": parsed.action,
                "valid": parsed.valid,
                "admissible": turn.admissible,
                "reward": turn.reward,
                "format_penalty": format_penalty(turn, penalty),
                "anchor": turn.anchor,
                "response_tokens": len(turn.sample.ids),
                "truncated": turn.sample.truncated,
            }
            i = row_of.get((group.episode_id(k), t))
            if i is not None:
                row["advantage"] = float(parts.total[i])
                row["advantage_step"] = None if parts.step is None else float(parts.step[i])
                row["advantage_format"] = float(parts.format[i])
                row["value"] = None if value is None else float(value[i])
                row["sequence_log_ratio"] = float(log_ratio[i])
                row["masked"] = bool(masked[i])
            rows.append(row)
    return rows


def episode_rows(step: int, groups: Sequence[Group], batch: Batch, penalty: float) -> list[dict[str, Any]]:
    """Rows of `episodes`, with mean energy and entropy by role for the episodes trained on."""
    means = _episode_means(batch)
    advantage = _episode_advantage(batch)
    rows = []
    for group, k, episode in _each(groups):
        episode_id = group.episode_id(k)
        rows.append(
            {
                "step": step,
                "group_id": group.group_id,
                "episode_id": episode_id,
                "task_seed": episode.task_seed,
                "generation_batch": group.generation_batch,
                "kept": group.trained,
                "filled": group.filled,
                "reward": episode.reward,
                "format_penalty": sum(format_penalty(turn, penalty) for turn in episode.turns),
                "success": episode.success,
                "turns": len(episode.turns),
                "valid_turns": episode.valid_turns,
                "terminated": episode.terminated,
                "truncated": not episode.terminated,
                "response_tokens": episode.response_tokens,
                "advantage": advantage.get(episode_id),
                **means.get(episode_id, {}),
            }
        )
    return rows


def step_metrics(groups: Sequence[Group], batch: Batch, result: UpdateResult) -> dict[str, Any]:
    """The columns of `steps` that follow from episodes, batch and update."""
    return {**_generation_metrics(groups), **_batch_metrics(batch), **_update_metrics(batch, result)}


def count_nonfinite(metrics: dict[str, Any]) -> int:
    """How many of a step's metrics are not finite (they are stored as null)."""
    return sum(isinstance(v, float) and not math.isfinite(v) for v in metrics.values())


def _generation_metrics(groups: Sequence[Group]) -> dict[str, Any]:
    episodes = [episode for group in groups for episode in group.episodes]
    turns = [turn for episode in episodes for turn in episode.turns]
    rewards = np.array([[e.reward for e in g.episodes] for g in groups])
    equal = [equal_returns(float(row.min()), float(row.max())) for row in rewards]
    sampled = sum(len(t.sample.ids) for t in turns)
    return {
        "valid_format": np.mean([t.response.parsed.valid for t in turns]),
        "success": np.mean([e.success for e in episodes]),
        "reward_mean": rewards.mean(),
        "reward_std": rewards.std(),
        "group_reward_std": rewards.std(axis=1, ddof=1).mean() if rewards.shape[1] > 1 else None,
        "zero_spread_groups": np.mean(equal) if rewards.shape[1] > 1 else None,
        "turns_mean": len(turns) / len(episodes),
        "response_tokens_mean": sampled / len(turns),
        "truncated_episodes": np.mean([not e.terminated for e in episodes]),
        "truncated_responses": np.mean([t.sample.truncated for t in turns]),
        "groups_generated": len(groups),
        "groups_kept": sum(g.kept for g in groups),
        "groups_filled": sum(g.filled for g in groups),
        "generation_batches": 1 + max(g.generation_batch for g in groups),
        "tokens_sampled": sampled,
        "tokens_prompt": sum(len(t.prompt_ids) for t in turns),
    }


def _batch_metrics(batch: Batch) -> dict[str, Any]:
    mask = batch.rows.mask
    think, action = (batch.role == THINK) & mask, (batch.role == ACTION) & mask
    gap = (batch.sampler_logprob - batch.old.logprob)[mask].abs()
    statistics = batch.energy_statistics
    return {
        "entropy": _mean(batch.old.entropy, mask),
        "entropy_think": _mean(batch.old.entropy, think),
        "entropy_action": _mean(batch.old.entropy, action),
        "energy_think": _mean(batch.reference.energy, think & ~batch.tag),
        "energy_action": _mean(batch.reference.energy, action & ~batch.tag),
        "weight_mu": statistics.mu if statistics else None,
        "weight_sigma": statistics.sigma if statistics else None,
        "advantage_abs": _mean(batch.advantage.abs(), mask),
        "tokens_trained": int(mask.sum()),
        "sampler_gap_mean": float(gap.mean()),
        "sampler_gap_max": float(gap.max()),
    }


def _update_metrics(batch: Batch, result: UpdateResult) -> dict[str, Any]:
    tokens = result.tokens
    at = (tokens.row, tokens.position)
    advantage, ratio = batch.advantage[at], tokens.log_ratio.double().exp()
    old, ref, new = (
        batch.old.logprob[at].double(),
        batch.reference.logprob[at].double(),
        tokens.logprob.double(),
    )
    first = (tokens.epoch == 0) & (tokens.minibatch == 0)
    policy, kl = np.mean(result.policy_loss), np.mean(result.kl_loss)
    value = batch.value
    return {
        "updates": len(result.grad_norm) - result.skipped,
        "skipped_updates": result.skipped,
        "policy_loss": policy,
        "kl_loss": kl,
        "value_loss": np.mean(result.value_loss) if value else None,
        "value_explained": value.explained if value else None,
        "kl_ref_k3": float(tokens.kl_ref[first].double().mean()),
        "kl_ref_k1": float((new - ref)[first].mean()),
        "kl_behaviour_k3": float(kl_k3(old, new).mean()),
        "kl_behaviour_k1": float((old - new).mean()),
        "grad_norm": np.mean(result.grad_norm),
        "grad_norm_max": np.max(result.grad_norm),
        "grad_norm_think": result.grad_norm_by_role.get(THINK),
        "grad_norm_action": result.grad_norm_by_role.get(ACTION),
        "ratio_mean": float(ratio.mean()),
        "ratio_max": float(ratio.max()),
        "ratio_min": float(ratio.min()),
        "clipped_low": float(tokens.clipped_low.double().mean()),
        "clipped_high": float(tokens.clipped_high.double().mean()),
        "out_of_band_low": float(((advantage < 0) & (ratio < RATIO_BAND[0])).double().mean()),
        "out_of_band_high": float(((advantage > 0) & (ratio > RATIO_BAND[1])).double().mean()),
        "masked": float(tokens.masked.double().mean()),
        "first_log_ratio_max": float(tokens.log_ratio[first].abs().max()),
    }


def _each(groups: Sequence[Group]):
    return ((group, k, episode) for group in groups for k, episode in enumerate(group.episodes))


def _mean(values: Tensor, where: Tensor) -> float | None:
    chosen = values[where]
    return float(chosen.double().mean()) if len(chosen) else None


def _recorded_groups(batch: Batch, recipe: Recipe) -> np.ndarray:
    """The groups whose tokens are written: the first `record.token_fraction` of them."""
    groups = np.unique(batch.group.numpy())
    return groups[: int(np.ceil(recipe.record.token_fraction * len(groups)))]


def _last_update(batch: Batch, result: UpdateResult) -> tuple[Tensor, Tensor]:
    """Mean log ratio and mask of each turn in its last epoch."""
    tokens, turns = result.tokens, len(batch.turn)
    last = tokens.epoch == tokens.epoch.max()
    turn = batch.rows.turn[tokens.row[last], tokens.position[last]]
    count = torch.bincount(turn, minlength=turns).clamp(min=1)
    total = torch.zeros(turns, dtype=torch.float64).index_add(0, turn, tokens.log_ratio[last].double())
    masked = torch.zeros(turns).index_add(0, turn, tokens.masked[last].float()) > 0
    return total / count, masked


def _episode_advantage(batch: Batch) -> dict[int, float]:
    """The mean over its turns of each episode's part of the advantage; for most rules they are equal."""
    values: dict[int, list[float]] = {}
    for episode, value in zip(batch.episode.tolist(), batch.advantages.episode.tolist(), strict=True):
        values.setdefault(episode, []).append(value)
    return {episode: fmean(parts) for episode, parts in values.items()}


def _episode_means(batch: Batch) -> dict[int, dict[str, float | None]]:
    """Mean energy and entropy by role over each episode's response tokens, tags left out."""
    ids, index = torch.unique(batch.row_episode, return_inverse=True)
    body = batch.rows.mask & ~batch.tag
    classes = {"think": body & (batch.role == THINK), "action": body & (batch.role == ACTION), "all": body}
    wanted = {
        "energy_think": (batch.reference.energy, "think"),
        "energy_action": (batch.reference.energy, "action"),
        "energy_all": (batch.reference.energy, "all"),
        "centred_energy_think": (batch.reference.centred_energy, "think"),
        "centred_energy_action": (batch.reference.centred_energy, "action"),
        "entropy_think": (batch.old.entropy, "think"),
        "entropy_action": (batch.old.entropy, "action"),
    }
    means: dict[int, dict[str, float | None]] = {int(i): {} for i in ids}
    for name, (values, role) in wanted.items():
        where = classes[role]
        total = torch.zeros(len(ids), dtype=torch.float64).index_add(
            0, index, (values * where).double().sum(1)
        )
        count = torch.zeros(len(ids), dtype=torch.float64).index_add(0, index, where.double().sum(1))
        for episode, t, n in zip(ids.tolist(), total.tolist(), count.tolist(), strict=True):
            means[episode][name] = t / n if n else None
    return means

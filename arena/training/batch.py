"""From episodes to the tensors of one update: rows, advantages, old-policy and reference scores, weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from transformers import PreTrainedModel

from arena.algorithms.advantages import Advantages, TurnRewards
from arena.algorithms.catalog import Algorithm
from arena.algorithms.values import SharedValue
from arena.algorithms.weighting import EnergyStatistics, energy_statistics, weights_of
from arena.policy.scoring import Rows, Scores, score
from arena.recipe import Recipe
from arena.records.schema import ROLES
from arena.training.rollout import Episode, Turn
from arena.training.values import CriticModel, ValueBatch, value_batch, with_values

ACTION, THINK = ROLES.index("action"), ROLES.index("think")


@dataclass(frozen=True)
class Group:
    """Episodes of one task, sampled in one round. `filled`: trained on although the filter rejected it."""

    group_id: int
    generation_batch: int
    episodes: tuple[Episode, ...]
    kept: bool
    filled: bool

    @property
    def trained(self) -> bool:
        """Whether the group is in the training batch."""
        return self.kept or self.filled

    def episode_id(self, index: int) -> int:
        """The id, within the step, of the group's episode `index`."""
        return self.group_id * len(self.episodes) + index


@dataclass(frozen=True)
class Batch:
    """One training batch: turns in order of group, episode and turn; one row per turn, or one per episode.

    `sequence` names the sequence of each token where it is not the row.
    """

    rows: Rows
    group: Int[Tensor, " turns"]
    episode: Int[Tensor, " turns"]
    turn: Int[Tensor, " turns"]
    role: Int[Tensor, "rows tokens"]
    tag: Bool[Tensor, "rows tokens"]
    sampler_logprob: Float[Tensor, "rows tokens"]
    advantages: Advantages
    old: Scores
    reference: Scores
    weight: Float[Tensor, "rows tokens"]
    energy_statistics: EnergyStatistics | None
    value: ValueBatch | None = None
    sequence: Int[Tensor, "rows tokens"] | None = None

    @cached_property
    def row_episode(self) -> Int[Tensor, " rows"]:
        """The episode of each row."""
        return self.episode[self.rows.turn[:, 0]]

    @property
    def episodes_are_blocks(self) -> bool:
        """Whether a sequence is an episode of several rows, which an update then keeps together."""
        return self.sequence is not None and len(self.rows) == len(self.turn)

    @cached_property
    def advantage(self) -> Float[Tensor, "rows tokens"]:
        """The advantage of each response token, 0 elsewhere."""
        if self.advantages.token is not None:
            return self.rows.spread(self.advantages.token.float())
        return self.advantages.total.float()[self.rows.turn] * self.rows.mask

    def __len__(self) -> int:
        return len(self.rows)


def format_penalty(turn: Turn, penalty: float) -> float:
    """What a turn's format costs: 0, or `-penalty` if its response is not strictly valid."""
    return 0.0 if turn.response.parsed.valid else -penalty


def turn_rewards(groups: Sequence[Group], penalty: float) -> TurnRewards:
    """Rewards of every turn of the groups, in row order (group, episode, turn)."""
    turns = [
        (group.episode_id(k), group.group_id, t, turn)
        for group in groups
        for k, episode in enumerate(group.episodes)
        for t, turn in enumerate(episode.turns)
    ]
    anchors: dict[str, int] = {}
    return TurnRewards(
        episode=torch.tensor([e for e, _, _, _ in turns]),
        group=torch.tensor([g for _, g, _, _ in turns]),
        turn=torch.tensor([t for _, _, t, _ in turns]),
        reward=torch.tensor([turn.reward for *_, turn in turns], dtype=torch.float64),
        penalty=torch.tensor([format_penalty(turn, penalty) for *_, turn in turns], dtype=torch.float64),
        anchor=torch.tensor([anchors.setdefault(turn.anchor, len(anchors)) for *_, turn in turns]),
        tokens=torch.tensor([len(turn.sample.ids) for *_, turn in turns]),
    )


def build_batch(
    groups: Sequence[Group],
    model: PreTrainedModel,
    reference: PreTrainedModel,
    algorithm: Algorithm,
    recipe: Recipe,
    pad_id: int,
    largest_return: float,
    critic: CriticModel | None = None,
) -> Batch:
    """The training batch of `groups`. Batch statistics are taken here, once, over the whole batch."""
    episodes = [episode.turns for group in groups for episode in group.episodes]
    turns = [turn for episode in episodes for turn in episode]
    rewards = turn_rewards(groups, recipe.format.penalty)
    in_rows = episodes if recipe.rollout.layout == "trajectory" else [[turn] for turn in turns]
    rows = Rows.of_conversations([[(t.prompt_ids, t.sample.ids) for t in row] for row in in_rows], pad_id)
    temperature, micro_rows = recipe.rollout.temperature, recipe.optim.micro_rows
    reference_scores = score(reference, rows, temperature, micro_rows)
    role = _padded([turn.response.roles for turn in turns], rows)
    weight, statistics = _weights(algorithm, role == ACTION, reference_scores.energy, rows.mask)
    shared = isinstance(algorithm.value, SharedValue)
    old = score(model, rows, temperature, micro_rows, algorithm.value.tau if shared else None)
    old_value = critic.old_values(rows) if critic else old.value
    rewards = replace(rewards, entropy=rows.turn_means(old.entropy))
    if old_value is not None:
        rewards = with_values(rewards, old_value, rows, algorithm, largest_return)
    advantages = algorithm.advantage(rewards)
    value = None
    if old_value is not None:
        value = value_batch(rewards, advantages, old_value, rows, algorithm, largest_return)
    return Batch(
        rows=rows,
        group=rewards.group,
        episode=rewards.episode,
        turn=rewards.turn,
        role=role,
        tag=_padded([turn.response.tags for turn in turns], rows).bool(),
        sampler_logprob=_padded([turn.sample.logprobs for turn in turns], rows),
        advantages=advantages,
        old=old,
        reference=reference_scores,
        weight=weight,
        energy_statistics=statistics,
        value=value,
        sequence=_sequence(rows, rewards.episode, recipe.rollout.layout, recipe.optim.sequence),
    )


def _sequence(
    rows: Rows, episode: Int[Tensor, " turns"], layout: str, sequence: str
) -> Int[Tensor, "rows tokens"] | None:
    if layout == sequence:
        return None
    return rows.turn if sequence == "turn" else episode[rows.turn]


def _weights(
    algorithm: Algorithm, action: Tensor, energy: Tensor, mask: Tensor
) -> tuple[Float[Tensor, "rows tokens"], EnergyStatistics | None]:
    if algorithm.weighting is None:
        return mask.float(), None
    statistics = energy_statistics(energy, action, mask)
    return weights_of(algorithm.weighting, action, energy, statistics, mask), statistics


def _padded(values: Sequence[Sequence[int | float]], rows: Rows) -> Tensor:
    flat = torch.tensor([value for row in values for value in row])
    return flat.new_zeros(rows.mask.shape).masked_scatter(rows.mask, flat)

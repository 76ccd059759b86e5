"""Advantages: from rewards of turns to one number per turn (ARLArena's second dimension).

The reward that is normalised is the environment return, over the episodes of a group (ARLArena's code
normalises over turn rows, where long episodes weigh more; its paper over episodes, which is followed here).
Equal rewards and groups of one give 0. The standard deviation is Bessel-corrected, plus 1e-6. The format
penalty is a token-level reward on the turn's last token, added after normalisation: with one return per
response it reaches every token of that turn as an unscaled shift (the source divides it by the group's
standard deviation, which has no meaning for groups of equal returns).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

#: Added to every standard deviation (verl's value; TRL has 1e-4).
STD_EPSILON = 1e-6
#: A group whose values differ by less than this, relative to their size, is a group of equal values: what is
#: left is rounding of sums of rewards.
EQUAL_TOLERANCE = 1e-9


@dataclass(frozen=True)
class TurnRewards:
    """Rewards of a batch, one entry per turn, in any order.

    `episode` and `group` are integer ids, `turn` the index within the episode, `reward` the environment's,
    `penalty` the format penalty (<= 0), `anchor` an integer id of the state before the turn.
    """

    episode: Int[Tensor, " rows"]
    group: Int[Tensor, " rows"]
    turn: Int[Tensor, " rows"]
    reward: Float[Tensor, " rows"]
    penalty: Float[Tensor, " rows"]
    anchor: Int[Tensor, " rows"]


@dataclass(frozen=True)
class Advantages:
    """The advantage of each turn and its parts: total = episode + omega x step + format. All [rows]."""

    total: Float[Tensor, " rows"]
    episode: Float[Tensor, " rows"]
    step: Float[Tensor, " rows"] | None
    format: Float[Tensor, " rows"]


@runtime_checkable
class AdvantageRule(Protocol):
    """A rule from a batch's rewards to advantages."""

    kind: ClassVar[str]

    def __call__(self, rewards: TurnRewards) -> Advantages:
        """One advantage per turn."""
        ...


def group_advantage(values: Float[Tensor, " items"], group: Int[Tensor, " items"]) -> Float[Tensor, " items"]:
    """(value - mean) / (std + 1e-6) within each group, in float64; 0 for equal values and groups of one.

    Bound: |A| <= (G-1)/sqrt(G) for a group of G.
    """
    values = values.double()
    _, index = torch.unique(group, return_inverse=True)
    count = torch.bincount(index)
    groups = len(count)
    mean = values.new_zeros(groups).index_add(0, index, values) / count
    deviation = values - mean[index]
    square = values.new_zeros(groups).index_add(0, index, deviation**2)
    std = (square / (count - 1).clamp(min=1)).sqrt()
    low = values.new_full((groups,), torch.inf).scatter_reduce(0, index, values, "amin")
    high = values.new_full((groups,), -torch.inf).scatter_reduce(0, index, values, "amax")
    equal = (high - low) <= EQUAL_TOLERANCE * torch.maximum(high.abs(), low.abs()).clamp(min=1)
    return torch.where((equal | (count == 1))[index], 0.0, deviation / (std[index] + STD_EPSILON))


def episode_return(
    rewards: TurnRewards,
) -> tuple[Float[Tensor, " episodes"], Int[Tensor, " rows"], Int[Tensor, " episodes"]]:
    """Environment return of each episode, each turn's episode index, and each episode's group."""
    _, index = torch.unique(rewards.episode, return_inverse=True)
    episodes = int(index.max()) + 1 if len(index) else 0
    returns = rewards.reward.new_zeros(episodes, dtype=torch.float64).index_add(
        0, index, rewards.reward.double()
    )
    group = rewards.group.new_zeros(episodes).index_copy(0, index, rewards.group)
    return returns, index, group


def discounted_return(rewards: TurnRewards, gamma: float) -> Float[Tensor, " rows"]:
    """sum_k gamma^k r_{t+k} to the end of the episode, per turn, in float64."""
    reward = rewards.reward.double()
    order = sorted(range(len(reward)), key=lambda i: (int(rewards.episode[i]), -int(rewards.turn[i])))
    values, episodes = reward.tolist(), rewards.episode.tolist()
    out = [0.0] * len(values)
    following, current = 0.0, None
    for i in order:
        following = values[i] + (gamma * following if episodes[i] == current else 0.0)
        out[i], current = following, episodes[i]
    return torch.tensor(out, dtype=torch.float64)


@dataclass(frozen=True)
class GroupNorm:
    """GRPO: the episode's return, normalised within its group, for every turn of the episode."""

    kind: ClassVar[str] = "group_norm"
    summary: ClassVar[str] = "group-normalised return"

    def __call__(self, rewards: TurnRewards) -> Advantages:
        """Episode part and format part."""
        returns, index, group = episode_return(rewards)
        episode = group_advantage(returns, group)[index]
        penalty = rewards.penalty.double()
        return Advantages(episode + penalty, episode, None, penalty)


@dataclass(frozen=True)
class GiGPO:
    """GiGPO (arXiv 2505.10978): episode part + omega x step part.

    The step part normalises the discounted environment return-to-go, less the turn's own format penalty (which
    verl-agent's code subtracts after discounting, so that it does not reach earlier turns), among the visits of
    one anchor state within the group. Anchors match exactly.
    """

    kind: ClassVar[str] = "gigpo"
    omega: float = 1.0
    gamma: float = 0.95

    @property
    def summary(self) -> str:
        """One cell of the method table."""
        return f"group-normalised return + {self.omega:g} x anchor-normalised return-to-go (gamma {self.gamma:g})"

    def __call__(self, rewards: TurnRewards) -> Advantages:
        """Episode, step and format part."""
        base = GroupNorm()(rewards)
        to_go = discounted_return(rewards, self.gamma) + rewards.penalty.double()
        pairs = torch.stack([rewards.group.long(), rewards.anchor.long()], dim=1)
        _, anchor_group = torch.unique(pairs, dim=0, return_inverse=True)
        step = group_advantage(to_go, anchor_group)
        return Advantages(base.total + self.omega * step, base.episode, step, base.format)

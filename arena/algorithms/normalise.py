"""Numbers behind advantages: normalising within groups or over a batch, and GAE. All in float64."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

#: Added to every standard deviation (verl's value; TRL has 1e-4).
STD_EPSILON = 1e-6
#: A group whose values differ by less than this, relative to their size, is a group of equal values: what is
#: left is rounding of sums of rewards.
EQUAL_TOLERANCE = 1e-9
#: The same for what is computed from values of a model, which are in float32.
EQUAL_TOLERANCE_OF_VALUES = 1e-6


def equal_returns(low: float, high: float) -> bool:
    """Whether the returns between these differ by rounding only."""
    return high - low <= EQUAL_TOLERANCE * max(abs(high), abs(low), 1.0)


def group_normalised(
    values: Float[Tensor, " items"], group: Int[Tensor, " items"]
) -> Float[Tensor, " items"]:
    """(value - mean) / (std + 1e-6) within each group, in float64; 0 for equal values and groups of one.

    Bound: |A| <= (G-1)/sqrt(G) for a group of G.
    """
    index, count, deviation = _deviation(values, group)
    square = deviation.new_zeros(len(count)).index_add(0, index, deviation**2)
    std = (square / (count - 1).clamp(min=1)).sqrt()
    return deviation / (std[index] + STD_EPSILON)


def leave_one_out(values: Float[Tensor, " items"], group: Int[Tensor, " items"]) -> Float[Tensor, " items"]:
    """value - mean of the group's other values, in float64; 0 for groups of one (RLOO, arXiv 2402.14740)."""
    index, count, deviation = _deviation(values, group)
    return deviation * (count.double() / (count - 1).clamp(min=1))[index]


def group_centred(values: Float[Tensor, " items"], group: Int[Tensor, " items"]) -> Float[Tensor, " items"]:
    """value - mean within each group, in float64 (Dr. GRPO, arXiv 2503.20783)."""
    return _deviation(values, group)[2]


def _deviation(
    values: Float[Tensor, " items"], group: Int[Tensor, " items"]
) -> tuple[Int[Tensor, " items"], Int[Tensor, " groups"], Float[Tensor, " items"]]:
    """Which group each item is in, the groups' sizes, and each item's distance from its group's mean, in float64.

    Exactly 0 within groups of equal values and groups of one.
    """
    values = values.double()
    _, index = torch.unique(group, return_inverse=True)
    count = torch.bincount(index)
    mean = values.new_zeros(len(count)).index_add(0, index, values) / count
    low = values.new_full((len(count),), torch.inf).scatter_reduce(0, index, values, "amin")
    high = values.new_full((len(count),), -torch.inf).scatter_reduce(0, index, values, "amax")
    return index, count, torch.where(_equal(low, high)[index], 0.0, values - mean[index])


def _equal(
    low: Float[Tensor, "*shape"], high: Float[Tensor, "*shape"], tolerance: float = EQUAL_TOLERANCE
) -> Bool[Tensor, "*shape"]:
    """Whether values between these differ by rounding only."""
    return (high - low) <= tolerance * torch.maximum(high.abs(), low.abs()).clamp(min=1)


def generalised_advantage(
    reward: Float[Tensor, " items"],
    value: Float[Tensor, " items"],
    episode: Int[Tensor, " items"],
    time: Int[Tensor, " items"],
    gamma: float,
    lam: float,
) -> Float[Tensor, " items"]:
    """GAE (arXiv 1506.02438) along each episode, in float64: sum_k (gamma lam)^k delta_{t+k} with
    delta = r + gamma V' - V.

    Items are in any order, those of one episode and time in theirs. An episode's end is terminal, at the turn limit
    too.
    """
    out = [0.0] * len(reward)
    rewards, values, episodes = reward.tolist(), value.tolist(), episode.tolist()
    following: dict[int, tuple[float, float]] = {}
    for i in reversed(torch.argsort(time, stable=True).tolist()):
        next_value, next_advantage = following.get(episodes[i], (0.0, 0.0))
        delta = rewards[i] + gamma * next_value - values[i]
        out[i] = delta + gamma * lam * next_advantage
        following[episodes[i]] = values[i], out[i]
    return reward.new_tensor(out, dtype=torch.float64)


def whitened(
    values: Float[Tensor, " items"], count: Int[Tensor, " items"] | None = None
) -> tuple[Float[Tensor, " items"], float]:
    """(value - mean) / (std + 1e-6) over all items, and what it was divided by; 0, and 1, where values are equal up to
    1e-6 of their size. In float64.

    `count` says how many times an item counts.
    """
    values = values.double()
    if not len(values) or bool(_equal(values.min(), values.max(), EQUAL_TOLERANCE_OF_VALUES)):
        return torch.zeros_like(values), 1.0
    weight = torch.ones_like(values) if count is None else count.double()
    total = weight.sum().clamp(min=1)
    deviation = values - (values * weight).sum() / total
    scale = float(((deviation**2 * weight).sum() / (total - 1).clamp(min=1)).sqrt()) + STD_EPSILON
    return deviation / scale, scale

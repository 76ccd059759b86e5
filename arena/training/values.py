"""Values in training: PPO's critic model, and what values are fitted to."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from transformers import PreTrainedModel

from arena.algorithms.advantages import Advantages, TurnRewards
from arena.algorithms.catalog import Algorithm
from arena.algorithms.normalise import generalised_advantage
from arena.algorithms.values import Critic, SharedValue, clipped_value_loss
from arena.policy.scoring import Rows, response_states
from arena.recipe import OptimConfig


@dataclass(frozen=True)
class ValueBatch:
    """What values are fitted to, in units of the environment's largest return; `mask` says where there are any.

    A critic's are [rows, tokens], of a critic on turns where a turn begins; shared values are [turns, 2]: V before and
    Q after the response. `before` is the old value before each turn.
    """

    old: Float[Tensor, "items values"]
    target: Float[Tensor, "items values"]
    mask: Bool[Tensor, "items values"]
    before: Float[Tensor, " turns"]
    shared: bool = False

    @property
    def explained(self) -> float | None:
        """Share of the variance of V's targets that the old values explain; None where they do not vary."""
        old, target, mask = (x[:, :1] if self.shared else x for x in (self.old, self.target, self.mask))
        target, error = target[mask].double(), (target - old)[mask].double()
        variance = float(target.var(correction=0))
        return 1 - float(error.var(correction=0)) / variance if variance else None


def with_values(
    rewards: TurnRewards, old: Float[Tensor, "items values"], rows: Rows, algorithm: Algorithm, largest: float
) -> TurnRewards:
    """The rewards with the old values that the algorithm's advantage reads, in units of reward."""
    if reads(algorithm) == "token_value":
        return replace(rewards, token_value=old[rows.mask] * largest)
    value = old[:, 0] if isinstance(algorithm.value, SharedValue) else old[rows.starts]
    return replace(rewards, value=value * largest)


def value_batch(
    rewards: TurnRewards,
    advantages: Advantages,
    old: Float[Tensor, "items values"],
    rows: Rows,
    algorithm: Algorithm,
    largest: float,
) -> ValueBatch:
    """Targets of the values: V_old + GAE; for Q, r + gamma Q_old of the next turn (arXiv 2608.19842).

    Raises ValueError if the advantage has no targets.
    """
    if advantages.target is None:
        raise ValueError(
            f"'{algorithm.name}': {algorithm.advantage.kind} reads values and returns no targets"
        )
    target = (advantages.target / largest).float()
    if isinstance(algorithm.value, SharedValue):
        q, gamma = old[:, 1].double() * largest, getattr(algorithm.advantage, "gamma", 1.0)
        error = generalised_advantage(rewards.reward, q, rewards.episode, rewards.turn, gamma, 0.0)
        targets = torch.stack([target, ((q + error) / largest).float()], 1)
        return ValueBatch(old, targets, torch.ones_like(old, dtype=torch.bool), old[:, 0], shared=True)
    mask = rows.mask if reads(algorithm) == "token_value" else rows.starts
    return ValueBatch(old, torch.zeros_like(old).masked_scatter(mask, target), mask, old[rows.starts])


def reads(algorithm: Algorithm) -> str | None:
    """Which values the algorithm's advantage reads."""
    return getattr(algorithm.advantage, "reads", None)


class CriticModel(nn.Module):
    """Values of the state before every response token, or before every turn, in units of the largest return.

    A critic on turns runs on prompts alone where rows are turns.
    """

    def __init__(self, start: PreTrainedModel, config: Critic, optim: OptimConfig, per_token: bool) -> None:
        super().__init__()
        self.config, self.optim, self.per_token = config, optim, per_token
        self.backbone = copy.deepcopy(start).eval()
        self.head = nn.Linear(start.config.hidden_size, 1)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)
        self.optimizer = torch.optim.AdamW(
            self.parameters(), lr=config.learning_rate, weight_decay=optim.weight_decay, fused=True
        )

    @staticmethod
    def of(algorithm: Algorithm, start: PreTrainedModel, optim: OptimConfig) -> CriticModel | None:
        """The algorithm's critic at its start; None if it has none."""
        if not isinstance(algorithm.value, Critic):
            return None
        return CriticModel(start, algorithm.value, optim, reads(algorithm) == "token_value")

    def values(self, rows: Rows) -> Float[Tensor, "rows values"]:
        """Differentiable; meaningless where there is no response token."""
        prompts_suffice = not self.per_token and int(rows.starts.sum()) == len(rows)
        return self.head(response_states(self.backbone, rows.cut(1) if prompts_suffice else rows))[:, :, 0]

    @torch.no_grad()
    def old_values(self, rows: Rows) -> Float[Tensor, "rows tokens"]:
        """Values of all rows."""
        values = torch.zeros(rows.mask.shape)
        for index in rows.batches(torch.arange(len(rows)), self.optim.micro_rows):
            part = self.values(rows.select(index))
            values[index, : part.shape[1]] = part
        return values

    def fit(self, rows: Rows, batch: ValueBatch, index: Int[Tensor, " some"], rate: float) -> float:
        """One optimiser step on a mini-batch, at `rate` times the learning rate; returns its loss.

        NaN, and no step, where the gradient is not finite.
        """
        for group in self.optimizer.param_groups:
            group["lr"] = self.config.learning_rate * rate
        self.optimizer.zero_grad()
        count, total = int(batch.mask[index].sum()), 0.0
        for micro in rows.batches(index, self.optim.micro_rows):
            value = self.values(rows.select(micro))
            width = value.shape[1]
            old, target, mask = (x[micro, :width] for x in (batch.old, batch.target, batch.mask))
            loss = clipped_value_loss(value, old, target, mask, self.config.value_clip).sum() / count
            loss.backward()
            total += loss.item()
        if not torch.nn.utils.clip_grad_norm_(list(self.parameters()), self.optim.max_grad_norm).isfinite():
            return math.nan
        self.optimizer.step()
        return total

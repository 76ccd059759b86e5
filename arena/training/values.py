"""Values in training: PPO's critic model, and what values are fitted to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from transformers import PreTrainedModel

from arena.algorithms.advantages import Advantages, TokenGAE, TurnGAE, TurnRewards
from arena.algorithms.catalog import Algorithm
from arena.algorithms.normalise import generalised_advantage
from arena.algorithms.values import Critic, SharedValue, clipped_value_loss
from arena.policy.model import frozen_copy
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

    @property
    def explained(self) -> float:
        """Share of the targets' variance that the old values explain; not finite without variance."""
        target, error = self.target[self.mask].double(), (self.target - self.old)[self.mask].double()
        return float(1 - error.var(correction=0) / target.var(correction=0))


def with_values(
    rewards: TurnRewards, old: Float[Tensor, "rows values"], rows: Rows, algorithm: Algorithm, largest: float
) -> TurnRewards:
    """The rewards with the old values that the algorithm's advantage reads, in units of reward."""
    if isinstance(algorithm.value, SharedValue):
        return replace(rewards, value=old[:, 0] * largest)
    tokens = isinstance(algorithm.advantage, TokenGAE)
    return replace(
        rewards, value=old[rows.starts] * largest, token_value=old[rows.mask] * largest if tokens else None
    )


def value_batch(
    rewards: TurnRewards,
    advantages: Advantages,
    old: Float[Tensor, "rows values"],
    rows: Rows,
    algorithm: Algorithm,
    largest: float,
) -> ValueBatch:
    """Targets of the values: V_old + GAE; for Q, r + gamma Q_old of the next turn (arXiv 2608.19842)."""
    rule = algorithm.advantage
    assert (
        isinstance(rule, TokenGAE | TurnGAE) and advantages.target is not None
    )  # the catalog refuses others
    target = (advantages.target / largest).float()
    if isinstance(algorithm.value, SharedValue):
        q = old[:, 1].double() * largest
        error = generalised_advantage(rewards.reward, q, rewards.episode, rewards.turn, rule.gamma, 0.0)
        targets = torch.stack([target, ((q + error) / largest).float()], 1)
        return ValueBatch(old, targets, torch.ones_like(old, dtype=torch.bool), old[:, 0])
    mask = rows.mask if isinstance(rule, TokenGAE) else rows.starts
    return ValueBatch(old, torch.zeros_like(old).masked_scatter(mask, target), mask, old[rows.starts])


class CriticModel:
    """Values of the state before every response token, or before every turn, in units of the largest return.

    A critic on turns runs on prompts alone where rows are turns.
    """

    def __init__(self, start: PreTrainedModel, config: Critic, optim: OptimConfig, tokens: bool) -> None:
        self.config, self.optim, self.tokens = config, optim, tokens
        self.backbone = frozen_copy(start).requires_grad_(True)
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
        return CriticModel(start, algorithm.value, optim, isinstance(algorithm.advantage, TokenGAE))

    def parameters(self) -> Iterator[nn.Parameter]:
        """Weights of backbone and head."""
        yield from self.backbone.parameters()
        yield from self.head.parameters()

    def values(self, rows: Rows) -> Float[Tensor, "rows values"]:
        """Differentiable; meaningless where there is no response token."""
        prompts_do = not self.tokens and int(rows.starts.sum()) == len(rows)
        return self.head(response_states(self.backbone, rows.cut(1) if prompts_do else rows))[:, :, 0]

    @torch.no_grad()
    def old_values(self, rows: Rows) -> Float[Tensor, "rows values"]:
        """Values of all rows."""
        values = torch.zeros(rows.mask.shape)
        for index in rows.batches(torch.arange(len(rows)), self.optim.micro_rows):
            part = self.values(rows.select(index))
            values[index, : part.shape[1]] = part
        return values

    def fit(self, rows: Rows, batch: ValueBatch, index: Int[Tensor, " some"], rate: float) -> float:
        """One optimiser step on a mini-batch, at `rate` times the learning rate; returns its loss."""
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
        norm = torch.nn.utils.clip_grad_norm_(list(self.parameters()), self.optim.max_grad_norm)
        if torch.isfinite(norm):
            self.optimizer.step()
        return total

    def state_dict(self) -> dict[str, Any]:
        """Everything that a resumed run needs."""
        parts = {"backbone": self.backbone, "head": self.head, "optimizer": self.optimizer}
        return {name: part.state_dict() for name, part in parts.items()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take up the state of `state_dict`."""
        self.backbone.load_state_dict(state["backbone"])
        self.head.load_state_dict(state["head"])
        self.optimizer.load_state_dict(state["optimizer"])

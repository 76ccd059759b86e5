"""Arena's side of every comparison, and the batch that both sides get."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from arena.algorithms.advantages import AdvantageRule, TurnRewards
from arena.algorithms.aggregation import Denominators, denominators
from arena.algorithms.catalog import Algorithm, get_algorithm
from arena.algorithms.loss import LossInputs, kl_loss, policy_loss

#: Relative; what is left in float64 are the peers' own additions of 1e-8 to denominators.
TOLERANCE = 1e-6


@dataclass(frozen=True)
class Batch:
    """What a loss is computed from. [rows, tokens] in float64, `advantage` [rows] or [rows, tokens]."""

    logprob: Tensor
    old_logprob: Tensor
    ref_logprob: Tensor
    advantage: Tensor
    mask: Tensor

    @property
    def token_advantage(self) -> Tensor:
        """The advantage at every token, padding too."""
        advantage = self.advantage if self.advantage.dim() == 2 else self.advantage[:, None]
        return advantage.expand_as(self.logprob)

    def rows(self, start: int, stop: int) -> Batch:
        """Some of the rows, as a micro-batch."""
        return Batch(*(value[start:stop] for value in vars(self).values()))


def random_batch() -> Batch:
    """Six sequences of 1 to 7 tokens with ratios on both sides of every clip, and other numbers under padding.

    One sequence has advantage 0. No ratio is beyond 3 or a k3 beyond 10, where verl bounds what Arena does not.
    """
    generator = torch.Generator().manual_seed(11)

    def normal() -> Tensor:
        return torch.randn(6, 7, generator=generator, dtype=torch.float64)

    mask = torch.arange(7)[None] < torch.tensor([7, 1, 4, 2, 6, 3])[:, None]
    shift = torch.tensor([0.3, -0.1, 0.0, -0.3, 0.1, 0.0], dtype=torch.float64)[:, None]
    log_ratio = (shift + 0.35 * normal()).clamp(-1, 1)
    logprob = -1.5 + 0.5 * normal()
    return Batch(
        logprob=logprob,
        old_logprob=logprob - log_ratio,
        ref_logprob=logprob + 0.5 * normal(),
        advantage=torch.tensor([1.2, -0.7, 0.9, -1.1, -0.1, 0.0], dtype=torch.float64),
        mask=mask,
    )


def one_token(log_ratio: float, advantage: float, old: float = -1.0) -> Batch:
    """One sequence of one token."""
    value = torch.full((1, 1), old, dtype=torch.float64)
    return Batch(
        logprob=value + log_ratio,
        old_logprob=value,
        ref_logprob=value,
        advantage=torch.tensor([advantage], dtype=torch.float64),
        mask=torch.ones(1, 1, dtype=torch.bool),
    )


def two_lengths() -> Batch:
    """Two sequences at ratio 1: one token with advantage 1, three with advantage -1."""
    value = torch.full((2, 3), -1.0, dtype=torch.float64)
    mask = torch.tensor([[True, False, False], [True, True, True]])
    return Batch(value, value, value, torch.tensor([1.0, -1.0], dtype=torch.float64), mask)


def with_an_empty_row() -> Batch:
    """Two sequences, one of a token at ratio 1 and advantage 1, one without a token (advantage -9)."""
    value = torch.full((2, 1), -1.0, dtype=torch.float64)
    advantage = torch.tensor([1.0, -9.0], dtype=torch.float64)
    return Batch(value, value, value, advantage, torch.tensor([[True], [False]]))


def loss_and_gradient(loss: Callable[[Tensor], Tensor], batch: Batch) -> tuple[float, Tensor]:
    """The value of a loss of log-probabilities, and its gradient by them."""
    logprob = batch.logprob.clone().requires_grad_()
    value = loss(logprob)
    (gradient,) = torch.autograd.grad(value, logprob)
    return value.item(), gradient


def arena(
    method: str | Algorithm,
    batch: Batch,
    *,
    kl_coef: float = 0.0,
    sampler_logprob: Tensor | None = None,
    totals: Denominators | None = None,
) -> tuple[float, Tensor]:
    """Arena's loss and gradient; the KL penalty as the training loop adds it."""
    algorithm = get_algorithm(method) if isinstance(method, str) else method
    totals = totals or denominators(batch.mask, torch.ones_like(batch.logprob))

    def loss(logprob: Tensor) -> Tensor:
        inputs = LossInputs(
            logprob=logprob,
            old_logprob=batch.old_logprob,
            advantage=batch.token_advantage,
            mask=batch.mask,
            sampler_logprob=sampler_logprob,
            denominators=totals,
        )
        kl, _ = kl_loss(logprob, batch.ref_logprob, batch.mask, algorithm, totals)
        return policy_loss(inputs, algorithm).loss + kl_coef * kl

    return loss_and_gradient(loss, batch)


def rewards_at_the_end(reward: list[float], mask: Tensor, dtype: torch.dtype = torch.float64) -> Tensor:
    """Each row's reward at its last masked token, [rows, tokens]."""
    rewards = torch.zeros(mask.shape, dtype=dtype)
    rewards[torch.arange(len(mask)), mask.sum(1) - 1] = torch.tensor(reward, dtype=dtype)
    return rewards


def arena_advantage(
    method: AdvantageRule | Callable[..., Tensor], reward: list[float], group: list[int], mask: Tensor
) -> Tensor:
    """Arena's advantage of single-turn episodes at each of their tokens, [rows, tokens].

    By a function over [rows, tokens], or by a rule where a method has no such function.
    """
    if not isinstance(method, AdvantageRule):
        return method(rewards_at_the_end(reward, mask), mask, group=torch.tensor(group))
    rows = torch.arange(len(reward))
    rewards = TurnRewards(
        episode=rows,
        group=torch.tensor(group),
        turn=torch.zeros_like(rows),
        reward=torch.tensor(reward, dtype=torch.float64),
        penalty=torch.zeros(len(reward), dtype=torch.float64),
        anchor=rows,
        tokens=mask.sum(1),
    )
    return method(rewards).total[:, None] * mask


def assert_agree(ours: tuple[float, Tensor], theirs: tuple[float, Tensor]) -> None:
    """Equal loss and equal gradient, each number to a relative 1e-6, and some gradient at all."""
    torch.testing.assert_close(ours[0], theirs[0], rtol=TOLERANCE, atol=1e-12)
    torch.testing.assert_close(ours[1], theirs[1], rtol=TOLERANCE, atol=1e-12)
    assert ours[1].count_nonzero() > 0

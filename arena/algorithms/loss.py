"""The policy loss: one function for every method, from tensors to a scalar and a per-token record."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from arena.algorithms.aggregation import Denominators, denominators_of
from arena.algorithms.catalog import Algorithm
from arena.algorithms.clipping import MAX_LOG_RATIO
from arena.algorithms.units import Units
from arena.algorithms.weighting import EnergyStatistics, energy_statistics, weights_of
from arena.records.schema import ROLES


@dataclass(frozen=True)
class LossInputs:
    """One micro-batch. Everything is [rows, tokens] over response tokens, padded anywhere; `mask` is True on
    sampled tokens.

    `sequence_id` names the sequence of each token (default: every row is one). `weight` are token weights; where
    absent, an algorithm with token weighting computes them from `role` (codes: the index in `ROLES`) and `energy`.
    `sampler_logprob` is what the sampler gave each token, for algorithms that correct for it.
    `denominators` and `energy_statistics` span the mini-batch and the rollout batch; where absent, they are
    taken from this micro-batch.
    """

    logprob: Float[Tensor, "rows tokens"]
    old_logprob: Float[Tensor, "rows tokens"]
    advantage: Float[Tensor, "rows tokens"]
    mask: Bool[Tensor, "rows tokens"]
    sequence_id: Int[Tensor, "rows tokens"] | None = None
    weight: Float[Tensor, "rows tokens"] | None = None
    role: Int[Tensor, "rows tokens"] | None = None
    energy: Float[Tensor, "rows tokens"] | None = None
    energy_statistics: EnergyStatistics | None = None
    sampler_logprob: Float[Tensor, "rows tokens"] | None = None
    denominators: Denominators | None = None

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if isinstance(value, Tensor) and (value.ndim != 2 or value.shape != self.logprob.shape):
                raise ValueError(
                    f"LossInputs: {name} must be [rows, tokens] as logprob, {tuple(self.logprob.shape)}; it is "
                    f"{tuple(value.shape)}"
                )
        if self.mask.dtype != torch.bool:
            raise ValueError(
                f"LossInputs: mask must be of bool, True on sampled tokens; it is of {self.mask.dtype}"
            )


@dataclass(frozen=True)
class LossOutput:
    """The scalar loss (differentiable in `logprob`) and what each token went through (detached)."""

    loss: Float[Tensor, ""]
    log_ratio: Float[Tensor, "rows tokens"]
    ratio_applied: Float[Tensor, "rows tokens"]
    clipped_low: Bool[Tensor, "rows tokens"]
    clipped_high: Bool[Tensor, "rows tokens"]
    masked: Bool[Tensor, "rows tokens"]
    weight: Float[Tensor, "rows tokens"]


def token_weights(inputs: LossInputs, algorithm: Algorithm) -> Float[Tensor, "rows tokens"]:
    """A token's weight, detached: 1 if sampled, or the algorithm's weighting; 0 if not sampled.

    Raises ValueError when it lacks its inputs.
    """
    if inputs.weight is not None:
        return torch.where(inputs.mask, inputs.weight, 0).detach()
    if algorithm.weighting is None:
        return inputs.mask.to(inputs.old_logprob.dtype)
    if inputs.role is None or inputs.energy is None:
        raise ValueError(f"'{algorithm.name}' weights tokens: LossInputs needs role and energy, or weight")
    action = inputs.role == ROLES.index("action")
    statistics = inputs.energy_statistics or energy_statistics(inputs.energy, action, inputs.mask)
    return weights_of(algorithm.weighting, action, inputs.energy, statistics, inputs.mask)


def policy_loss(inputs: LossInputs, algorithm: Algorithm) -> LossOutput:
    """The algorithm's loss on a micro-batch.

    Sums over micro-batches of one mini-batch, each given the mini-batch's denominators, equal the loss of the
    mini-batch in one piece. Values under padding never reach the loss or its gradient.
    """
    mask = inputs.mask
    units = Units.of(inputs.sequence_id, mask)
    # `where` and not `masked_fill`: one pass over the tensor in the place of a copy and a pass, also backwards.
    logprob = torch.where(mask, inputs.logprob, 0)
    old_logprob = torch.where(mask, inputs.old_logprob, 0)
    advantage = torch.where(mask, inputs.advantage, 0)
    weight = token_weights(inputs, algorithm)
    totals = inputs.denominators or denominators_of(weight, units)

    surrogate = algorithm.clip(logprob, old_logprob, advantage, units)
    log_ratio = logprob.detach() - old_logprob
    objective, masked = surrogate.objective, torch.zeros_like(mask)
    if algorithm.mask is not None:
        masked = algorithm.mask(log_ratio, advantage, units)
        objective = torch.where(masked, 0, objective)
    if algorithm.correction is not None:
        if inputs.sampler_logprob is None:
            raise ValueError(f"'{algorithm.name}' corrects for the sampler: LossInputs needs sampler_logprob")
        sampler_logprob = torch.where(mask, inputs.sampler_logprob, 0)
        objective = objective * algorithm.correction(old_logprob, sampler_logprob)
    loss = -algorithm.aggregation(objective, weight, units, totals.weight, totals.sequences)
    return LossOutput(
        loss=loss,
        log_ratio=log_ratio,
        ratio_applied=surrogate.ratio_applied,
        clipped_low=surrogate.clipped_low & mask,
        clipped_high=surrogate.clipped_high & mask,
        masked=masked,
        weight=weight,
    )


def kl_k3(logprob: Float[Tensor, "*shape"], ref_logprob: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """The k3 estimator of KL(pi || pi_ref) per token: exp(d) - d - 1, d = log pi_ref - log pi, d clamped to +-20."""
    d = (ref_logprob - logprob).clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)
    return torch.expm1(d) - d


def kl_loss(
    logprob: Float[Tensor, "rows tokens"],
    ref_logprob: Float[Tensor, "rows tokens"],
    mask: Bool[Tensor, "rows tokens"],
    algorithm: Algorithm,
    totals: Denominators,
    sequence_id: Int[Tensor, "rows tokens"] | None = None,
) -> tuple[Float[Tensor, ""], Float[Tensor, "rows tokens"]]:
    """The KL penalty, aggregated like the policy loss but with every response token at weight 1, and its tokens."""
    kl = kl_k3(torch.where(mask, logprob, 0), torch.where(mask, ref_logprob, 0))
    units = Units.of(sequence_id, mask)
    return algorithm.aggregation(kl, mask.to(kl.dtype), units, totals.tokens, totals.sequences), kl.detach()

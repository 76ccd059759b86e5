"""The policy update: epochs of mini-batches over one batch, and a record of what every token went through."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from transformers import PreTrainedModel

from arena.algorithms.aggregation import Denominators, denominators
from arena.algorithms.catalog import Algorithm
from arena.algorithms.loss import LossInputs, kl_loss, policy_loss
from arena.algorithms.values import SharedValue, clipped_value_loss
from arena.policy.scoring import Responses, respond
from arena.recipe import Recipe
from arena.seeding import stream_seed
from arena.training.batch import ACTION, THINK, Batch
from arena.training.values import CriticModel


@dataclass(frozen=True)
class TokenUpdates:
    """Every response token of every update, flat: `row` and `position` index the batch. All [n]."""

    epoch: Int[Tensor, " n"]
    minibatch: Int[Tensor, " n"]
    row: Int[Tensor, " n"]
    position: Int[Tensor, " n"]
    logprob: Float[Tensor, " n"]
    log_ratio: Float[Tensor, " n"]
    ratio_applied: Float[Tensor, " n"]
    clipped_low: Bool[Tensor, " n"]
    clipped_high: Bool[Tensor, " n"]
    masked: Bool[Tensor, " n"]
    kl_ref: Float[Tensor, " n"]

    @staticmethod
    def concatenate(parts: list[TokenUpdates]) -> TokenUpdates:
        """All parts in one."""
        return TokenUpdates(
            *(torch.cat([getattr(part, f.name) for part in parts]) for f in fields(TokenUpdates))
        )


@dataclass(frozen=True)
class UpdateResult:
    """What the update did. Losses and gradient norms have one entry per mini-batch."""

    tokens: TokenUpdates
    policy_loss: list[float]
    kl_loss: list[float]
    value_loss: list[float]
    grad_norm: list[float]
    skipped: int
    grad_norm_by_role: dict[int, float]


def minibatches(block: Int[Tensor, " rows"], count: int, seed: int) -> list[Int[Tensor, " some"]]:
    """A random split of the rows into `count` parts (fewer where there are fewer blocks) of nearly equally many
    blocks; rows of one block stay together."""
    _, block = block.unique(return_inverse=True)
    members = block.argsort(stable=True).split(torch.bincount(block).tolist())
    order = np.random.default_rng(seed).permutation(len(members))
    parts = np.array_split(order, min(count, len(members)))
    return [torch.cat([members[i] for i in part]) for part in parts]


def micro_batches(batch: Batch, index: Int[Tensor, " some"], size: int) -> list[Int[Tensor, " part"]]:
    """A mini-batch, whose blocks are together, in parts of about `size` rows that split no block."""
    if not batch.episodes_are_blocks:
        return batch.rows.batches(index, size)
    parts: list[list[int]] = [[]]
    episode = batch.row_episode.tolist()
    for row in index.tolist():
        if len(parts[-1]) >= size and episode[row] != episode[parts[-1][-1]]:
            parts.append([])
        parts[-1].append(row)
    return [torch.tensor(part) for part in parts]


def optimise(
    model: PreTrainedModel,
    optimizer: torch.optim.Optimizer,
    batch: Batch,
    algorithm: Algorithm,
    recipe: Recipe,
    step: int,
    critic: CriticModel | None = None,
) -> UpdateResult:
    """Run the update in place, and that of the critic beside it.

    A mini-batch with zero total weight or a non-finite gradient takes no optimiser step and is counted.
    """
    updates: list[TokenUpdates] = []
    policy_losses: list[float] = []
    kl_losses: list[float] = []
    value_losses: list[float] = []
    norms: list[float] = []
    skipped = 0
    by_role: dict[int, float] = {}
    for epoch in range(recipe.optim.epochs):
        seed = stream_seed("minibatches", recipe.env.name, recipe.seed, step, epoch)
        block = batch.row_episode if batch.episodes_are_blocks else torch.arange(len(batch))
        for number, index in enumerate(minibatches(block, recipe.optim.minibatches, seed)):
            sequence = None if batch.sequence is None else batch.sequence[index]
            totals = denominators(batch.rows.mask[index], batch.weight[index], sequence)
            if recipe.record.grad_by_role and not updates:
                by_role = {
                    role: _role_norm(model, batch, index, totals, algorithm, recipe, role)
                    for role in (THINK, ACTION)
                }
            model.zero_grad(set_to_none=True)
            losses = []
            for micro in micro_batches(batch, index, recipe.optim.micro_rows):
                loss, tokens = forward(model, batch, micro, totals, algorithm, recipe, epoch, number)
                (loss.policy + recipe.kl.coef * loss.kl + loss.extra).backward()
                losses.append((loss.policy.item(), loss.kl.item(), loss.value_loss))
                updates.append(tokens)
            norm = float(torch.nn.utils.clip_grad_norm_(model.parameters(), recipe.optim.max_grad_norm))
            if math.isfinite(norm) and totals.weight > 0:
                optimizer.step()
            else:
                skipped += 1
            policy, kl, value = (sum(part) for part in zip(*losses, strict=True))
            policy_losses.append(policy)
            kl_losses.append(kl)
            norms.append(norm)
            if batch.value is not None:
                if critic is not None:
                    value = critic.fit(batch.rows, batch.value, index, warmup(step, recipe.optim.warmup))
                value_losses.append(value)
    model.zero_grad(set_to_none=True)
    return UpdateResult(
        TokenUpdates.concatenate(updates), policy_losses, kl_losses, value_losses, norms, skipped, by_role
    )


def warmup(step: int, steps: int) -> float:
    """Share of the learning rate at a training step."""
    return min(1.0, step / (steps + 1))


@dataclass(frozen=True)
class Losses:
    """Losses of a micro-batch, differentiable: the policy's, the KL penalty before its coefficient, and what a shared
    value adds, weighted; `value_loss` is its L_V, detached."""

    policy: Float[Tensor, ""]
    kl: Float[Tensor, ""]
    extra: Float[Tensor, ""] | float
    value_loss: float


def forward(
    model: PreTrainedModel,
    batch: Batch,
    micro: Int[Tensor, " some"],
    totals: Denominators,
    algorithm: Algorithm,
    recipe: Recipe,
    epoch: int = 0,
    minibatch: int = 0,
    only_role: int | None = None,
) -> tuple[Losses, TokenUpdates]:
    """Losses and token records of a micro-batch; `totals` are the mini-batch's denominators.

    `only_role` lets the gradient through one role's tokens only.
    """
    rows = batch.rows.select(micro)
    width = rows.mask.shape[1]
    shared = algorithm.value if isinstance(algorithm.value, SharedValue) else None
    responses = respond(
        model,
        rows,
        recipe.rollout.temperature,
        entropy=shared is not None and shared.entropy_coef > 0,
        value_tau=shared.tau if shared else None,
    )
    logprob = responses.logprob
    if only_role is not None:
        logprob = torch.where(batch.role[micro, :width] == only_role, logprob, logprob.detach())
    inputs = LossInputs(
        logprob=logprob,
        old_logprob=batch.old.logprob[micro, :width],
        advantage=batch.advantage[micro, :width],
        mask=rows.mask,
        weight=batch.weight[micro, :width],
        sampler_logprob=batch.sampler_logprob[micro, :width],
        sequence_id=None if batch.sequence is None else batch.sequence[micro, :width],
        denominators=totals,
    )
    out = policy_loss(inputs, algorithm)
    penalty, kl = kl_loss(
        logprob, batch.reference.logprob[micro, :width], rows.mask, algorithm, totals, inputs.sequence_id
    )
    row, position = rows.mask.nonzero(as_tuple=True)
    recorded = (
        logprob.detach(),
        out.log_ratio,
        out.ratio_applied,
        out.clipped_low,
        out.clipped_high,
        out.masked,
        kl,
    )
    tokens = TokenUpdates(
        torch.full_like(row, epoch),
        torch.full_like(row, minibatch),
        micro[row],
        position,
        *(values[rows.mask] for values in recorded),
    )
    extra, value = _shared_losses(shared, responses, batch, micro, totals) if shared else (0.0, 0.0)
    return Losses(out.loss, penalty, extra, value), tokens


def _shared_losses(
    shared: SharedValue, responses: Responses, batch: Batch, micro: Int[Tensor, " some"], totals: Denominators
) -> tuple[Float[Tensor, ""], float]:
    """c_V L_V + c_Q L_Q - c_H H of a micro-batch (arXiv 2608.19842), and L_V: values averaged per turn, entropy per
    token."""
    assert batch.value is not None and responses.value is not None
    turn = batch.rows.turn[micro][batch.rows.starts[micro]]
    old, target, mask = (x[turn] for x in (batch.value.old, batch.value.target, batch.value.mask))
    loss = clipped_value_loss(responses.value, old, target, mask, shared.value_clip).sum(0) / totals.turns
    extra = shared.value_coef * loss[0] + shared.q_coef * loss[1]
    if responses.entropy is not None:
        extra = extra - shared.entropy_coef * responses.entropy.sum() / totals.tokens
    return extra, loss[0].item()


def _role_norm(
    model: PreTrainedModel,
    batch: Batch,
    index: Int[Tensor, " some"],
    totals: Denominators,
    algorithm: Algorithm,
    recipe: Recipe,
    role: int,
) -> float:
    """Norm of the policy-loss gradient that flows through the tokens of one role."""
    model.zero_grad(set_to_none=True)
    for micro in micro_batches(batch, index, recipe.optim.micro_rows):
        forward(model, batch, micro, totals, algorithm, recipe, only_role=role)[0].policy.backward()
    return float(torch.nn.utils.get_total_norm([p.grad for p in model.parameters() if p.grad is not None]))

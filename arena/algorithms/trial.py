"""Try a method on a toy batch: a part of the user's own that does not work is found before anything is trained."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from arena.algorithms.advantages import Advantages, TurnRewards
from arena.algorithms.catalog import Algorithm
from arena.algorithms.clipping import Surrogate
from arena.algorithms.loss import LossInputs, policy_loss
from arena.algorithms.units import Units
from arena.errors import UsageError


def try_out(algorithm: Algorithm) -> None:
    """Compute advantages of two episodes, and a loss of two turns with its gradient. Raises UsageError that names the
    part."""
    for part in ("aggregation", "advantage", "clip"):
        if not callable(getattr(algorithm, part)):
            raise UsageError(
                f"the {part} of '{algorithm.name}' must be a part, given {getattr(algorithm, part)!r}."
            )
    _expect(algorithm, "advantage", lambda: algorithm.advantage(_rewards()), Advantages)
    if (rule := algorithm.filter) is not None:
        _expect(algorithm, "filter", lambda: rule.keeps([1.0, 0.0], [True, False]), bool, np.bool_)
        for limit in ("max_batches", "cold_start"):
            _expect(algorithm, "filter", lambda limit=limit: getattr(rule, limit), int)
    mask = torch.tensor([[True, True, True], [True, True, False]])
    old = torch.full((2, 3), -1.0)
    new = (old + 0.01).requires_grad_()
    advantage = torch.tensor([[1.0] * 3, [-1.0] * 3])
    units = Units.of(None, mask)
    _expect(algorithm, "clip", lambda: algorithm.clip(new, old, advantage, units), Surrogate)
    inputs = LossInputs(
        new,
        old,
        advantage,
        mask,
        role=torch.tensor([[1, 1, 2]] * 2),
        energy=-torch.ones(2, 3),
        sampler_logprob=old,
    )
    loss = _expect(algorithm, "loss", lambda: policy_loss(inputs, algorithm).loss, torch.Tensor)
    if loss.shape or not loss.isfinite():
        raise UsageError(
            f"the loss of '{algorithm.name}' must be one finite number; on a toy batch it is {loss}."
        )
    gradient = torch.autograd.grad(loss, new, allow_unused=True)[0] if loss.requires_grad else None
    if gradient is None:
        raise UsageError(
            f"the loss of '{algorithm.name}' has no gradient: the clip must compute with the log-probabilities it is "
            "given first."
        )
    if not gradient.isfinite().all():
        raise UsageError(
            f"the gradient of '{algorithm.name}' must be finite; on a toy batch it is {gradient.flatten().tolist()}. "
            "Is a parameter 0 that something is divided by?"
        )


def _rewards() -> TurnRewards:
    """Two episodes of one group, of two turns of two tokens each; the first succeeds."""
    episode, turn = torch.tensor([0, 0, 1, 1]), torch.tensor([0, 1, 0, 1])
    half = torch.full((4,), 0.5, dtype=torch.float64)
    return TurnRewards(
        episode=episode,
        group=torch.zeros_like(episode),
        turn=turn,
        reward=torch.tensor([0.0, 1.0, 0.0, 0.0], dtype=torch.float64),
        penalty=torch.tensor([0.0, 0.0, -0.1, 0.0], dtype=torch.float64),
        anchor=turn,
        tokens=torch.full_like(episode, 2),
        entropy=half,
        value=half,
        token_value=half.repeat(2),
    )


def _expect(algorithm: Algorithm, part: str, compute: Callable[[], Any], kind: type, *also: type) -> Any:
    """What `compute` returns, which must be of `kind`, or one that counts `also`."""
    try:
        made = compute()
    except Exception as error:
        raise UsageError(
            f"the {part} of '{algorithm.name}' fails on a toy batch: {type(error).__name__}: {error}"
        ) from error
    if not isinstance(made, (kind, *also)):
        raise UsageError(
            f"the {part} of '{algorithm.name}' must return {kind.__name__}; it returned {type(made).__name__}."
        )
    return made

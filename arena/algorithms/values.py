"""Value sources: where the values that GAE needs come from, and the loss that fits them.

Values are in units of the environment's largest return, so that one clip and one learning rate serve them all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Bool, Float
from torch import Tensor


@dataclass(frozen=True)
class Critic:
    """A second model of the policy's architecture with a scalar head and an optimiser of its own (PPO).

    It starts from the policy's start with a head of zeros, and gives a value before every token, or before every turn.
    """

    kind: ClassVar[str] = "critic"
    single_rollout: ClassVar[bool] = False
    learning_rate: float = 1e-3
    value_clip: float = 0.2

    @property
    def summary(self) -> str:
        """One cell of the method table."""
        return f"critic model, clip {self.value_clip:g}"


@dataclass(frozen=True)
class SharedValue:
    """SAPO's value (arXiv 2608.19842, v3): v = (z_w+ - z_w-) / tau, the logits of two vocabulary entries that are
    reserved for it, before the response (V) and after it (Q). One trajectory per task, one backward pass.

    The coefficients are not published; tau and the value loss's were chosen by a grid, the others are guesses
    (docs/algorithms/sapo-sr.md).
    """

    kind: ClassVar[str] = "shared_value"
    single_rollout: ClassVar[bool] = True
    tau: float = 2.0
    value_coef: float = 0.5
    q_coef: float = 0.5
    entropy_coef: float = 0.0
    value_clip: float = 0.2

    def __post_init__(self) -> None:
        if self.tau <= 0:
            raise ValueError(f"tau must be positive, given {self.tau}")

    @property
    def summary(self) -> str:
        """One cell of the method table."""
        return f"two reserved tokens, V x {self.value_coef:g}, Q x {self.q_coef:g}, clip {self.value_clip:g}"


def clipped_value_loss(
    value: Float[Tensor, "*shape"],
    old_value: Float[Tensor, "*shape"],
    target: Float[Tensor, "*shape"],
    mask: Bool[Tensor, "*shape"],
    clip: float,
) -> Float[Tensor, "*shape"]:
    """PPO's clipped regression, 1/2 max((v - y)^2, (v' - y)^2) with v' = v kept within `clip` of the old value; 0
    outside the mask. Differentiable in `value` only."""
    zero = torch.zeros_like(value)
    value, old_value, target = (
        torch.where(mask, x, zero) for x in (value, old_value.detach(), target.detach())
    )
    near = old_value + (value - old_value).clamp(-clip, clip)
    return 0.5 * torch.maximum((value - target) ** 2, (near - target) ** 2)

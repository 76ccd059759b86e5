"""Token weighting: how much each response token counts in the loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float
from torch import Tensor


@dataclass(frozen=True)
class EnergyStatistics:
    """Mean and standard deviation of energy over a rollout batch's action tokens."""

    mu: float
    sigma: float


def energy_statistics(
    energy: Float[Tensor, "rows tokens"],
    action: Bool[Tensor, "rows tokens"],
    mask: Bool[Tensor, "rows tokens"],
) -> EnergyStatistics:
    """Statistics over the action tokens under `mask`, once per rollout batch and after filtering.

    Without action tokens mu is 0 and sigma 1.
    """
    values = energy[action & mask].double()
    if len(values) == 0:
        return EnergyStatistics(0.0, 1.0)
    return EnergyStatistics(float(values.mean()), float(values.std(correction=0)))


@runtime_checkable
class Weighting(Protocol):
    """Says how much each response token counts."""

    kind: ClassVar[str]

    def __call__(
        self,
        action: Bool[Tensor, "rows tokens"],
        energy: Float[Tensor, "rows tokens"],
        statistics: EnergyStatistics,
    ) -> Float[Tensor, "rows tokens"]:
        """Detached weights, not negative. `energy` is the reference's, `statistics` are its over the rollout batch."""
        ...


def weights_of(
    weighting: Weighting,
    action: Bool[Tensor, "rows tokens"],
    energy: Float[Tensor, "rows tokens"],
    statistics: EnergyStatistics,
    mask: Bool[Tensor, "rows tokens"],
) -> Float[Tensor, "rows tokens"]:
    """The weights of sampled tokens, detached, 0 elsewhere."""
    return torch.where(mask, weighting(action, energy, statistics), 0).detach()


@dataclass(frozen=True)
class ActFocus:
    """ActFocus (arXiv 2605.14558): alpha for reasoning tokens, 1 + beta sigmoid((E - mu)/sigma) for action tokens.

    E is the energy of the frozen reference. Every response token outside an action block (the end token too)
    counts as reasoning; the tags of the block count as action, and so does what follows an `<action>` that is not
    closed. Advantages are untouched.
    """

    kind: ClassVar[str] = "actfocus"
    alpha: float = 0.1
    beta: float = 0.5

    @property
    def summary(self) -> str:
        """One cell of the method table."""
        return f"think {self.alpha:g}, action 1 + {self.beta:g} sigmoid(z(energy))"

    def __call__(
        self,
        action: Bool[Tensor, "rows tokens"],
        energy: Float[Tensor, "rows tokens"],
        statistics: EnergyStatistics,
    ) -> Float[Tensor, "rows tokens"]:
        """Detached weights. Equal energies (sigma 0) give the sigmoid its middle, 1/2."""
        z = (energy.detach() - statistics.mu) / (statistics.sigma + 1e-6)
        return torch.where(action, 1 + self.beta * torch.sigmoid(z), torch.full_like(energy, self.alpha))

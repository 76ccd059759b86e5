"""Loss aggregation: from token values to one number (ARLArena's first dimension).

Denominators are inputs, because a mini-batch may be computed in several micro-batches: dividing each by its
own count would make the gradient depend on the split.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional

from arena.algorithms.units import Units


@dataclass(frozen=True)
class Denominators:
    """What a mini-batch's sums are divided by: total token weight, response tokens, sequences, and turns."""

    weight: float
    tokens: float
    sequences: float
    turns: float


def denominators(
    mask: Bool[Tensor, "rows tokens"],
    weight: Float[Tensor, "rows tokens"],
    sequence_id: Int[Tensor, "rows tokens"] | None = None,
) -> Denominators:
    """The denominators of a whole mini-batch. Sequences without a response token do not count; a turn is a run of
    sampled tokens."""
    return denominators_of(torch.where(mask, weight, 0), Units.of(sequence_id, mask))


def denominators_of(weight: Float[Tensor, "rows tokens"], units: Units) -> Denominators:
    """As `denominators`, of weights that are 0 outside `units.mask`."""
    mask = units.mask
    return Denominators(
        weight=float(weight.sum(dtype=torch.float64)),
        tokens=float(units.tokens.sum()),
        sequences=float((units.tokens > 0).sum()),
        turns=float((mask & ~functional.pad(mask, (1, -1))).sum()),
    )


@runtime_checkable
class Aggregation(Protocol):
    """Turns masked token values into a scalar."""

    kind: ClassVar[str]

    def __call__(
        self,
        values: Float[Tensor, "rows tokens"],
        weight: Float[Tensor, "rows tokens"],
        units: Units,
        weight_total: float,
        sequences: float,
    ) -> Float[Tensor, ""]:
        """The scalar; `weight_total` and `sequences` span the mini-batch."""
        ...


@dataclass(frozen=True)
class TokenMean:
    """Weighted mean over all response tokens of the mini-batch (GRPO as in DAPO and verl's default)."""

    kind: ClassVar[str] = "token_mean"
    summary: ClassVar[str] = "token mean"

    def __call__(
        self,
        values: Float[Tensor, "rows tokens"],
        weight: Float[Tensor, "rows tokens"],
        units: Units,
        weight_total: float,
        sequences: float,
    ) -> Float[Tensor, ""]:
        """sum(w v) / sum(w)."""
        return torch.where(units.mask, values * weight, 0).sum() / max(weight_total, 1e-12)


@dataclass(frozen=True)
class SequenceMean:
    """Mean over sequences of each sequence's weighted token mean (GSPO; ARLArena's code for GSPO)."""

    kind: ClassVar[str] = "sequence_mean"
    summary: ClassVar[str] = "sequence mean of token mean"

    def __call__(
        self,
        values: Float[Tensor, "rows tokens"],
        weight: Float[Tensor, "rows tokens"],
        units: Units,
        weight_total: float,
        sequences: float,
    ) -> Float[Tensor, ""]:
        """mean_i(sum_t(w v) / sum_t(w))."""
        per_unit = units.sum(values * weight) / units.sum(weight).clamp(min=1e-12)
        return per_unit.sum() / max(sequences, 1.0)


@dataclass(frozen=True)
class FixedLength:
    """Sum over tokens, divided by sequences x a fixed length (Dr. GRPO, arXiv 2503.20783): no response's tokens
    count less because it is long.

    Length 0 stands for the cap on sampled tokens of the recipe, from which `catalog.algorithm_of` takes it.
    """

    kind: ClassVar[str] = "fixed_length"
    length: int = 0

    def __post_init__(self) -> None:
        if self.length < 0:
            raise ValueError(f"length must not be negative, given {self.length}")

    @property
    def summary(self) -> str:
        """One cell of the method table."""
        return f"sum / (sequences x {self.length or 'rollout.max_response_tokens'})"

    def __call__(
        self,
        values: Float[Tensor, "rows tokens"],
        weight: Float[Tensor, "rows tokens"],
        units: Units,
        weight_total: float,
        sequences: float,
    ) -> Float[Tensor, ""]:
        """sum(w v) / (sequences x length). Raises ValueError for a length of 0."""
        if not self.length:
            raise ValueError(
                "the length is 0, the cap on sampled tokens of a recipe, and here is no recipe: "
                "give a length, as in get_algorithm('dr-grpo:length=48')"
            )
        return units.sum(values * weight).sum() / (max(sequences, 1.0) * self.length)

"""Sequence masks: sequences that a method drops from the loss although they were sampled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol, runtime_checkable

from jaxtyping import Bool, Float
from torch import Tensor

from arena.algorithms.units import Units


@runtime_checkable
class Mask(Protocol):
    """Says which tokens of a mini-batch do not count."""

    kind: ClassVar[str]

    def __call__(
        self, log_ratio: Float[Tensor, "rows tokens"], advantage: Float[Tensor, "rows tokens"], units: Units
    ) -> Bool[Tensor, "rows tokens"]:
        """True where a token is dropped, within `units.mask`. `log_ratio` is log(pi/pi_old), detached."""
        ...


@dataclass(frozen=True)
class SequenceMask:
    """Drop a sequence if its advantage is negative and mean_t log(pi_old/pi) > delta (GRPO_SM, ARLArena).

    `delta` is that of the released scripts; the code's own default there is 0.223.
    """

    kind: ClassVar[str] = "seqmask"
    delta: float = 3e-3

    @property
    def summary(self) -> str:
        """One cell of the method table."""
        return f"A<0 and mean log(old/new) > {self.delta:g}"

    def __call__(
        self, log_ratio: Float[Tensor, "rows tokens"], advantage: Float[Tensor, "rows tokens"], units: Units
    ) -> Bool[Tensor, "rows tokens"]:
        """True where a token is dropped. The advantage of a sequence is the mean of its tokens'."""
        drop = (units.mean(advantage) < 0) & (-units.mean(log_ratio.detach()) > self.delta)
        return units.spread(drop) & units.mask

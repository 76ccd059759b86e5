"""Corrections for a sampler whose probabilities are not the trainer's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from jaxtyping import Float
from torch import Tensor

from arena.algorithms.clipping import MAX_LOG_RATIO


@dataclass(frozen=True)
class TruncatedImportance:
    """Truncated importance sampling: the token's surrogate times min(pi_old / pi_sampler, cap), detached.

    pi_old is what the trainer gives the token, pi_sampler what the engine that sampled it gave; in verl `tis`.
    """

    kind: ClassVar[str] = "tis"
    cap: float = 2.0

    def __post_init__(self) -> None:
        if self.cap <= 0:
            raise ValueError(f"cap must be positive, or nothing is left of the loss; given {self.cap}")

    def __call__(
        self, old_logprob: Float[Tensor, "rows tokens"], sampler_logprob: Float[Tensor, "rows tokens"]
    ) -> Float[Tensor, "rows tokens"]:
        """The factor of each token."""
        log_ratio = (old_logprob - sampler_logprob).clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)
        return log_ratio.exp().clamp(max=self.cap).detach()

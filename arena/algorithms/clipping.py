"""Importance ratio and clip: from log ratios and advantages to the surrogate (ARLArena's third dimension).

Log ratios are clamped to +-20 before exp, as verl does. `clipped_low` and `clipped_high` mean that the clip
removed the token's gradient, not that the ratio left a range; the bound of +-20 does so too, unflagged.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from arena.algorithms.units import Units

#: Bound on |log ratio| before exp.
MAX_LOG_RATIO = 20.0


@dataclass(frozen=True)
class Surrogate:
    """The objective to maximise per token, and what the clip did to it. All [rows, tokens]."""

    objective: Float[Tensor, "rows tokens"]
    ratio_applied: Float[Tensor, "rows tokens"]
    clipped_low: Bool[Tensor, "rows tokens"]
    clipped_high: Bool[Tensor, "rows tokens"]


@runtime_checkable
class Clip(Protocol):
    """A rule from log ratios and advantages to the surrogate objective."""

    kind: ClassVar[str]

    def __call__(
        self,
        logprob: Float[Tensor, "rows tokens"],
        old_logprob: Float[Tensor, "rows tokens"],
        advantage: Float[Tensor, "rows tokens"],
        units: Units,
    ) -> Surrogate:
        """Differentiable in `logprob` only."""
        ...


def _bounded_exp(log_ratio: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """The ratio of a log ratio, bounded before exp."""
    return log_ratio.clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO).exp_()


def _sequence_ratio(log_ratio: Float[Tensor, "rows tokens"], units: Units) -> Float[Tensor, "rows tokens"]:
    """exp(mean_t log_ratio_t) at every token of the sequence, each token's gradient through its own log ratio."""
    mean = units.mean(log_ratio.detach())
    ratio = _bounded_exp(mean)
    slope = ratio.masked_fill(mean.abs() > MAX_LOG_RATIO, 0)
    return units.spread(ratio) + units.spread(slope) * (
        log_ratio - log_ratio.detach()
    )  # the bracket is an exact 0


def _pessimistic(
    ratio: Float[Tensor, "rows tokens"], advantage: Float[Tensor, "rows tokens"], low: float, high: float
) -> Surrogate:
    """min(ratio A, clip(ratio, 1-low, 1+high) A): PPO's surrogate for a ratio of any level."""
    clipped_low = (advantage < 0) & (ratio < 1 - low)
    clipped_high = (advantage > 0) & (ratio > 1 + high)
    # The minimum is the clipped side exactly where the clip acts, and there it has no gradient.
    applied = torch.where(clipped_low, 1 - low, torch.where(clipped_high, 1 + high, ratio))
    return Surrogate(applied * advantage, applied.detach(), clipped_low, clipped_high)


@dataclass(frozen=True)
class TokenClip:
    """PPO's clip on the token ratio (GRPO: 0.2/0.2, ARLArena Table S1)."""

    kind: ClassVar[str] = "token_clip"
    clip_low: float = 0.2
    clip_high: float = 0.2

    @property
    def summary(self) -> str:
        """One cell of the method table."""
        return f"token ratio, min, clip {self.clip_low:g}/{self.clip_high:g}"

    def __call__(
        self,
        logprob: Float[Tensor, "rows tokens"],
        old_logprob: Float[Tensor, "rows tokens"],
        advantage: Float[Tensor, "rows tokens"],
        units: Units,
    ) -> Surrogate:
        """min(w A, clip(w) A) with w = pi/pi_old per token."""
        ratio = _bounded_exp(logprob - old_logprob)
        return _pessimistic(ratio, advantage, self.clip_low, self.clip_high)


@dataclass(frozen=True)
class SequenceClip:
    """GSPO (arXiv 2507.18071): s_i = exp(mean_t log w_t), clipped; defaults of ARLArena Table S1.

    The token form (GSPO-token, Eq. 13 there): value s_i at every token, gradient through sg(s_i) pi/sg(pi). It
    equals the sequence form when the advantage is constant within the sequence.
    """

    kind: ClassVar[str] = "sequence_clip"
    clip_low: float = 3e-3
    clip_high: float = 4e-3

    @property
    def summary(self) -> str:
        """One cell of the method table."""
        return f"sequence ratio, min, clip {self.clip_low:g}/{self.clip_high:g}"

    def __call__(
        self,
        logprob: Float[Tensor, "rows tokens"],
        old_logprob: Float[Tensor, "rows tokens"],
        advantage: Float[Tensor, "rows tokens"],
        units: Units,
    ) -> Surrogate:
        """min(s A, clip(s) A) per token."""
        ratio = _sequence_ratio(logprob - old_logprob, units)
        return _pessimistic(ratio, advantage, self.clip_low, self.clip_high)


@dataclass(frozen=True)
class WeightClip:
    """CISPO (arXiv 2506.13585): the clipped ratio is a detached weight, no token's gradient is removed.

    The loss value depends on the scale of log pi and is not comparable between implementations; its gradient is.
    """

    kind: ClassVar[str] = "weight_clip"
    clip_low: float = 1.0
    clip_high: float = 0.2

    @property
    def summary(self) -> str:
        """One cell of the method table."""
        return f"token ratio as detached weight, clip {self.clip_low:g}/{self.clip_high:g}, no min"

    def __call__(
        self,
        logprob: Float[Tensor, "rows tokens"],
        old_logprob: Float[Tensor, "rows tokens"],
        advantage: Float[Tensor, "rows tokens"],
        units: Units,
    ) -> Surrogate:
        """sg(clip(w, 1-low, 1+high)) A log pi per token."""
        ratio = _bounded_exp(logprob.detach() - old_logprob)
        weight = ratio.clamp_(1 - self.clip_low, 1 + self.clip_high)
        never = torch.zeros_like(units.mask)
        return Surrogate(weight * advantage * logprob, weight, never, never)


@dataclass(frozen=True)
class SoftGate:
    """Soft adaptive policy optimisation (arXiv 2511.20347): (4/tau) sigmoid(tau (w - 1)) in the place of the clip.

    Its slope is 1 at w = 1 and falls smoothly on both sides, faster where the advantage is not positive. Nothing
    is ever clipped; `ratio_applied` is the weight on the gradient of log pi, w times the slope.
    """

    kind: ClassVar[str] = "soft_gate"
    tau_pos: float = 1.0
    tau_neg: float = 1.05

    def __post_init__(self) -> None:
        if min(self.tau_pos, self.tau_neg) <= 0:
            raise ValueError(f"tau_pos and tau_neg must be positive, given {self.tau_pos} and {self.tau_neg}")

    @property
    def summary(self) -> str:
        """One cell of the method table."""
        return f"token ratio in a soft gate, tau {self.tau_pos:g}/{self.tau_neg:g}"

    def __call__(
        self,
        logprob: Float[Tensor, "rows tokens"],
        old_logprob: Float[Tensor, "rows tokens"],
        advantage: Float[Tensor, "rows tokens"],
        units: Units,
    ) -> Surrogate:
        """(4/tau) sigmoid(tau (w - 1)) A per token."""
        ratio = _bounded_exp(logprob - old_logprob)
        tau = torch.where(advantage > 0, ratio.new_tensor(self.tau_pos), ratio.new_tensor(self.tau_neg))
        gate = torch.sigmoid(tau * (ratio - 1))
        never = torch.zeros_like(units.mask)
        return Surrogate(gate * (4 / tau) * advantage, (4 * ratio * gate * (1 - gate)).detach(), never, never)


@dataclass(frozen=True)
class GeometricClip:
    """GMPO (arXiv 2507.20673): the geometric mean of token ratios, each clipped on its own in log space first.

    The token's clip is pessimistic as PPO's: it acts where the advantage is positive and the ratio above
    exp(clip_high), or negative and below exp(-clip_low). A token so clipped passes no gradient, the others of its
    sequence still do; in the sequence clip of GSPO all do or none. In the token form, as GSPO's: value s_i at every
    token, each token's gradient through its own ratio.
    """

    kind: ClassVar[str] = "geometric_clip"
    clip_low: float = 0.4
    clip_high: float = 0.4

    @property
    def summary(self) -> str:
        """One cell of the method table."""
        return (
            f"geometric mean of token ratios, each clipped to exp(-{self.clip_low:g})/exp({self.clip_high:g})"
        )

    def __call__(
        self,
        logprob: Float[Tensor, "rows tokens"],
        old_logprob: Float[Tensor, "rows tokens"],
        advantage: Float[Tensor, "rows tokens"],
        units: Units,
    ) -> Surrogate:
        """exp(mean_t clipped log w_t) A at every token of the sequence."""
        log_ratio = logprob - old_logprob
        clipped_low = (advantage < 0) & (log_ratio < -self.clip_low)
        clipped_high = (advantage > 0) & (log_ratio > self.clip_high)
        clipped = log_ratio.clamp(-self.clip_low, self.clip_high).detach()
        bounded = torch.where(clipped_low | clipped_high, clipped, log_ratio)
        ratio = _sequence_ratio(bounded, units)
        return Surrogate(ratio * advantage, ratio.detach(), clipped_low, clipped_high)

"""Dynamic sampling: which groups are worth training on (ARLArena's fourth dimension)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol, runtime_checkable

from arena.algorithms.normalise import equal_returns


@runtime_checkable
class Filter(Protocol):
    """Says which groups are worth training on, and how long to look for them."""

    kind: ClassVar[str]

    @property
    def max_batches(self) -> int:
        """Rollout rounds of a step, the first included."""
        ...

    @property
    def cold_start(self) -> int:
        """Training steps that are not filtered."""
        ...

    def keeps(self, rewards: Sequence[float], successes: Sequence[bool]) -> bool:
        """Whether a group with these environment returns and successes is kept."""
        ...


@dataclass(frozen=True)
class DynamicFilter:
    """Keep groups with mixed outcomes, sample again for the others (DAPO, arXiv 2503.14476; SAMPO Eq. 8).

    `on="success"` keeps 0 < successes < G (SAMPO), `on="reward"` keeps groups whose returns differ (DAPO); the
    two part under shaped rewards. Both look at the environment, before the format penalty. At most
    `max_batches` rollout rounds; what is missing after the last is filled with rejected groups. No filtering
    in the first `cold_start` steps.
    """

    kind: ClassVar[str] = "dynamic"
    needs_group: ClassVar[bool] = True
    on: str = "success"
    max_batches: int = 3
    cold_start: int = 5

    def __post_init__(self) -> None:
        if self.on not in ("success", "reward"):
            raise ValueError(f"on must be 'success' or 'reward', given '{self.on}'")
        if self.max_batches < 1:
            raise ValueError(f"max_batches must be at least 1, given {self.max_batches}")

    @property
    def summary(self) -> str:
        """One cell of the method table."""
        return f"mixed {self.on}, {self.max_batches} rounds, cold start {self.cold_start}"

    def keeps(self, rewards: Sequence[float], successes: Sequence[bool]) -> bool:
        """Whether a group with these environment returns and successes is kept."""
        outcomes = [float(outcome) for outcome in (successes if self.on == "success" else rewards)]
        return not equal_returns(min(outcomes), max(outcomes))

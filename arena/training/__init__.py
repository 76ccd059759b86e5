"""Behaviour cloning, multi-turn rollouts and the update loop."""

from typing import Literal, Protocol, runtime_checkable

#: What a job is at: a start collects demonstrations, steps and evaluates; a cell steps, and evaluates between steps.
Phase = Literal["demonstrations", "steps", "evaluation"]


@runtime_checkable
class Report(Protocol):
    """Called with what is finished of what there is, and the latest success rate (None before the first evaluation).

    They count steps, or in the phase "demonstrations" the expert's episodes. "evaluation" says that one begins.
    """

    def __call__(self, step: int, steps: int, success: float | None, phase: Phase = "steps", /) -> None: ...

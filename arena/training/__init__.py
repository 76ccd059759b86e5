"""Behaviour cloning, multi-turn rollouts and the update loop."""

from collections.abc import Callable

#: Called with finished steps, all steps, and the latest success rate (None before the first evaluation).
Progress = Callable[[int, int, float | None], None]

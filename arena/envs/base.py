"""The contract of a text environment.

A `TextEnv` is a `gymnasium.Env[str, str]`: it shows its state as text and takes an action as bare text (the
response format belongs to `protocol`). The same task seed is the same task on every machine. Tasks of the two
splits differ in content, not only in seed: an environment draws again until the task belongs to the split of
its seed.
"""

from __future__ import annotations

import hashlib
import string
from abc import abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, Literal, TypeVar

import gymnasium
import numpy as np

from arena.errors import UsageError
from arena.seeding import EVAL_SEED_START, stream_seed

Split = Literal["train", "eval"]
_Word = TypeVar("_Word", bound=str)

_tasks: dict[tuple[Any, ...], Any] = {}


class TextEnv(gymnasium.Env[str, str]):
    """Base class. Subclasses implement the abstract methods and call `draw_task` from `reset`.

    `info` of reset and step carries `success` (bool), `admissible` (bool: the last action was understood and
    accepted; True after reset), `admissible_actions` (tuple of text) and `anchor` (text that identifies the
    state for GiGPO: equal exactly when the states are).

    Truncation by turn limit is the environment's: `max_turns` is a constructor argument.
    """

    #: Name in the registry.
    name: ClassVar[str]
    #: One sentence for `arena list envs`.
    summary: ClassVar[str]
    #: Words the compact tokenizer needs for this environment's observations, thoughts and actions.
    vocabulary: ClassVar[tuple[str, ...]]
    #: Whether the observation shows the whole state, so that equal observations of a task are equal states.
    fully_observed: ClassVar[bool] = True

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 (Gymnasium's annotation)
    #: Whether more is understood than `admissible_actions` lists: searches, programs.
    open_ended: ClassVar[bool] = False
    #: Characters that an observation and an action may have.
    longest_observation: ClassVar[int] = 4096
    longest_action: ClassVar[int] = 64
    #: Largest share of the expert's compact response that the action block may take: what is done to action tokens
    #: alone needs a thought that outweighs them. An environment whose action is a text of its own says so here, an
    #: instance whose options make it longer for itself.
    largest_action_share: float = 0.1
    #: The share of all tasks (by content) that belongs to the evaluation split.
    eval_share: ClassVar[float] = 0.25
    #: Tasks kept for the next reset of the same seed: the episodes of a group share a task. Those of Sokoban and
    #: WebShop grow to megabytes.
    cached_tasks: ClassVar[int] = 64

    def __init__(self, *, max_turns: int, observation: Literal["compact", "full"] = "compact") -> None:
        if max_turns < 1:
            raise ValueError(f"max_turns must be at least 1, given {max_turns}")
        self.max_turns = max_turns
        self.observation_style = one_of("observation", observation, ("compact", "full"))
        #: Whether an action in a state always has the same outcome; a subclass may set it to False.
        self.deterministic = True
        charset = "".join(sorted(set(string.printable) | set("√")))
        longest, spoken = self.longest_observation, self.longest_action
        self.observation_space = gymnasium.spaces.Text(max_length=longest, min_length=0, charset=charset)
        self.action_space = gymnasium.spaces.Text(max_length=spoken, min_length=0, charset=charset)

    @property
    @abstractmethod
    def instruction(self) -> str:
        """The part of the prompt that is the same at every turn: the rules (`full`) or a name (`compact`)."""

    @abstractmethod
    def expert_action(self) -> str:
        """An action of a good policy in the current state, whatever was done before."""

    @property
    @abstractmethod
    def largest_return(self) -> float:
        """A bound on an episode's return that a good policy comes near: the unit in which values are learned."""

    @property
    def expert_success(self) -> float:
        """Chance that the noise-free expert solves the current task from its start within `max_turns`."""
        return 1.0

    @abstractmethod
    def thought(self) -> str:
        """What the expert says before acting: templated from the state, not saying the action."""

    @abstractmethod
    def admissible_actions(self) -> tuple[str, ...]:
        """The actions that are understood in the current state, in a fixed order."""

    def dynamics_options(self, seed: int) -> dict[str, Any]:
        """Reset options that seed the environment's own randomness apart from the task, if it has any."""
        return {} if self.deterministic else {"dynamics": seed}

    def task_seed(self, seed: int | None) -> int:
        """The task seed of a reset: the one given, or one of the training split drawn from `np_random`."""
        return int(self.np_random.integers(EVAL_SEED_START)) if seed is None else seed

    def task_of(
        self, seed: int, key: tuple[Any, ...], sample: Callable[[np.random.Generator], tuple[Any, str]]
    ) -> Any:
        """The task that `draw_task` draws, remembered. `key` is all that it depends on beside the seed, and nothing may
        change it."""
        return self.remembered((seed, *key), lambda: self.draw_task(seed, sample))

    def remembered(self, key: tuple[Any, ...], make: Callable[[], Any]) -> Any:
        """What `make` returns, made once for a `key` that says all that it depends on, and kept for a while."""
        key = (type(self), *key)
        task = _tasks.get(key)
        if task is None:
            task = make()
            if len(_tasks) >= self.cached_tasks:
                _tasks.pop(next(iter(_tasks)), None)
            _tasks[key] = task
        return task

    def draw_task(self, seed: int, sample: Callable[[np.random.Generator], tuple[Any, str]]) -> Any:
        """Draw tasks until one belongs to the split of `seed`.

        `sample(rng)` returns a task and its content as text. Raises UsageError after 10,000 draws: with these
        options there are too few distinct tasks to split.
        """
        wanted = split_of_seed(seed)
        rng = np.random.default_rng(stream_seed("draw", self.name, seed))
        for _ in range(10_000):
            task, content = sample(rng)
            if split_of_content(content, self.eval_share) == wanted:
                return task
        raise UsageError(
            f"{self.name}: no task of the {wanted} split in 10,000 draws: its options allow too few"
        )


def split_of_seed(seed: int) -> Split:
    """The split a task seed belongs to."""
    return "eval" if seed >= EVAL_SEED_START else "train"


def split_of_content(content: str, eval_share: float) -> Split:
    """The split a task belongs to, by a hash of its content."""
    value = int.from_bytes(hashlib.sha256(content.encode()).digest()[:4], "big") / 2**32
    return "eval" if value < eval_share else "train"


def whole_number(what: str, value: int, low: int, high: int) -> int:
    """The option `what` if it is a whole number from `low` to `high`. Raises ValueError."""
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise ValueError(f"{what} must be a whole number from {low} to {high}, given {value!r}")
    return value


def fraction(what: str, value: float) -> float:
    """The option `what` if it is a number from 0 to 1. Raises ValueError."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise ValueError(f"{what} must be from 0 to 1, given {value!r}")
    return value


def one_of(what: str, value: _Word, allowed: Iterable[str]) -> _Word:
    """The option `what` if it is one of those allowed. Raises ValueError."""
    names = tuple(allowed)
    if value not in names:
        raise ValueError(f"{what} must be one of {', '.join(names)}, given {value!r}")
    return value

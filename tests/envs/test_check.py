"""The checker passes good environments and fails each planted fault; a person can play."""

import itertools
import random
import sys
from typing import ClassVar

import pytest

from arena.envs.check import CHECKS, COMPACT_CHECKS, _result, _Subject, check_env
from arena.envs.frozen_lake import FrozenLake
from arena.envs.sokoban import ACTIONS, Sokoban
from arena.errors import UsageError
from arena.recipe import EnvConfig

CONFIG = EnvConfig(name="sokoban")


@pytest.mark.parametrize(
    "config",
    [
        EnvConfig(name="sokoban"),
        EnvConfig(name="sokoban", observation="full"),
        EnvConfig(name="sokoban", max_turns=20, options={"size": 7, "boxes": 2}),
        EnvConfig(name="frozen_lake"),
        EnvConfig(name="frozen_lake", observation="full"),
        EnvConfig(name="frozen_lake", max_turns=40, options={"slippery": True, "success_rate": 0.8}),
        EnvConfig(name="sudoku"),
        EnvConfig(name="sudoku", observation="full", options={"feedback": "full"}),
        EnvConfig(name="alfworld", max_turns=15, options={"receptacles": 7, "objects": 8}),
        EnvConfig(name="alfworld", observation="full"),
        EnvConfig(name="webshop", max_turns=8),
        EnvConfig(name="webshop", observation="full"),
    ],
    ids=lambda config: f"{config.name}-{config.observation}-{len(config.options)}",
)
def test_arenas_own_environments_pass(config):
    results = check_env(config, tasks=40)
    assert [result for result in results if not result.passed] == []
    expected = CHECKS if config.observation == "full" else {**CHECKS, **COMPACT_CHECKS}
    assert [result.name for result in results] == list(expected)


def test_an_unknown_name_is_a_usage_error():
    with pytest.raises(UsageError, match="Did you mean 'sokoban'"):
        check_env(EnvConfig(name="sokobann"))
    with pytest.raises(UsageError, match="refuses env"):
        check_env(EnvConfig(name="sokoban", options={"size": 3}))


class NotSeeded(Sokoban):
    """Does not pass the seed on to Gymnasium."""

    def reset(self, *, seed=None, options=None):
        result = super().reset(seed=seed, options=options)
        self._np_random = None
        return result


class OutsideItsSpace(Sokoban):
    def _observation(self):
        return super()._observation() + "ж"


class Modest(Sokoban):
    """Pays more than it says."""

    largest_return = 5.0


class Forgetful(Sokoban):
    """The task depends on what was played before."""

    draws = itertools.count()

    def _room_of(self, seed):
        return self.draw_task(seed + 1000 * next(self.draws), self._sample)


class HashSeeded(Sokoban):
    """The task depends on the hash of a text, which changes from process to process."""

    def _room_of(self, seed):
        return self.draw_task(seed - seed % 2**30 + abs(hash(f"{seed}")) % 2**30, self._sample)


class BreaksElsewhere(Sokoban):
    """Works only where this test runs."""

    def reset(self, *, seed=None, options=None):
        if sys.argv[0] == "-c":
            raise OSError("no data here")
        return super().reset(seed=seed, options=options)


class OneSplit(Sokoban):
    """Training and evaluation draw from one pool."""

    def draw_task(self, seed, sample):
        return super().draw_task(seed % 2**30, sample)


class OneTask(Sokoban):
    def _room_of(self, seed):
        return super()._room_of(seed - seed % 2**30)


class BadExpert(Sokoban):
    def expert_action(self):
        return "up"


class ForeignExpert(Sokoban):
    def expert_action(self):
        return "north"


class Boastful(FrozenLake):
    """Promises more than slippery ice allows."""

    @property
    def expert_success(self):
        return 0.99


class ConstantAnchor(Sokoban):
    def _info(self, admissible):
        return {**super()._info(admissible), "anchor": "here"}


class PlayerlessAnchor(Sokoban):
    def _info(self, admissible):
        info = super()._info(admissible)
        return {**info, "anchor": info["anchor"].replace("P", "_").replace("S", "O")}


class CountingAnchor(Sokoban):
    def _info(self, admissible):
        info = super()._info(admissible)
        return {**info, "anchor": f"{info['anchor']} {self._turns}"}


class HiddenState(Sokoban):
    """A turn costs more and more, which neither anchor nor observation shows."""

    def step(self, action):
        observation, reward, *rest = super().step(action)
        return observation, reward - 0.1 * self._turns, *rest


class Telling(Sokoban):
    def thought(self):
        return f"{super().thought()} so {self.expert_action()}."


class TellingOther(Sokoban):
    """Names an action that is not the expert's."""

    def thought(self):
        other = next(action for action in ACTIONS if action != self.expert_action())
        return f"{super().thought()} not {other.title()}"


class Wavering(Sokoban):
    def thought(self):
        return f"{super().thought()} {random.random()}"


class Lenient(Sokoban):
    """Finds an action in any text that contains one."""

    def step(self, action):
        return super().step(next((a for a in ACTIONS if a in action.lower()), action))


class Fragile(Sokoban):
    def step(self, action):
        action.encode("ascii")
        return super().step(action)


class Stumbling(Sokoban):
    """A malformed action moves the player."""

    def step(self, action):
        known = action.strip().lower() in ACTIONS
        *result, info = super().step(action if known else self.expert_action())
        return *result, {**info, "admissible": known}


class NoReward(Sokoban):
    def step(self, action):
        observation, _, *rest = super().step(action)
        return observation, None, *rest


class InfiniteReward(Sokoban):
    def step(self, action):
        observation, reward, *rest = super().step(action)
        return observation, reward / (1 - self._ended or 1e-400), *rest


class IntegerFlags(Sokoban):
    def step(self, action):
        observation, reward, terminated, truncated, info = super().step(action)
        return observation, reward, int(terminated), truncated, info


class NoSuccess(Sokoban):
    def _info(self, admissible):
        info = super()._info(admissible)
        del info["success"]
        return info


class ListedActions(Sokoban):
    def _info(self, admissible):
        return {**super()._info(admissible), "admissible_actions": list(ACTIONS)}


class Early(Sokoban):
    def step(self, action):
        observation, reward, terminated, _, info = super().step(action)
        self._ended = terminated or self._turns >= self.max_turns - 1
        return observation, reward, terminated, self._ended and not terminated, info


class Endless(Sokoban):
    def step(self, action):
        observation, reward, terminated, _, info = super().step(action)
        self._ended = terminated
        return observation, reward, terminated, False, info


class Touchy(Sokoban):
    """A malformed action ends the episode."""

    def step(self, action):
        observation, reward, terminated, truncated, info = super().step(action)
        if not info["admissible"]:
            terminated, truncated, self._ended = True, False, True
        return observation, reward, terminated, truncated, info


class Undead(Sokoban):
    """Plays on after the end, and pays for it."""

    def step(self, action):
        self._ended = False
        return super().step(action)


class Wordy(Sokoban):
    def thought(self):
        return f"{super().thought()} hence"


class DoubleSpaced(Sokoban):
    def _observation(self):
        return super()._observation().replace(" ", "  ")


class Repeating(Sokoban):
    vocabulary: ClassVar[tuple[str, ...]] = (*Sokoban.vocabulary, "box")


class Terse(Sokoban):
    def thought(self):
        return super().thought().rpartition(" beyond ")[0]


FAULTS = [
    (NotSeeded, "gymnasium"),
    (OutsideItsSpace, "gymnasium"),
    (Forgetful, "same task for a seed"),
    (HashSeeded, "same task in another process"),
    (BreaksElsewhere, "same task in another process"),
    (OneSplit, "disjoint splits"),
    (OneTask, "disjoint splits"),
    (BadExpert, "expert"),
    (ForeignExpert, "expert"),
    (Boastful, "expert"),
    (Modest, "expert"),
    (ConstantAnchor, "anchors"),
    (PlayerlessAnchor, "anchors"),
    (CountingAnchor, "anchors"),
    (HiddenState, "anchors"),
    (Telling, "thoughts"),
    (TellingOther, "thoughts"),
    (Wavering, "thoughts"),
    (Lenient, "malformed actions"),
    (Fragile, "malformed actions"),
    (Stumbling, "malformed actions"),
    (CountingAnchor, "malformed actions"),
    (NoReward, "return types"),
    (InfiniteReward, "return types"),
    (IntegerFlags, "return types"),
    (NoSuccess, "return types"),
    (ListedActions, "return types"),
    (Early, "turn limit"),
    (Endless, "turn limit"),
    (Touchy, "turn limit"),
    (Undead, "after the end"),
    (Wordy, "vocabulary"),
    (DoubleSpaced, "vocabulary"),
    (Repeating, "vocabulary"),
    (Terse, "action share"),
]


@pytest.mark.parametrize(("cls", "check"), FAULTS, ids=lambda item: getattr(item, "__name__", item))
def test_a_planted_fault_is_found(cls, check):
    config = CONFIG
    if issubclass(cls, FrozenLake):
        config = EnvConfig(name="frozen_lake", options={"slippery": True})
    result = _result(check, {**CHECKS, **COMPACT_CHECKS}[check], _Subject(config, cls, tasks=40))
    assert result.name == check
    assert not result.passed
    assert result.detail


def test_every_check_has_a_planted_fault():
    assert {check for _, check in FAULTS} == set(CHECKS) | set(COMPACT_CHECKS)


@pytest.mark.parametrize(
    ("cls", "spared"),
    [
        (Telling, {"anchors", "expert", "turn limit", "return types", "malformed actions"}),
        (CountingAnchor, {"expert", "thoughts", "turn limit", "return types", "disjoint splits"}),
        (Early, {"return types", "thoughts", "vocabulary", "malformed actions", "after the end"}),
    ],
)
def test_a_fault_is_not_blamed_on_the_rest(cls, spared):
    results = {result.name: result for result in check_env(CONFIG, cls=cls, tasks=20)}
    assert all(results[name].passed for name in spared)

"""`arena env check`: does an environment keep the contract of `base`?

Gymnasium's own checker comes first; the others are what training relies on beyond it. Each check plays
episodes and looks; none knows the rules of the environment. A check that meets an exception fails with it.
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
import json
import math
import os
import random
import re
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, cast

from gymnasium.utils.env_checker import check_env as check_gymnasium

from arena.envs import env_class, make_env
from arena.envs.base import TextEnv
from arena.recipe import EnvConfig
from arena.seeding import EVAL_SEED_START
from arena.userfile import module_of

_LOOK_ALIKES = str.maketrans({"a": "а", "c": "с", "e": "е", "g": "ɡ", "i": "і", "o": "о", "p": "р", "t": "т"})
#: Actions of other environments: an environment may know some of them, so only an exception is a fault.
_FOREIGN = ("up", "search[shoes]", "click[buy now]", "go to cabinet 1", "place 1 at row 1", "print(1)")


@dataclass(frozen=True)
class CheckResult:
    """The outcome of one check; `detail` says what was seen, or what is wrong and where."""

    name: str
    passed: bool
    detail: str


@dataclass(frozen=True)
class _Subject:
    """The environment under check, and how many tasks to look at."""

    config: EnvConfig
    cls: type[TextEnv]
    tasks: int

    def build(self) -> TextEnv:
        config = self.config
        return self.cls(max_turns=config.max_turns, observation=config.observation, **config.options)

    def seeds(self, count: int | None = None) -> list[int]:
        """Task seeds, half from each split."""
        half = max(1, (count or self.tasks) // 2)
        return [*range(half), *range(EVAL_SEED_START, EVAL_SEED_START + half)]


class _Turn(NamedTuple):
    """A step's action and outcome; the action of a reset is None."""

    action: str | None
    observation: str
    reward: float
    terminated: bool
    truncated: bool
    info: dict[str, Any]

    @property
    def ended(self) -> bool:
        return self.terminated or self.truncated


class _FaultError(Exception):
    """What a check found."""


def check_env(config: EnvConfig, cls: type[TextEnv] | None = None, tasks: int = 100) -> list[CheckResult]:
    """Check an environment's contract; `cls` defaults to the registered class of `config.name`.

    `tasks` is how many tasks the expert plays; other checks look at a share or a few times as many. The
    checks of vocabulary and action share apply to the compact observation only. Raises UsageError for a name
    or options that make no environment; everything else that goes wrong is a result.
    """
    if cls is None:
        make_env(config)
    subject = _Subject(config, cls or env_class(config.spec), tasks)
    checks = CHECKS if config.observation == "full" else CHECKS | COMPACT_CHECKS
    return [_result(name, check, subject) for name, check in checks.items()]


def _result(name: str, check: Callable[[_Subject], str], subject: _Subject) -> CheckResult:
    try:
        return CheckResult(name, True, check(subject))
    except _FaultError as fault:
        return CheckResult(name, False, str(fault))
    except Exception as error:  # The environment is under test: whatever it raises is a finding.
        return CheckResult(name, False, f"{type(error).__name__}: {error}")


def _gymnasium(subject: _Subject) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check_gymnasium(subject.build(), skip_render_check=True)
    return "gymnasium.utils.env_checker.check_env passes"


def _same_task(subject: _Subject) -> str:
    first, second = subject.build(), subject.build()
    seeds = subject.seeds(20)
    for seed in seeds:
        trace = _trace(first, seed)
        # The second instance has been elsewhere before.
        second.reset(seed=seed + 1)
        for env, what in ((second, "another instance"), (first, "the same instance, reset again")):
            _require(_trace(env, seed) == trace, f"seed {seed} gives another episode in {what}")
    return f"{len(seeds)} seeds, replayed in two instances"


def _same_task_elsewhere(subject: _Subject) -> str:
    seeds = subject.seeds(20)
    env = subject.build()
    here = [_trace(env, seed) for seed in seeds]
    there = _traces_in_subprocess(subject, seeds)
    for seed, one, other in zip(seeds, here, there, strict=True):
        _require(one == other, f"seed {seed} gives another episode in a process with another PYTHONHASHSEED")
    return f"{len(seeds)} seeds, replayed in a process with another PYTHONHASHSEED"


def _disjoint_splits(subject: _Subject) -> str:
    env = subject.build()
    contents: dict[bool, dict[str, int]] = {True: {}, False: {}}
    for seed in subject.seeds(4 * subject.tasks):
        observation, info = env.reset(seed=seed)
        contents[seed >= EVAL_SEED_START][f"{observation}\n{info['anchor']}"] = seed
    train, evaluation = contents[False], contents[True]
    for text in train.keys() & evaluation.keys():
        message = f"training seed {train[text]} and evaluation seed {evaluation[text]} share a task:\n{text}"
        raise _FaultError(message)
    _require(len(train) > 1 and len(evaluation) > 1, "all seeds of a split give the same task")
    return f"{len(train)} training and {len(evaluation)} evaluation tasks, none in both"


def _expert(subject: _Subject) -> str:
    env = subject.build()
    chances, solved = [], 0
    for seed in subject.seeds():
        turn, earned = None, 0.0
        for turn in _episode(env, seed, lambda info: env.expert_action()):
            earned += turn.reward
            if turn.action is None:
                chances.append(env.expert_success)
            admissible = turn.info["admissible"]
            _require(admissible, f"seed {seed}: the expert's action {turn.action!r} is not admissible")
        success = turn is not None and turn.info["success"]
        message = f"seed {seed}: the expert fails on a task that it says it solves"
        _require(success or chances[-1] < 1, message)
        message = f"seed {seed}: the expert's return is {earned:g}, largest_return says at most {env.largest_return:g}"
        _require(earned <= env.largest_return + 1e-9, message)
        solved += success
    expected, spread = sum(chances), math.sqrt(sum(p * (1 - p) for p in chances))
    _require(
        abs(solved - expected) <= 4 * spread + 1e-9,
        f"the expert solves {solved} of {len(chances)} tasks and says {expected:.1f} +- {spread:.1f}",
    )
    return f"{solved} of {len(chances)} tasks solved, {expected:.1f} promised"


def _anchors(subject: _Subject) -> str:
    env = subject.build()
    states, transitions = 0, 0
    for seed in subject.seeds(10):
        outcomes: dict[tuple[str, str], Any] = {}
        observations: dict[str, str] = {}
        anchors: dict[str, str] = {}
        for turn, before in _random_turns(env, seed, walks=10):
            anchor = turn.info["anchor"]
            if env.fully_observed:
                seen = observations.setdefault(anchor, turn.observation)
                message = f"seed {seed}: two observations share the anchor\n{anchor}"
                _require(seen == turn.observation, message)
                named = anchors.setdefault(turn.observation, anchor)
                _require(named == anchor, f"seed {seed}: one state has two anchors\n{named}\nand\n{anchor}")
            if before is not None and turn.action is not None and env.deterministic:
                outcome = (turn.observation, turn.reward, turn.terminated, anchor)
                known = outcomes.setdefault((before, turn.action), outcome)
                message = f"seed {seed}: {turn.action!r} has two outcomes from one anchor\n{before}"
                _require(known == outcome, message)
                transitions += 1
        states += len(observations)
    seen = (
        f"{states} anchors one to one with observations"
        if env.fully_observed
        else "observations hide a part of states"
    )
    once = f"{transitions} transitions with one outcome each" if env.deterministic else "outcomes are random"
    return f"{seen}, {once}"


def _thoughts(subject: _Subject) -> str:
    env = subject.build()
    count = 0
    for seed in subject.seeds(20):
        for turn, _ in _random_turns(env, seed, walks=2):
            if turn.ended:
                continue
            thought, action = env.thought(), env.expert_action()
            same = env.thought() == thought and env.expert_action() == action
            _require(same, f"seed {seed}: asking twice gives two thoughts or actions in one state")
            for named in {action, *turn.info["admissible_actions"]}:
                message = f"seed {seed}: the thought names the action '{named}': {thought}"
                _require(_words(named) not in _words(thought), message)
            count += 1
    return f"{count} thoughts, none names an action"


def _malformed_actions(subject: _Subject) -> str:
    env = subject.build()
    _, info = env.reset(seed=0)
    malformed = _malformed(info["admissible_actions"])
    for action in (*malformed, *_FOREIGN):
        for played in (0, 1):
            _, info = env.reset(seed=0)
            for _ in range(played):
                _, _, terminated, truncated, info = env.step(env.expert_action())
                if terminated or truncated:
                    _, info = env.reset(seed=0)
            turn = _played(env, action)
            _check_types(turn)
            if turn.info["admissible"] and action in _FOREIGN:
                continue
            _require(not turn.info["admissible"], f"{_short(action)} is taken for an action")
            _require(turn.info["anchor"] == info["anchor"], f"{_short(action)} changes the state")
    return f"{len(malformed)} malformed and {len(_FOREIGN)} foreign actions leave the state alone"


def _return_types(subject: _Subject) -> str:
    env = subject.build()
    count = 0
    for seed in subject.seeds(20):
        for turn, _ in _random_turns(env, seed, walks=2):
            _check_types(turn)
            count += 1
    return f"{count} returns of reset and step"


def _turn_limit(subject: _Subject) -> str:
    env = subject.build()
    limit = subject.config.max_turns
    for choose in (lambda info: "", _random_choice(0)):
        for seed in subject.seeds(10):
            *_, last = turns = list(_episode(env, seed, choose))
            played = len(turns) - 1
            _require(last.ended, f"seed {seed}: still running after {limit} turns")
            exact = played == limit or (played < limit and not last.truncated)
            _require(exact, f"seed {seed}: cut after {played} turns, the limit is {limit}")
            message = f"seed {seed}: malformed actions alone end the episode"
            _require(last.action != "" or last.truncated, message)
    return f"episodes are cut after exactly {limit} turns"


def _after_end(subject: _Subject) -> str:
    env = subject.build()
    behaviour = set()
    for choose in (lambda info: "", lambda info: env.expert_action()):
        turns = list(_episode(env, 0, choose))
        last = turns[-1]
        _require(last.ended, "the episode does not end")
        try:
            again = _played(env, next(iter(last.info["admissible_actions"]), ""))
        except Exception:  # A refusal, of whatever kind, is what is hoped for.
            behaviour.add("refused with an error")
            continue
        same = again.ended and again.reward == 0 and again.info["anchor"] == last.info["anchor"]
        message = "a step after the end changes something: raise an error, or return the end again, reward 0"
        _require(same, message)
        behaviour.add("answered with the end again")
    return f"a step after the end is {' or '.join(sorted(behaviour))}"


def _vocabulary(subject: _Subject) -> str:
    env = subject.build()
    known = set(env.vocabulary)
    _require(len(known) == len(env.vocabulary), "the vocabulary lists a word twice")
    count = 0
    for seed in subject.seeds():
        for turn, _ in _random_turns(env, seed, walks=1):
            texts = [env.instruction, turn.observation, *turn.info["admissible_actions"]]
            texts += [] if turn.ended else [env.thought()]
            for text in texts:
                unknown = [word for word in text.split(" ") if word not in known]
                message = f"seed {seed}: {unknown} not in the vocabulary (one space parts words): {text!r}"
                _require(not unknown, message)
            count += len(texts)
    return f"{count} texts made of {len(known)} words"


def _action_share(subject: _Subject) -> str:
    env = subject.build()
    largest = 0.0
    for seed in subject.seeds():
        env.reset(seed=seed)
        thought, action = env.thought().split(), env.expert_action().split()
        # Four tags and the end token are a token each.
        block = len(action) + 2
        largest = max(largest, block / (block + len(thought) + 3))
    message = (
        f"the action block is {largest:.1%} of a response; at most {env.largest_action_share:.0%}: lengthen the "
        "thought"
    )
    _require(largest <= env.largest_action_share, message)
    return f"the action block is at most {largest:.1%} of a response"


CHECKS: dict[str, Callable[[_Subject], str]] = {
    "gymnasium": _gymnasium,
    "same task for a seed": _same_task,
    "same task in another process": _same_task_elsewhere,
    "disjoint splits": _disjoint_splits,
    "expert": _expert,
    "anchors": _anchors,
    "thoughts": _thoughts,
    "malformed actions": _malformed_actions,
    "return types": _return_types,
    "turn limit": _turn_limit,
    "after the end": _after_end,
}
COMPACT_CHECKS: dict[str, Callable[[_Subject], str]] = {
    "vocabulary": _vocabulary,
    "action share": _action_share,
}


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise _FaultError(message)


def _episode(env: TextEnv, seed: int, choose: Callable[[dict[str, Any]], str]) -> Iterator[_Turn]:
    """An episode's reset and steps, at most one past the limit. `choose` maps the last info to an action."""
    observation, info = env.reset(seed=seed)
    turn = _Turn(None, observation, 0.0, False, False, info)
    yield turn
    for _ in range(env.max_turns + 1):
        if turn.ended:
            return
        turn = _played(env, choose(turn.info))
        yield turn


def _played(env: TextEnv, action: str) -> _Turn:
    observation, reward, terminated, truncated, info = env.step(action)
    # The type of the reward is for `_check_types` to judge.
    return _Turn(action, observation, cast(float, reward), terminated, truncated, info)


def _random_choice(seed: int) -> Callable[[dict[str, Any]], str]:
    rng = random.Random(seed)
    return lambda info: rng.choice(info["admissible_actions"])


def _random_turns(env: TextEnv, seed: int, walks: int) -> Iterator[tuple[_Turn, str | None]]:
    """Turns of random episodes of one task, a tenth of them malformed, each with the anchor before it."""
    for walk in range(walks):
        rng, pick = random.Random(walk), _random_choice(walk)
        before = None
        for turn in _episode(env, seed, lambda info: "" if rng.random() < 0.1 else pick(info)):  # noqa: B023
            yield turn, before
            before = turn.info["anchor"]


def _trace(env: TextEnv, seed: int) -> str:
    """A digest of everything shown in an episode, the expert's with a third of its actions random."""
    rng, pick = random.Random(seed), _random_choice(seed)
    seen: list[Any] = [env.instruction]
    for turn in _episode(env, seed, lambda info: pick(info) if rng.random() < 0.3 else env.expert_action()):
        seen.append([turn, None if turn.ended else env.thought()])
    return hashlib.sha256(json.dumps(seen).encode()).hexdigest()


def _traces_in_subprocess(subject: _Subject, seeds: list[int]) -> list[str]:
    job = {
        "module": subject.cls.__module__,
        "file": inspect.getfile(subject.cls),
        "class": subject.cls.__qualname__,
        "config": subject.config.model_dump(mode="json"),
        "seeds": seeds,
    }
    other = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    path = os.pathsep.join(filter(None, sys.path))
    done = subprocess.run(
        [sys.executable, "-c", "from arena.envs.check import _serve_traces; _serve_traces()"],
        input=json.dumps(job),
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONHASHSEED": other, "PYTHONPATH": path},
        check=False,
    )
    _require(done.returncode == 0, f"the environment fails in a fresh process:\n{done.stderr.strip()}")
    return json.loads(done.stdout.splitlines()[-1])


def _serve_traces() -> None:
    """The other side of `_traces_in_subprocess`: a job on stdin, the traces on the last line of stdout."""
    job = json.load(sys.stdin)
    try:
        module = importlib.import_module(job["module"])
    except ModuleNotFoundError:  # The user's own file, which is not on the path.
        module = module_of(Path(job["file"]))
    subject = _Subject(EnvConfig(**job["config"]), getattr(module, job["class"]), 1)
    env = subject.build()
    print(json.dumps([_trace(env, seed) for seed in job["seeds"]]))


def _check_types(turn: _Turn) -> None:
    info = turn.info
    where = f"after {_short(turn.action)}" if turn.action is not None else "after reset"
    _require(isinstance(turn.observation, str), f"{where}: the observation is no text")
    number = isinstance(turn.reward, int | float) and not isinstance(turn.reward, bool)
    _require(
        number and math.isfinite(turn.reward), f"{where}: the reward {turn.reward!r} is no finite number"
    )
    for name, value in (("terminated", turn.terminated), ("truncated", turn.truncated)):
        _require(isinstance(value, bool), f"{where}: {name} is {value!r}, not a bool")
    for name in ("success", "admissible"):
        value = info.get(name)
        _require(isinstance(value, bool), f"{where}: info['{name}'] is {value!r}, not a bool")
    _require(isinstance(info.get("anchor"), str), f"{where}: info['anchor'] is no text")
    actions = info.get("admissible_actions")
    listed = isinstance(actions, tuple) and all(isinstance(action, str) for action in actions)
    _require(listed and (bool(actions) or turn.ended), f"{where}: info['admissible_actions'] is {actions!r}")
    _require(turn.action is not None or info["admissible"], "after reset: info['admissible'] is not True")


def _malformed(actions: tuple[str, ...]) -> list[str]:
    """Texts that are no action, whatever the environment."""
    first = actions[0]
    texts = ["", " ", "\n", "\0", "\ud800", "x" * 100_000, "no such action", "<action></action>", "</think>"]
    texts += [f"<action>{first}</action>", f"{first}\n{first}", f"{first}\0", f"{first} {first}", f"{first}."]
    for action in actions[:8]:
        texts.append(action.translate(_LOOK_ALIKES))
        texts.append("".join(chr(ord(c) + 0xFEE0) if "!" <= c <= "~" else c for c in action))
    known = {action.strip().lower() for action in actions}
    return [text for text in texts if text.strip().lower() not in known]


def _words(text: str) -> str:
    """The text's words in small letters, each between spaces: a phrase is in a text if its words are."""
    return " ".join(["", *re.findall(r"\w+", text.lower()), ""])


def _short(action: str | None) -> str:
    text = ascii(action)
    return text if len(text) <= 60 else f"{text[:50]}... ({len(text)} characters)"

"""Multi-turn rollouts: many environments at once, one sampled response per turn, until every episode ends."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor
from transformers import PreTrainedModel

from arena.envs import make_env
from arena.envs.base import TextEnv
from arena.envs.protocol import Parsed, parse_response, token_roles
from arena.policy.sampler import Sample, sample
from arena.policy.tokenizer import TextCodec
from arena.recipe import EnvConfig, RolloutConfig
from arena.records.schema import ROLES

_ROLE_CODE = {name: code for code, name in enumerate(ROLES)}


@dataclass(frozen=True)
class Response:
    """What a sampled response says: text, parse, and the role code and tag flag of each token."""

    text: str
    parsed: Parsed
    roles: list[int]
    tags: list[bool]


@dataclass(frozen=True)
class Turn:
    """One turn: what the model was shown (after the first turn of a trajectory, the observation) and said, and what
    the environment answered."""

    prompt: str
    prompt_ids: list[int]
    sample: Sample
    response: Response
    admissible: bool
    reward: float
    anchor: str


@dataclass(frozen=True)
class Episode:
    """One finished episode. `reward` is the environment return, without the format penalty."""

    task_seed: int
    turns: tuple[Turn, ...]
    reward: float
    success: bool
    terminated: bool

    @property
    def valid_turns(self) -> int:
        """Turns whose response is strictly valid."""
        return sum(turn.response.parsed.valid for turn in self.turns)

    @property
    def response_tokens(self) -> int:
        """Sampled tokens."""
        return sum(len(turn.sample.ids) for turn in self.turns)


def build_prompt(env: TextEnv, history: Sequence[tuple[str, str]], observation: str, keep: int) -> str:
    """The prompt of a turn: the rules, the last `keep` observations with their actions, the current observation."""
    history = history[len(history) - min(keep, len(history)) :]
    if env.observation_style == "compact":
        earlier = [part for pair in history for part in pair]
        return " ".join(["", env.instruction, *earlier, observation])
    earlier = [f"Earlier observation:\n{seen}\nYour action: {done}\n" for seen, done in history]
    return "\n".join([env.instruction, "", *earlier, f"Current observation:\n{observation}", ""])


def shown(env: TextEnv, history: Sequence[tuple[str, str]], observation: str, keep: int, layout: str) -> str:
    """What a turn adds to what the model reads: a prompt of its own, or, after the first turn of a trajectory, the
    observation alone."""
    if layout == "turn":
        return build_prompt(env, history, observation, keep)
    if not history:
        return build_prompt(env, (), observation, 0)
    return (
        f" {observation}"
        if env.observation_style == "compact"
        else f"\nCurrent observation:\n{observation}\n"
    )


class Roller:
    """Runs episodes of one environment configuration with any policy; keeps its environments between calls."""

    def __init__(self, config: EnvConfig, rollout: RolloutConfig, codec: TextCodec) -> None:
        self.config = config
        self.codec = codec
        self.max_response_tokens = rollout.max_response_tokens
        self.layout = rollout.layout
        self._env_seconds = 0.0
        self._envs: list[TextEnv] = []
        self._responses: dict[tuple[int, ...], Response] = {}

    @property
    def largest_return(self) -> float:
        """The environment's: the unit of values."""
        if not self._envs:
            self._envs.append(make_env(self.config))
        return self._envs[0].largest_return

    def take_env_seconds(self) -> float:
        """Seconds spent in environments and parsing since the last call."""
        seconds, self._env_seconds = self._env_seconds, 0.0
        return seconds

    def noise(self, episodes: int, seed: int) -> Float[Tensor, "episodes turns tokens"]:
        """One uniform number for every token that the episodes could sample."""
        generator = torch.Generator().manual_seed(seed)
        return torch.rand(episodes, self.config.max_turns, self.max_response_tokens, generator=generator)

    def run(
        self,
        model: PreTrainedModel,
        task_seeds: Sequence[int],
        temperature: Float[Tensor, " episodes"],
        noise: Float[Tensor, "episodes turns tokens"],
        dynamics: Sequence[int],
    ) -> list[Episode]:
        """One episode per task seed. `dynamics` seeds the environment's own randomness, if it has any, so that
        episodes of a group share their task and not their luck."""
        start = time.perf_counter()
        while len(self._envs) < len(task_seeds):
            self._envs.append(make_env(self.config))
        states = [
            _Running(env, *env.reset(seed=seed, options=env.dynamics_options(luck)))
            for env, seed, luck in zip(self._envs, task_seeds, dynamics, strict=False)
        ]
        self._env_seconds += time.perf_counter() - start
        for turn in range(self.config.max_turns):
            active = [i for i, state in enumerate(states) if not state.done]
            if not active:
                break
            prompts = [states[i].prompt(self.config.history, self.layout) for i in active]
            prompt_ids = [self.codec.encode(prompt) for prompt in prompts]
            contexts = prompt_ids
            if self.layout == "trajectory":
                contexts = [[*states[i].read, *ids] for i, ids in zip(active, prompt_ids, strict=True)]
            samples = sample(
                model,
                contexts,
                noise[active, turn],
                temperature[active],
                self.codec.eos_id,
                self.codec.pad_id,
            )
            start = time.perf_counter()
            for i, prompt, ids, drawn in zip(active, prompts, prompt_ids, samples, strict=True):
                states[i].step(prompt, ids, drawn, self.understand(drawn.ids))
            self._env_seconds += time.perf_counter() - start
        return [state.episode(seed) for state, seed in zip(states, task_seeds, strict=True)]

    def understand(self, ids: Sequence[int]) -> Response:
        """Text, parse and roles of sampled ids; remembered, because tiny policies repeat themselves."""
        key = tuple(ids)
        if key not in self._responses:
            if len(self._responses) > 50_000:
                self._responses.clear()
            self._responses[key] = understand(self.codec, key)
        return self._responses[key]


def understand(codec: TextCodec, ids: Sequence[int]) -> Response:
    """Text, parse, and the role and tag flag of each id."""
    text, spans = codec.text_and_spans(ids)
    parsed = parse_response(text)
    names, tags = token_roles(parsed, spans)
    roles = [_ROLE_CODE["eos" if i == codec.eos_id else name] for i, name in zip(ids, names, strict=True)]
    return Response(text, parsed, roles, tags)


class _Running:
    """An episode under way."""

    def __init__(self, env: TextEnv, observation: str, info: dict) -> None:
        self.env = env
        self.observation = observation
        self.anchor: str = info["anchor"]
        self.turns: list[Turn] = []
        self.history: list[tuple[str, str]] = []
        self.read: list[int] = []
        self.success = False
        self.terminated = False
        self.done = False

    def prompt(self, keep: int, layout: str) -> str:
        return shown(self.env, self.history, self.observation, keep, layout)

    def step(self, prompt: str, prompt_ids: list[int], drawn: Sample, response: Response) -> None:
        action = response.parsed.action or ""
        observation, reward, terminated, truncated, info = self.env.step(action)
        self.turns.append(
            Turn(prompt, prompt_ids, drawn, response, info["admissible"], float(reward), self.anchor)
        )
        self.history.append((self.observation, action))
        self.read += [*prompt_ids, *drawn.ids]
        self.observation, self.anchor = observation, info["anchor"]
        self.success = bool(info["success"])
        self.terminated, self.done = terminated, terminated or truncated

    def episode(self, task_seed: int) -> Episode:
        reward = sum(turn.reward for turn in self.turns)
        return Episode(task_seed, tuple(self.turns), reward, self.success, self.terminated)

"""Rollouts: scripted responses in a corridor, turn by turn; roles of what was sampled."""

from typing import ClassVar

import pytest
import torch

from arena.envs.base import TextEnv
from arena.policy.model import build_model
from arena.policy.sampler import Sample
from arena.policy.tokenizer import TextCodec, build_tokenizer
from arena.recipe import EnvConfig, ModelConfig, RolloutConfig
from arena.records.schema import ROLES
from arena.training import rollout
from arena.training.rollout import Roller, build_prompt, understand

WORDS = ("corridor", "at", "go", "stay", "goal")
CODEC = TextCodec(build_tokenizer(WORDS))
MODEL = build_model(
    ModelConfig(hidden_size=8, num_layers=1, num_heads=1, num_kv_heads=1, intermediate_size=8),
    CODEC.tokenizer,
    0,
)
GO, STAY = "<think> at</think><action> go</action>", "<think> goal</think><action> stay</action>"


class Corridor(TextEnv):
    """Three cells; `go` moves on, and the last cell is the goal. Every turn costs 0.1, the goal pays 1."""

    name: ClassVar[str] = "corridor"

    def __init__(self, **options):
        super().__init__(**options)
        self.deterministic = False
        self.seen: list[str] = []

    @property
    def instruction(self) -> str:
        return "corridor"

    @property
    def largest_return(self) -> float:
        return 1.0

    def expert_action(self) -> str:
        return "go"

    def thought(self) -> str:
        return "at"

    def admissible_actions(self) -> tuple[str, ...]:
        return ("go", "stay")

    def _info(self, admissible):
        return {
            "anchor": f"cell {self.cell} of {self.task}",
            "success": self.cell == 2,
            "admissible": admissible,
        }

    def reset(self, *, seed=None, options=None):
        self.task, self.cell, self.turns, self.dynamics = seed, 0, 0, options["dynamics"]
        return "at 0", self._info(True)

    def step(self, action):
        self.seen.append(action)
        self.turns += 1
        self.cell += action == "go"
        done = self.cell == 2
        observation = f"at {self.cell}"
        truncated = not done and self.turns == self.max_turns
        return observation, float(done) - 0.1, done, truncated, self._info(action in ("go", "stay"))


class Stage:
    """A roller in corridors whose responses come from a script: one list of texts per episode."""

    def __init__(self, monkeypatch, *scripts, history=0, max_turns=4):
        self.scripts = [list(s) for s in scripts]
        self.calls: list[dict] = []
        monkeypatch.setattr(rollout, "make_env", lambda config: Corridor(max_turns=config.max_turns))
        monkeypatch.setattr(rollout, "sample", self.sample)
        self.roller = Roller(
            EnvConfig(name="corridor", max_turns=max_turns, history=history),
            RolloutConfig(max_response_tokens=24),
            CODEC,
        )
        self.noise = torch.arange(len(scripts) * max_turns * 24.0).reshape(len(scripts), max_turns, 24)

    def sample(self, model, prompts, uniforms, temperature, eos_id, pad_id):
        texts = [CODEC.text_and_spans(p)[0] for p in prompts]
        # The script of an episode is known by its noise, whose first number says episode and turn.
        rows = [divmod(int(u), 24 * self.noise.shape[1]) for u in uniforms[:, 0].tolist()]
        turns = [rest // 24 for _, rest in rows]
        self.calls.append(
            {"prompts": texts, "rows": [i for i, _ in rows], "turns": turns, "t": temperature.tolist()}
        )
        out = []
        for (i, _), turn in zip(rows, turns, strict=True):
            text = self.scripts[i][turn]
            ids = CODEC.encode(text.removesuffix("|cut"))
            cut = text.endswith("|cut")
            out.append(Sample([*ids, *([] if cut else [eos_id])], [-0.5] * (len(ids) + (not cut)), cut))
        return out

    def run(self, temperatures=None):
        count = len(self.scripts)
        temperature = torch.ones(count) if temperatures is None else torch.tensor(temperatures)
        return self.roller.run(
            MODEL, [100 + i for i in range(count)], temperature, self.noise, list(range(count))
        )


def test_episodes_end_apart_and_add_up(monkeypatch):
    stage = Stage(monkeypatch, [GO, GO], [STAY, GO, STAY, GO], [STAY] * 4)
    fast, slow, never = stage.run()
    assert [t.reward for t in fast.turns] == [-0.1, 0.9]
    assert fast.reward == pytest.approx(0.8)
    assert slow.reward == pytest.approx(0.6)
    assert never.reward == pytest.approx(-0.4)
    assert [(e.success, e.terminated, len(e.turns)) for e in (fast, slow, never)] == [
        (True, True, 2),
        (True, True, 4),
        (False, False, 4),
    ]
    assert [e.task_seed for e in (fast, slow, never)] == [100, 101, 102]
    # Finished episodes ask for nothing more.
    assert [call["rows"] for call in stage.calls] == [[0, 1, 2], [0, 1, 2], [1, 2], [1, 2]]
    assert [call["turns"] for call in stage.calls] == [[k] * n for k, n in enumerate((3, 3, 2, 2))]


def test_turns_keep_what_was_seen_said_and_answered(monkeypatch):
    stage = Stage(monkeypatch, [STAY, GO, GO])
    (episode,) = stage.run()
    assert [t.prompt for t in episode.turns] == [" corridor at 0", " corridor at 0", " corridor at 1"]
    assert [t.prompt_ids for t in episode.turns] == [CODEC.encode(t.prompt) for t in episode.turns]
    # The anchor is the state before the turn.
    assert [t.anchor for t in episode.turns] == ["cell 0 of 100", "cell 0 of 100", "cell 1 of 100"]
    assert [t.response.text for t in episode.turns] == [STAY, GO, GO]
    assert [t.response.parsed.action for t in episode.turns] == ["stay", "go", "go"]
    assert episode.valid_turns == 3
    assert episode.response_tokens == sum(len(CODEC.encode(text)) + 1 for text in (STAY, GO, GO))


def test_invalid_responses_reach_the_environment_as_far_as_they_can(monkeypatch):
    stage = Stage(monkeypatch, ["go", "<action> go</action>", "<think> at|cut", "<action>fly</action>"])
    (episode,) = stage.run()
    assert stage.roller._envs[0].seen == ["", "go", "", "fly"]
    assert [t.response.parsed.valid for t in episode.turns] == [False] * 4
    assert [t.admissible for t in episode.turns] == [False, True, False, False]
    assert [t.sample.truncated for t in episode.turns] == [False, False, True, False]
    assert episode.valid_turns == 0
    # What failed to parse is part of the past as an empty action.
    assert [t.prompt for t in episode.turns][2:] == [" corridor at 1", " corridor at 1"]


@pytest.mark.parametrize(
    ("history", "last"),
    [
        (0, " corridor at 1"),
        (1, " corridor at 1 stay at 1"),
        (2, " corridor at 0 go at 1 stay at 1"),
        (3, " corridor at 0 stay at 0 go at 1 stay at 1"),
        (5, " corridor at 0 stay at 0 go at 1 stay at 1"),
    ],
)
def test_prompts_show_the_last_turns(monkeypatch, history, last):
    stage = Stage(monkeypatch, [STAY, GO, STAY, STAY], history=history)
    (episode,) = stage.run()
    assert episode.turns[0].prompt == " corridor at 0"
    assert episode.turns[3].prompt == last
    if history >= 3:
        assert episode.turns[2].prompt == " corridor at 0 stay at 0 go at 1"


def test_full_prompts_explain_themselves():
    env = Corridor(max_turns=4, observation="full")
    past = [("at 0", "stay"), ("at 0", "go")]
    bare = "corridor\n\nCurrent observation:\nat 1\n"
    assert build_prompt(env, [], "at 1", keep=3) == build_prompt(env, past, "at 1", keep=0) == bare
    assert build_prompt(env, past, "at 1", keep=1) == (
        "corridor\n\nEarlier observation:\nat 0\nYour action: go\n\nCurrent observation:\nat 1\n"
    )


def test_each_episode_has_its_task_luck_and_temperature(monkeypatch):
    stage = Stage(monkeypatch, [STAY] * 4, [GO, GO], [STAY] * 4)
    stage.run([0.5, 1.0, 2.0])
    assert [(e.task, e.dynamics) for e in stage.roller._envs] == [(100, 0), (101, 1), (102, 2)]
    assert [call["t"] for call in stage.calls] == [[0.5, 1.0, 2.0]] * 2 + [[0.5, 2.0]] * 2


def test_environments_are_used_again(monkeypatch):
    stage = Stage(monkeypatch, [GO, GO], [STAY] * 4)
    first = stage.run()
    environments = list(stage.roller._envs)
    second = stage.run()
    assert stage.roller._envs == environments
    assert [e.reward for e in first] == [e.reward for e in second]
    assert stage.roller.take_env_seconds() > 0
    assert stage.roller.take_env_seconds() == 0


def test_noise_is_one_number_per_token_from_a_seed():
    roller = Roller(EnvConfig(name="corridor", max_turns=3), RolloutConfig(max_response_tokens=5), CODEC)
    noise = roller.noise(4, seed=9)
    assert noise.shape == (4, 3, 5)
    assert torch.equal(noise, roller.noise(4, seed=9))
    assert not torch.equal(noise, roller.noise(4, seed=10))
    assert (noise >= 0).all()
    assert (noise < 1).all()


def roles(text):
    ids = [*CODEC.encode(text), CODEC.eos_id]
    response = understand(CODEC, ids)
    pieces = CODEC.tokenizer.convert_ids_to_tokens(ids)
    return [(p, ROLES[r], t) for p, r, t in zip(pieces, response.roles, response.tags, strict=True)]


def test_roles_of_a_valid_response():
    assert roles(GO) == [
        ("<think>", "think", True),
        (" at", "think", False),
        ("</think>", "think", True),
        ("<action>", "action", True),
        (" go", "action", False),
        ("</action>", "action", True),
        ("<eos>", "eos", False),
    ]


def test_roles_of_other_responses():
    assert roles(" go<action> go</action> at") == [
        (" go", "other", False),
        ("<action>", "action", True),
        (" go", "action", False),
        ("</action>", "action", True),
        (" at", "other", False),
        ("<eos>", "eos", False),
    ]
    # An action quoted in a thought is part of the thought; an action block that is not closed is one.
    quoted = roles("<think><action> go</action></think>")
    assert {role for _, role, _ in quoted[:-1]} == {"think"}
    assert roles("<action> go")[:-1] == [("<action>", "action", True), (" go", "action", False)]


def test_understanding_is_remembered_and_the_same(monkeypatch):
    roller = Roller(EnvConfig(name="corridor"), RolloutConfig(max_response_tokens=5), CODEC)
    ids = [*CODEC.encode(GO), CODEC.eos_id]
    first = roller.understand(ids)
    assert first == understand(CODEC, ids)
    monkeypatch.setattr(rollout, "understand", None)
    assert roller.understand(list(ids)) is first

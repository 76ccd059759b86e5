"""Behaviour cloning: which turns are cloned, what they look like, and the start that comes of it."""

import json
from math import cos, pi

import pyarrow.parquet as pq
import pytest
import torch

from arena.envs import make_env
from arena.envs.protocol import parse_response
from arena.policy.model import load_policy
from arena.policy.tokenizer import TextCodec
from arena.records.files import read_status
from arena.seeding import EVAL_SEED_START, stream_seed, train_task_seed
from arena.training import bc
from arena.training.bc import clone, demonstrate
from arena.training.rollout import build_prompt
from tests.training.conftest import silent, tiny


@pytest.fixture(scope="module")
def demonstrations():
    return demonstrate(tiny(), silent)


def by_episode(turns):
    episodes = {}
    for turn in turns:
        episodes.setdefault(turn.episode, []).append(turn)
    return episodes


def test_only_successful_episodes_are_cloned(demonstrations):
    turns, expert_success = demonstrations
    episodes = by_episode(turns)
    assert 0 < len(episodes) < 60
    assert expert_success == len(episodes) / 60
    env = make_env(tiny().env)
    noise = set()
    for number, said in episodes.items():
        # Replayed, each of them reaches the goal with its last action and not before.
        dynamics = stream_seed("bc-dynamics", "frozen_lake", 0, number)
        observation, _ = env.reset(seed=said[0].task_seed, options=env.dynamics_options(dynamics))
        assert [t.turn for t in said] == list(range(len(said)))
        for turn in said:
            assert turn.prompt == build_prompt(env, [], observation, 0)
            parsed = parse_response(turn.response)
            assert parsed.valid
            assert parsed.action in env.admissible_actions()
            noise |= {parsed.action} - {env.expert_action()}
            observation, _, terminated, _, info = env.step(parsed.action)
            assert terminated == (turn is said[-1])
        assert info["success"]
    # What the expert would not have done is any of the actions.
    assert noise == {"up", "down", "left", "right"}


def test_tasks_are_of_the_training_split_and_apart_from_those_of_rl(demonstrations):
    seeds = {turn.task_seed for turn in demonstrations[0]}
    assert max(seeds) < EVAL_SEED_START
    assert seeds <= {train_task_seed("bc", "frozen_lake", 0, i) for i in range(60)}
    assert not seeds & {train_task_seed("frozen_lake", 0, s, 0, g) for s in range(1, 50) for g in range(16)}


def test_noise_makes_the_expert_fail(demonstrations):
    _, clean = demonstrate(tiny(bc={"expert_noise": 0.0}), silent)
    assert clean == 1.0
    assert demonstrations[1] < 1.0


def test_demonstrations_are_reproducible_and_depend_on_the_seed(demonstrations):
    assert demonstrate(tiny(), silent) == demonstrations
    assert demonstrate(tiny(seed=1), silent)[0] != demonstrations[0]
    assert demonstrate(tiny("sampo"), silent) == demonstrations


def test_prompts_show_the_history_that_rollouts_show():
    recipe = tiny(env={"history": 3}, bc={"episodes": 10})
    turns, _ = demonstrate(recipe, silent)
    for said in by_episode(turns).values():
        seen = [turn.prompt.split(" ")[-9:] for turn in said]
        acted = [parse_response(turn.response).action for turn in said]
        for k, turn in enumerate(said):
            earlier = [w for i in range(max(0, k - 3), k) for w in (*seen[i], acted[i])]
            assert turn.prompt.split(" ") == ["", "frozen_lake", *earlier, *seen[k]]
        assert len(said) >= 4


def test_easier_tasks_may_be_demonstrated():
    turns, success = demonstrate(
        tiny(bc={"options": {"p_frozen": 0.95}, "episodes": 5, "expert_noise": 0.0}), silent
    )
    assert success == 1.0
    assert turns[0].prompt != demonstrate(tiny(bc={"episodes": 5, "expert_noise": 0.0}), silent)[0][0].prompt


def test_files_of_a_start(start, demonstrations):
    turns, expert_success = demonstrations
    info = json.loads((start / "bc.json").read_text())
    assert info["expert_success"] == expert_success
    assert info["demonstrations"] == len(turns)
    assert info["episodes"] == 60
    assert 0 < info["loss"] < 0.5
    model, tokenizer = load_policy(start / "model")
    assert info["parameters"] == sum(p.numel() for p in model.parameters())
    assert info["vocabulary"] == len(tokenizer)
    table = pq.read_table(start / "demonstrations.parquet").to_pylist()
    assert table == [vars(turn) for turn in turns]
    evals = pq.read_table(start / "evals.parquet").to_pandas()
    success = evals.groupby("temperature")["success"].mean()
    assert info["success"] == {str(t): success[t] for t in (0.0, 0.5, 1.0)}
    status = read_status(start)
    assert (status.state, status.step, status.steps, status.hash) == ("done", 250, 250, tiny().start_hash)
    assert status.success == success[0.5]


def test_the_start_has_learned_its_demonstrations(start, demonstrations):
    """Greedy decoding of a demonstrated prompt is a valid response more often than not."""
    from arena.policy.sampler import sample

    model, tokenizer = load_policy(start / "model")
    codec = TextCodec(tokenizer)
    prompts = [codec.encode(turn.prompt) for turn in demonstrations[0][:32]]
    samples = sample(model, prompts, torch.zeros(32, 32), torch.zeros(32), codec.eos_id, codec.pad_id)
    valid = [parse_response(codec.text_and_spans(s.ids)[0]).valid for s in samples]
    assert sum(valid) > 16


def test_a_finished_start_is_not_made_again(start, monkeypatch):
    monkeypatch.setattr(bc, "demonstrate", None)
    clone(tiny(), start, silent)
    clone(tiny("sampo", steps=9, optim={"epochs": 4}), start, silent)


def test_a_start_of_another_recipe_is_made_anew(tmp_path):
    seen = []
    small = tiny(bc={"steps": 2, "episodes": 8})
    clone(small, tmp_path, lambda *state: seen.append(state))
    assert seen[:8] == [(k, 8, None, "demonstrations") for k in range(8)]
    assert seen[8:-1] == [(1, 2, None), (2, 2, None), (2, 2, None, "evaluation")]
    assert seen[-1] == (2, 2, read_status(tmp_path).success)
    (tmp_path / "stale").write_text("of an earlier recipe")
    clone(tiny(bc={"steps": 3, "episodes": 8}), tmp_path, silent)
    assert read_status(tmp_path).steps == 3
    assert not (tmp_path / "stale").exists()


def test_a_start_without_demonstrations_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(bc, "demonstrate", lambda recipe, progress: ([], 0.0))
    with pytest.raises(ValueError, match="the expert had no successful episode"):
        clone(tiny(), tmp_path, silent)
    assert read_status(tmp_path).state == "running"


def test_responses_must_fit_the_token_limit(tmp_path):
    with pytest.raises(
        ValueError, match=r"longest response has \d+ tokens: rollout.max_response_tokens is 9"
    ):
        clone(tiny(rollout={"max_response_tokens": 9}, bc={"episodes": 3}), tmp_path, silent)


def test_learning_rate_schedule():
    def rate(step):
        return bc._cosine(step, 100, warmup=10, floor=0.1)

    assert rate(0) == pytest.approx(0.1)
    assert rate(9) == pytest.approx(1.0)
    assert rate(50) == pytest.approx(0.55)
    assert rate(99) == pytest.approx(0.1 + 0.45 * (1 + cos(pi * 0.99)))
    rates = [rate(step) for step in range(10, 100)]
    assert rates == sorted(rates, reverse=True)
    assert min(rates) > 0.1

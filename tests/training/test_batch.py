"""From episodes to tensors: ids, rewards, penalties, anchors, roles and statistics."""

import pytest
import torch

from arena.algorithms.catalog import get_algorithm
from arena.algorithms.weighting import ActFocus, energy_statistics
from arena.envs.protocol import parse_response
from arena.policy.sampler import Sample
from arena.policy.scoring import score
from arena.records.schema import ROLES
from arena.training.batch import ACTION, Group, build_batch, turn_rewards
from arena.training.cell import generate
from arena.training.rollout import Episode, Response, Turn
from tests.training.conftest import World, tiny

VALID, INVALID = "<think>a</think><action>up</action>", "up"


def turn(text: str, reward: float, anchor: str) -> Turn:
    response = Response(text, parse_response(text), [1], [False])
    return Turn("p", [5], Sample([6], [-1.0], False), response, True, reward, anchor)


def episode(*turns: Turn) -> Episode:
    return Episode(0, turns, sum(t.reward for t in turns), False, False)


@pytest.fixture
def two_groups():
    first = Group(
        0,
        0,
        (
            episode(turn(VALID, 0.5, "s"), turn(INVALID, 1.0, "t")),
            episode(turn(VALID, 0.0, "s")),
        ),
        kept=True,
        filled=False,
    )
    third = Group(
        2, 1, (episode(turn(INVALID, 0.0, "t")), episode(turn(VALID, 2.0, "u"))), kept=False, filled=True
    )
    return [first, third]


def test_rewards_of_turns(two_groups):
    rewards = turn_rewards(two_groups, penalty=0.1)
    assert rewards.group.tolist() == [0, 0, 0, 2, 2]
    assert rewards.episode.tolist() == [0, 0, 1, 4, 5]
    assert rewards.turn.tolist() == [0, 1, 0, 0, 0]
    assert rewards.reward.tolist() == [0.5, 1.0, 0.0, 0.0, 2.0]
    assert rewards.penalty.tolist() == [0.0, -0.1, 0.0, -0.1, 0.0]
    # Anchors are equal exactly when the states are; the group keeps them apart.
    assert rewards.anchor.tolist() == [0, 1, 0, 1, 2]


def test_groups_know_whether_they_are_trained_on(two_groups):
    assert [g.trained for g in two_groups] == [True, True]
    assert not Group(1, 0, (), kept=False, filled=False).trained
    assert [two_groups[1].episode_id(k) for k in (0, 1)] == [4, 5]


@pytest.fixture(scope="module")
def sampled(start):
    world = World(start)
    return world, generate(1, get_algorithm("grpo"), tiny(), world.roller, world.model)


def make(sampled, spec):
    world, groups = sampled
    batch = build_batch(
        groups, world.model, world.reference, get_algorithm(spec), tiny(spec), world.codec.pad_id, 1.0
    )
    return batch, [t for g in groups for e in g.episodes for t in e.turns]


def test_rows_are_turns_as_sampled(sampled):
    batch, turns = make(sampled, "grpo")
    assert len(batch) == len(turns)
    for i, t in enumerate(turns):
        n, p = len(t.sample.ids), len(t.prompt_ids)
        prompt = batch.rows.prompt[i]
        assert batch.rows.prompt_length[prompt] == p
        assert batch.rows.prompt_ids[prompt, :p].tolist() == t.prompt_ids
        assert batch.rows.response_ids[i, :n].tolist() == t.sample.ids
        assert batch.rows.mask[i].tolist() == [k < n for k in range(batch.rows.mask.shape[1])]
        assert [ROLES[r] for r in batch.role[i, :n].tolist()] == [ROLES[r] for r in t.response.roles]
        assert batch.tag[i, :n].tolist() == t.response.tags
        assert not batch.tag[i, n:].any()
        assert batch.sampler_logprob[i, :n].tolist() == pytest.approx(t.sample.logprobs)
    gap = (batch.sampler_logprob - batch.old.logprob)[batch.rows.mask].abs().max()
    assert gap < 5e-5


def test_advantages_are_on_response_tokens_alone(sampled):
    batch, _ = make(sampled, "grpo")
    mask = batch.rows.mask
    assert batch.advantage[~mask].abs().max() == 0.0
    expected = batch.advantages.total.float()[:, None].expand_as(mask)[mask]
    assert torch.equal(batch.advantage[mask], expected)
    assert batch.advantages.total.abs().max() > 0.1


def test_the_start_is_its_own_reference(sampled):
    batch, _ = make(sampled, "grpo")
    assert torch.equal(batch.old.logprob, batch.reference.logprob)
    assert torch.equal(batch.weight, batch.rows.mask.float())
    assert batch.energy_statistics is None


def test_energy_is_the_frozen_references(sampled, start):
    _, groups = sampled
    world = World(start)
    with torch.no_grad():
        world.model.model.norm.weight.mul_(1.5)
    batch = build_batch(
        groups, world.model, world.reference, get_algorithm("actfocus"), tiny(), world.codec.pad_id, 1.0
    )
    expected = score(world.reference, batch.rows, 1.0, 256)
    assert torch.equal(batch.reference.energy, expected.energy)
    assert not torch.allclose(batch.old.energy, expected.energy)
    assert not torch.allclose(batch.old.logprob, batch.reference.logprob)


def test_weights_use_statistics_of_the_whole_batch(sampled):
    batch, _ = make(sampled, "actfocus")
    action = batch.role == ACTION
    statistics = energy_statistics(batch.reference.energy, action, batch.rows.mask)
    energies = batch.reference.energy[action & batch.rows.mask]
    assert statistics.mu == pytest.approx(energies.mean().item(), rel=1e-5)
    assert statistics.sigma == pytest.approx(energies.std(correction=0).item(), rel=1e-4)
    assert batch.energy_statistics == statistics
    expected = ActFocus()(action, batch.reference.energy, statistics) * batch.rows.mask
    assert torch.equal(batch.weight, expected)
    # The tags of the action block count as action, the end token as reasoning.
    mask = batch.rows.mask
    assert (batch.weight[mask & action & batch.tag] > 1).all()
    assert torch.allclose(batch.weight[mask & (batch.role == ROLES.index("eos"))], torch.tensor(0.1))
    assert batch.weight[~mask].abs().max() == 0.0


def test_micro_batches_of_scoring_do_not_change_the_batch(sampled):
    world, groups = sampled
    recipe = tiny(optim={"micro_rows": 3})
    small = build_batch(
        groups, world.model, world.reference, get_algorithm("grpo"), recipe, world.codec.pad_id, 1.0
    )
    whole, _ = make(sampled, "grpo")
    for name in ("logprob", "entropy", "energy", "centred_energy"):
        assert torch.allclose(getattr(small.old, name), getattr(whole.old, name), atol=1e-5, rtol=0)


def test_the_sampling_temperature_is_applied_when_scoring(start):
    world = World(start)
    recipe = tiny(rollout={"temperature": 0.7})
    groups = generate(1, get_algorithm("grpo"), recipe, world.roller, world.model)
    batch = build_batch(
        groups, world.model, world.reference, get_algorithm("grpo"), recipe, world.codec.pad_id, 1.0
    )
    assert (batch.sampler_logprob - batch.old.logprob)[batch.rows.mask].abs().max() < 1e-5
    warm = score(world.model, batch.rows, 1.0, 256)
    assert not torch.allclose(batch.old.logprob, warm.logprob, atol=1e-2)
    assert torch.equal(batch.reference.energy, warm.energy)

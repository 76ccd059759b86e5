"""The update: its gradient depends on the mini-batch alone, its first ratio is 1, and it skips what is void."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from arena.algorithms.aggregation import denominators
from arena.algorithms.catalog import CATALOG, get_algorithm
from arena.records.schema import ROLES
from arena.seeding import stream_seed
from arena.training.batch import ACTION, THINK, build_batch
from arena.training.cell import generate
from arena.training.rollout import Roller
from arena.training.update import forward, micro_batches, minibatches, optimise
from arena.training.values import CriticModel
from tests.training.conftest import World, tiny

SPECS = [
    *("dr-grpo:length=32" if name == "dr-grpo" else name for name in CATALOG),
    "cispo+seqmask",
    "gspo+actfocus",
]


@pytest.fixture(scope="module")
def groups(start):
    """Two mixed groups of four episodes, of the first step that has them."""
    world = World(start)
    for step in range(1, 50):
        sampled = generate(step, get_algorithm("grpo"), tiny(), world.roller, world.model)
        if all(len({e.reward for e in group.episodes}) > 1 for group in sampled):
            return sampled
    pytest.fail("no step of 49 has two mixed groups")


def make_batch(world, groups, spec="grpo"):
    algorithm, recipe = get_algorithm(spec), tiny(spec)
    critic = CriticModel.of(algorithm, world.model, recipe.optim)
    return build_batch(
        groups, world.model, world.reference, algorithm, recipe, world.codec.pad_id, 1.0, critic
    )


def move(model, scale=0.02):
    """Leave the behaviour policy: ratios on both sides of every clip, a KL to the reference."""
    generator = torch.Generator().manual_seed(9)
    with torch.no_grad():
        for p in model.parameters():
            p.add_(scale * torch.randn(p.shape, generator=generator))


def gradient(world, batch, spec, parts, only_role=None):
    """Loss and gradient of one mini-batch given as micro-batches of row indices."""
    algorithm, recipe = get_algorithm(spec), tiny(spec)
    index = torch.cat(parts)
    totals = denominators(batch.rows.mask[index], batch.weight[index])
    world.model.zero_grad()
    loss = 0.0
    for micro in parts:
        part, _ = forward(world.model, batch, micro, totals, algorithm, recipe, only_role=only_role)
        total = part.policy
        if only_role is None:
            total = total + recipe.kl.coef * part.kl + part.extra
        total.backward()
        loss += total.item()
    return loss, torch.cat([p.grad.flatten() for p in world.model.parameters()])


@pytest.mark.parametrize("spec", SPECS)
def test_gradient_does_not_depend_on_split_padding_or_order(world, groups, spec):
    batch = make_batch(world, groups, spec)
    move(world.model)
    rows = torch.arange(len(batch))
    loss, expected = gradient(world, batch, spec, [rows])
    assert expected.norm() > 1e-3
    shuffled = rows[torch.randperm(len(rows), generator=torch.Generator().manual_seed(1))]
    # One row at a time is padded to itself alone; the whole is padded to its longest row.
    for parts in (rows.split(1), rows.split(7), [shuffled], shuffled.split(5)):
        other_loss, other = gradient(world, batch, spec, list(parts))
        assert other_loss == pytest.approx(loss, abs=1e-5)
        assert (other - expected).norm() <= 1e-5 * max(1.0, float(expected.norm()))


def test_the_moved_policy_reaches_every_clip(world, groups):
    batch = make_batch(world, groups)
    move(world.model)
    rows = torch.arange(len(batch))
    totals = denominators(batch.rows.mask, batch.weight)
    for spec in ("grpo", "gspo"):
        _, tokens = forward(world.model, batch, rows, totals, get_algorithm(spec), tiny(spec))
        assert tokens.clipped_low.any()
        assert tokens.clipped_high.any()
    _, tokens = forward(world.model, batch, rows, totals, get_algorithm("cispo+seqmask"), tiny())
    assert 0 < tokens.masked.sum() < len(tokens.masked)


@pytest.mark.parametrize("spec", SPECS)
def test_first_ratio_is_one_and_first_kl_is_zero(world, groups, spec):
    batch = make_batch(world, groups, spec)
    optimizer = torch.optim.AdamW(world.model.parameters(), lr=1e-3)
    result = optimise(world.model, optimizer, batch, get_algorithm(spec), tiny(spec), step=1)
    first = (result.tokens.epoch == 0) & (result.tokens.minibatch == 0)
    assert result.tokens.log_ratio[first].abs().max() <= 1e-5
    assert result.tokens.kl_ref[first].max() <= 1e-10
    assert abs(result.kl_loss[0]) <= 1e-10
    # The second mini-batch sees another policy.
    assert result.tokens.log_ratio[~first].abs().max() > 1e-3
    assert result.kl_loss[1] > 1e-7
    assert result.skipped == 0


def test_updates_cover_every_response_token_once_per_epoch(world, groups):
    batch = make_batch(world, groups)
    recipe = tiny(optim={"epochs": 3, "minibatches": 4, "micro_rows": 3})
    optimizer = torch.optim.AdamW(world.model.parameters(), lr=1e-3)
    result = optimise(world.model, optimizer, batch, get_algorithm("grpo"), recipe, step=1)
    t = result.tokens
    assert len(t.row) == 3 * int(batch.rows.mask.sum())
    for epoch in range(3):
        at = t.epoch == epoch
        counts = torch.zeros_like(batch.rows.mask, dtype=torch.long)
        counts.index_put_(
            (t.row[at], t.position[at]), torch.ones(int(at.sum()), dtype=torch.long), accumulate=True
        )
        assert torch.equal(counts, batch.rows.mask.long())
        # A row is in one mini-batch of the epoch, as the stream of the epoch says.
        seed = stream_seed("minibatches", "frozen_lake", 0, 1, epoch)
        for number, index in enumerate(minibatches(torch.arange(len(batch)), 4, seed)):
            assert set(t.row[at & (t.minibatch == number)].tolist()) == set(index.tolist())
    assert len(result.policy_loss) == len(result.kl_loss) == len(result.grad_norm) == 12


def test_mini_batches_split_the_rows():
    parts = minibatches(torch.arange(10), 4, seed=3)
    assert sorted(i for part in parts for i in part.tolist()) == list(range(10))
    assert sorted(map(len, parts)) == [2, 2, 3, 3]
    assert [p.tolist() for p in parts] == [p.tolist() for p in minibatches(torch.arange(10), 4, seed=3)]
    assert [p.tolist() for p in parts] != [p.tolist() for p in minibatches(torch.arange(10), 4, seed=4)]
    assert [len(p) for p in minibatches(torch.arange(3), 4, seed=3)] == [1, 1, 1]


def weights(world):
    return torch.cat([p.detach().flatten().clone() for p in world.model.parameters()])


def test_one_update_is_one_clipped_adam_step(world, groups):
    """Against the same step made by hand."""
    batch, other = make_batch(world, groups), World.__new__(World)
    other.model = type(world.model)(world.model.config)
    other.model.load_state_dict(world.model.state_dict())
    recipe = tiny(optim={"minibatches": 1, "max_grad_norm": 0.01})
    optimizer = torch.optim.AdamW(world.model.parameters(), lr=1e-3, weight_decay=0.1)
    result = optimise(world.model, optimizer, batch, get_algorithm("grpo"), recipe, step=1)
    _, raw = gradient(other, batch, "grpo", [torch.arange(len(batch))])
    assert result.grad_norm == pytest.approx([raw.norm().item()], rel=1e-4)
    assert raw.norm() > 0.01
    by_hand = torch.optim.AdamW(other.model.parameters(), lr=1e-3, weight_decay=0.1)
    for p in other.model.parameters():
        p.grad *= 0.01 / (raw.norm() + 1e-6)
    by_hand.step()
    assert (weights(world) - weights(other)).abs().max() < 1e-6


def test_a_mini_batch_of_zero_weight_takes_no_step(world, groups):
    batch = make_batch(world, groups)
    batch = replace(batch, weight=torch.zeros_like(batch.weight))
    before = weights(world)
    optimizer = torch.optim.AdamW(world.model.parameters(), lr=1e-3, weight_decay=0.1)
    result = optimise(world.model, optimizer, batch, get_algorithm("actfocus"), tiny(), step=1)
    assert result.skipped == 2
    assert torch.equal(weights(world), before)
    assert result.policy_loss == [0.0, 0.0]


@pytest.mark.parametrize("bad", [torch.inf, torch.nan])
def test_a_non_finite_gradient_takes_no_step(world, groups, bad):
    batch = make_batch(world, groups)
    poisoned = batch.advantages.total.clone()
    poisoned[3] = bad
    batch = replace(batch, advantages=replace(batch.advantages, total=poisoned))
    before = weights(world)
    optimizer = torch.optim.AdamW(world.model.parameters(), lr=1e-3)
    result = optimise(world.model, optimizer, batch, get_algorithm("grpo"), tiny(), step=1)
    # One of the two mini-batches holds row 3, the other is taken.
    assert result.skipped == 1
    assert weights(world).isfinite().all()
    assert not torch.equal(weights(world), before)


def test_equal_rewards_without_kl_or_penalty_leave_the_policy_alone(world, groups):
    batch = make_batch(world, groups)
    batch = replace(
        batch, advantages=replace(batch.advantages, total=torch.zeros(len(batch), dtype=torch.float64))
    )
    recipe = tiny(kl={"coef": 0.0})
    before = weights(world)
    optimizer = torch.optim.AdamW(world.model.parameters(), lr=1e-3, weight_decay=0.0)
    result = optimise(world.model, optimizer, batch, get_algorithm("grpo"), recipe, step=1)
    assert result.grad_norm == [0.0, 0.0]
    assert torch.equal(weights(world), before)


def test_the_kl_term_pulls_towards_the_reference_in_proportion_to_its_coefficient(start, groups):
    norms = {}
    for coef in (0.5, 1.0):
        world = World(start)
        batch = make_batch(world, groups)
        zero = torch.zeros(len(batch), dtype=torch.float64)
        batch = replace(batch, advantages=replace(batch.advantages, total=zero))
        move(world.model)
        recipe = tiny(kl={"coef": coef}, optim={"minibatches": 1, "epochs": 5})
        optimizer = torch.optim.AdamW(world.model.parameters(), lr=1e-3, weight_decay=0.0)
        result = optimise(world.model, optimizer, batch, get_algorithm("grpo"), recipe, step=1)
        assert result.policy_loss == [0.0] * 5
        assert result.kl_loss == sorted(result.kl_loss, reverse=True)
        assert result.kl_loss[-1] < 0.9 * result.kl_loss[0]
        norms[coef] = result.grad_norm[0]
    assert norms[1.0] == pytest.approx(2 * norms[0.5], rel=1e-4)


@pytest.mark.parametrize("spec", ["grpo", "gspo", "actfocus"])
def test_gradients_by_role_add_up_to_the_policy_gradient(world, groups, spec):
    batch = make_batch(world, groups, spec)
    rows = [torch.arange(len(batch))]
    roles = [ROLES.index(name) for name in ("think", "action", "other", "eos")]
    parts = [gradient(world, batch, spec, rows, only_role=role)[1] for role in roles]
    _, total = gradient(world, batch, spec, rows)
    assert parts[0].norm() > 0 < parts[1].norm()
    # At the start the KL has no gradient.
    assert (sum(parts) - total).norm() <= 1e-5


def test_gradient_norms_by_role_are_those_of_the_first_mini_batch_and_change_nothing(world, groups, start):
    batch = make_batch(world, groups)
    plain = World(start)
    recipe = tiny(record={"grad_by_role": True})
    first = minibatches(torch.arange(len(batch)), 2, stream_seed("minibatches", "frozen_lake", 0, 1, 0))[0]
    expected = {
        role: gradient(world, batch, "grpo", [first], only_role=role)[1].norm() for role in (THINK, ACTION)
    }
    for one, settings in ((world, recipe), (plain, tiny())):
        optimizer = torch.optim.AdamW(one.model.parameters(), lr=1e-3)
        result = optimise(one.model, optimizer, batch, get_algorithm("grpo"), settings, step=1)
        if settings is recipe:
            assert set(result.grad_norm_by_role) == {THINK, ACTION}
            for role, norm in expected.items():
                assert result.grad_norm_by_role[role] == pytest.approx(norm.item(), rel=1e-4)
        else:
            assert result.grad_norm_by_role == {}
    assert torch.equal(weights(world), weights(plain))


def test_blocks_stay_together_in_mini_batches():
    block = torch.tensor([7, 7, 3, 3, 3, 9, 1, 1])
    parts = minibatches(block, 2, seed=0)
    assert sorted(torch.cat(parts).tolist()) == list(range(8))
    assert [len(set(block[p].tolist())) for p in parts] == [2, 2]
    assert not set(block[parts[0]].tolist()) & set(block[parts[1]].tolist())
    # Blocks of one row each are rows.
    expected = np.random.default_rng(5).permutation(9).tolist()
    assert torch.cat(minibatches(torch.arange(9), 4, seed=5)).tolist() == expected


# Rows that are episodes, and sequences that are


def both_layouts(world, sequence, spec="grpo"):
    """Batches of one policy's episodes in either layout, their recipes, and the algorithm."""
    made = []
    for layout in ("turn", "trajectory"):
        recipe = tiny(spec, rollout={"layout": layout}, optim={"sequence": sequence})
        roller = Roller(recipe.env, recipe.rollout, world.codec)
        groups = generate(1, get_algorithm(spec), recipe, roller, world.model)
        critic = CriticModel.of(get_algorithm(spec), world.model, recipe.optim)
        batch = build_batch(
            groups, world.model, world.reference, get_algorithm(spec), recipe, world.codec.pad_id, 1.0, critic
        )
        made.append((recipe, batch, groups))
    return made


def test_a_trajectory_is_scored_as_it_was_sampled(world):
    (_, by_turn, _), (_, batch, groups) = both_layouts(world, "turn")
    assert len(by_turn) == len(by_turn.turn)
    assert len(batch) == 8 < len(batch.turn)
    mask = batch.rows.mask
    assert (batch.old.logprob - batch.sampler_logprob)[mask].abs().max() < 1e-4
    for row, episode in enumerate(e for group in groups for e in group.episodes):
        ids = [i for turn in episode.turns for i in (*turn.prompt_ids, *turn.sample.ids)]
        own = batch.rows.prompt_ids[batch.rows.prompt[row]]
        start = batch.rows.prompt_length[batch.rows.prompt[row]]
        assert [*own[:start], *batch.rows.response_ids[row]][: len(ids)] == ids
        sampled = [i for turn in episode.turns for i in turn.sample.ids]
        assert batch.rows.response_ids[row][mask[row]].tolist() == sampled
        # The model reads on: a later turn shows the observation alone.
        assert all(len(turn.prompt_ids) <= len(episode.turns[0].prompt_ids) for turn in episode.turns)


@pytest.mark.parametrize("spec", ["grpo", "sampo", "cispo+seqmask", "ppo", "ppo-turn", "sapo-sr", "empg"])
@pytest.mark.parametrize("sequence", ["turn", "trajectory"])
def test_gradients_in_either_layout_do_not_depend_on_the_split(world, spec, sequence):
    for recipe, batch, _ in both_layouts(world, sequence, spec):
        move(world.model)
        algorithm = get_algorithm(spec)
        index = torch.cat(minibatches(batch.row_episode, 1, 0))
        totals = denominators(batch.rows.mask, batch.weight, batch.sequence)
        found = []
        for size in (1000, 1, 3):
            world.model.zero_grad()
            for micro in micro_batches(batch, index, size):
                loss, _ = forward(world.model, batch, micro, totals, algorithm, recipe)
                (loss.policy + loss.extra).backward()
            found.append(torch.cat([p.grad.flatten() for p in world.model.parameters()]))
        assert found[0].norm() > 1e-4
        for other in found[1:]:
            assert (other - found[0]).norm() <= 1e-5 * max(1.0, float(found[0].norm()))


@pytest.mark.parametrize("layout", ["turn", "trajectory"])
def test_a_sequence_may_be_an_episode(world, layout):
    recipe, batch, _ = both_layouts(world, "trajectory", "gspo")[layout == "trajectory"]
    move(world.model)
    index = torch.arange(len(batch))
    totals = denominators(batch.rows.mask, batch.weight, batch.sequence)
    assert totals.sequences == 8 and totals.turns == len(batch.turn)
    algorithm = get_algorithm("gspo:clip_low=0.99:clip_high=99")
    _, tokens = forward(world.model, batch, index, totals, algorithm, recipe)
    episode = batch.episode[batch.rows.turn[tokens.row, tokens.position]]
    for one in episode.unique():
        own = tokens.log_ratio[episode == one]
        assert torch.allclose(tokens.ratio_applied[episode == one], own.mean().exp(), atol=1e-5)

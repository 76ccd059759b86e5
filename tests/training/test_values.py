"""The critic and the shared value in training: what they read, what they are fitted to, and that both learn."""

import math
from dataclasses import replace

import pytest
import torch

from arena.algorithms.aggregation import denominators
from arena.algorithms.catalog import get_algorithm
from arena.policy.scoring import Rows
from arena.training.batch import build_batch
from arena.training.cell import generate
from arena.training.update import forward, optimise
from arena.training.values import CriticModel, ValueBatch
from tests.training.conftest import tiny

PROMPTS = [[5, 6, 7], [5, 6, 7], [9, 8]]
RESPONSES = [[10, 11, 12], [13], [10, 9, 8, 7]]
ROWS = Rows.of(PROMPTS, RESPONSES, 0)


def make_critic(world, tokens=True) -> CriticModel:
    """A critic whose head is not zero any more."""
    critic = CriticModel(world.model, get_algorithm("ppo").value, tiny().optim, per_token=tokens)
    torch.nn.init.normal_(critic.head.weight, generator=torch.Generator().manual_seed(0))
    return critic


def make_batch(world, spec, critic=None, scale=2.0, **changes):
    recipe = tiny(spec, **changes)
    groups = generate(1, get_algorithm(spec), recipe, world.roller, world.model)
    return recipe, build_batch(
        groups, world.model, world.reference, get_algorithm(spec), recipe, world.codec.pad_id, scale, critic
    )


def naive_state(world, model, ids):
    with torch.no_grad():
        return model.model(torch.tensor([ids])).last_hidden_state[0, -1]


def test_a_critic_begins_at_zero_and_is_a_model_of_its_own(world):
    critic = CriticModel.of(get_algorithm("ppo"), world.model, tiny().optim)
    assert critic is not None
    assert critic.old_values(ROWS).abs().max() == 0
    before = world.model.model.norm.weight.clone()
    with torch.no_grad():
        critic.backbone.model.norm.weight.add_(1)
    assert torch.equal(world.model.model.norm.weight, before)


def test_the_critic_reads_the_state_before_each_token(world):
    values = make_critic(world).old_values(ROWS)
    head = make_critic(world).head
    for row, (prompt, response) in enumerate(zip(PROMPTS, RESPONSES, strict=True)):
        for t in range(len(response)):
            state = naive_state(world, world.model, [*prompt, *response[:t]])
            assert values[row, t].item() == pytest.approx(head(state).item(), abs=1e-5)


def test_the_critic_on_turns_reads_the_prompt_alone(world):
    by_turn = make_critic(world, tokens=False).old_values(ROWS)
    assert by_turn[:, 1:].abs().max() == 0
    assert torch.allclose(by_turn[:, 0], make_critic(world).old_values(ROWS)[:, 0], atol=1e-5)


def test_shared_values_are_the_reserved_logits_before_and_after_the_response(world):
    weight = world.model.get_output_embeddings().weight
    with torch.no_grad():
        weight[-2:] = torch.randn(2, weight.shape[1], generator=torch.Generator().manual_seed(1))
    _, batch = make_batch(world, "sapo-sr:tau=2")
    assert batch.value is not None
    rows = batch.rows
    for row in (0, len(rows) - 1):
        prompt = rows.prompt_ids[rows.prompt[row], : rows.prompt_length[rows.prompt[row]]].tolist()
        response = rows.response_ids[row][rows.mask[row]].tolist()
        for column, ids in enumerate((prompt, prompt + response)):
            logits = weight.detach() @ naive_state(world, world.model, ids)
            assert batch.value.old[row, column].item() == pytest.approx(
                (logits[-2] - logits[-1]).item() / 2, abs=1e-4
            )


def test_targets_of_shared_values_by_the_formulas(world):
    weight = world.model.get_output_embeddings().weight
    with torch.no_grad():
        weight[-2:] = torch.randn(2, weight.shape[1], generator=torch.Generator().manual_seed(1))
    recipe, batch = make_batch(world, "sapo-sr", scale=2.0)
    value, gamma, lam = batch.value, 0.95, 0.95
    assert value is not None and len(set(batch.group.tolist())) == 8  # one episode a task
    groups = generate(1, get_algorithm("sapo-sr"), recipe, world.roller, world.model)
    reward = [turn.reward for group in groups for turn in group.episodes[0].turns]
    for i, (episode, turn) in enumerate(zip(batch.episode.tolist(), batch.turn.tolist(), strict=True)):
        after = [j for j in range(len(batch)) if batch.episode[j] == episode and batch.turn[j].item() >= turn]
        following = [(2 * value.old[j, 0].item(), 2 * value.old[j, 1].item()) for j in after[1:]] + [
            (0.0, 0.0)
        ]
        deltas = [
            reward[j] + gamma * v - 2 * value.old[j, 0].item()
            for j, (v, _) in zip(after, following, strict=True)
        ]
        gae = sum((gamma * lam) ** k * delta for k, delta in enumerate(deltas))
        assert value.target[i, 0].item() == pytest.approx(value.old[i, 0].item() + gae / 2, abs=1e-5)
        q = (reward[i] + gamma * following[0][1]) / 2
        assert value.target[i, 1].item() == pytest.approx(q, abs=1e-5)


# A turn's value sees its prompt alone: how episodes end that look alike there, nothing explains.
@pytest.mark.parametrize(("spec", "share"), [("ppo", 0.2), ("ppo-turn", 0.1)])
def test_the_critic_explains_more_after_fitting(world, spec, share):
    spec = f"{spec}:learning_rate=0.01:value_clip=10"
    critic = CriticModel.of(get_algorithm(spec), world.model, tiny().optim)
    _, batch = make_batch(world, spec, critic)
    assert batch.value is not None and critic is not None
    everything = torch.arange(len(batch))
    losses = [critic.fit(batch.rows, batch.value, everything, 1.0) for _ in range(150)]
    assert losses[-1] < 0.5 * losses[0]
    fitted = replace(batch.value, old=critic.old_values(batch.rows))
    assert batch.value.explained == pytest.approx(0.0, abs=1e-6)  # a head of zeros
    assert fitted.explained > share


def test_the_shared_value_loss_adds_up_over_micro_batches(world):
    weight = world.model.get_output_embeddings().weight
    with torch.no_grad():
        weight[-2:] = torch.randn(2, weight.shape[1], generator=torch.Generator().manual_seed(1))
    spec = "sapo-sr:value_coef=0.7:q_coef=0.3:entropy_coef=0.01"
    recipe, batch = make_batch(world, spec)
    totals = denominators(batch.rows.mask, batch.weight)

    def gradient(parts):
        world.model.zero_grad()
        for part in parts:
            loss, _ = forward(world.model, batch, part, totals, get_algorithm(spec), recipe)
            (loss.policy + loss.extra).backward()
        return torch.cat([p.grad.flatten() for p in world.model.parameters()])

    everything = torch.arange(len(batch))
    whole = gradient([everything])
    split = gradient(batch.rows.batches(everything, 3))
    assert torch.allclose(whole, split, atol=1e-5 * float(whole.abs().max()))
    assert gradient([everything]).view(-1).abs().max() > 0
    world.model.zero_grad()
    loss, _ = forward(world.model, batch, everything, totals, get_algorithm(spec), recipe)
    assert batch.value is not None
    # In the first mini-batch values are the old ones: the loss is half the squared error.
    error = 0.5 * (batch.value.target - batch.value.old) ** 2
    entropy = batch.old.entropy[batch.rows.mask].mean()
    expected = 0.7 * error[:, 0].mean() + 0.3 * error[:, 1].mean() - 0.01 * entropy
    assert loss.extra.item() == pytest.approx(expected.item(), abs=1e-5)
    assert loss.value_loss == pytest.approx(error[:, 0].mean().item(), abs=1e-5)


def test_only_the_shared_value_moves_the_reserved_entries(world):
    weight = world.model.get_output_embeddings().weight
    for spec, moves in (("grpo", False), ("sapo-sr", True)):
        recipe, batch = make_batch(world, spec)
        optimizer = torch.optim.AdamW(world.model.parameters(), lr=1e-3, weight_decay=0.0)
        result = optimise(world.model, optimizer, batch, get_algorithm(spec), recipe, 1)
        assert bool(weight[-2:].abs().max() > 0) is moves
        assert len(result.value_loss) == (2 if moves else 0)


def test_explained_is_of_v_alone_and_unknown_without_variance():
    generator = torch.Generator().manual_seed(0)
    noise = torch.randn(50, 2, generator=generator)
    old = torch.tensor([[0.2, 0.8]]).expand(50, 2)
    shared = ValueBatch(old, old + noise, torch.ones(50, 2, dtype=torch.bool), old[:, 0], shared=True)
    assert shared.explained == pytest.approx(0.0, abs=1e-6)
    assert replace(shared, target=old).explained is None


@pytest.mark.parametrize("spec", ["ppo", "ppo-turn"])
def test_the_critics_gradient_does_not_depend_on_the_split(world, spec):
    moved = []
    for size in (64, 3):
        recipe = tiny(optim={"micro_rows": size})
        critic = CriticModel.of(get_algorithm(spec), world.model, recipe.optim)
        assert critic is not None
        torch.nn.init.normal_(critic.head.weight, generator=torch.Generator().manual_seed(0))
        _, batch = make_batch(world, spec, critic)
        critic.optimizer = torch.optim.SGD(critic.parameters(), lr=1.0)
        critic.config = replace(critic.config, learning_rate=1.0)
        assert batch.value is not None
        critic.fit(batch.rows, batch.value, torch.arange(len(batch)), 1.0)
        moved.append(torch.cat([p.detach().flatten() for p in critic.parameters()]))
    assert torch.allclose(moved[0], moved[1], atol=1e-5)


def test_a_critic_whose_gradient_is_not_finite_stays(world):
    critic = CriticModel.of(get_algorithm("ppo"), world.model, tiny().optim)
    assert critic is not None
    _, batch = make_batch(world, "ppo", critic)
    assert batch.value is not None
    broken = replace(batch.value, target=torch.full_like(batch.value.target, torch.inf))
    before = [p.clone() for p in critic.parameters()]
    assert math.isnan(critic.fit(batch.rows, broken, torch.arange(len(batch)), 1.0))
    assert all(torch.equal(a, b) for a, b in zip(before, critic.parameters(), strict=True))

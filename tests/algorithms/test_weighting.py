"""ActFocus: weights by hand, statistics over the right tokens, and the weighted mean they enter."""

import pytest
import torch

from arena.algorithms.catalog import get_algorithm
from arena.algorithms.loss import LossInputs, policy_loss, token_weights
from arena.algorithms.weighting import ActFocus, EnergyStatistics, energy_statistics

#: sigmoid(1) and sigmoid(-1)
UP, DOWN = 0.7310586, 0.2689414

ACTION = torch.tensor([[False, True, True], [False, False, True]])
ENERGY = torch.tensor([[-7.0, -2.0, -4.0], [-9.0, -8.0, 26.0]])
MASK = torch.tensor([[True, True, True], [True, True, False]])


def inputs(**given) -> LossInputs:
    """A batch whose ratio is 1, so that the surrogate is the advantage."""
    base = {
        "logprob": torch.full((2, 3), -1.0, requires_grad=True),
        "old_logprob": torch.full((2, 3), -1.0),
        "advantage": torch.tensor([[1.0, 1.0, 1.0], [-2.0, -2.0, 26.0]]),
        "mask": MASK,
        "role": 1 + ACTION.long(),
        "energy": ENERGY,
    }
    return LossInputs(**{**base, **given})


def test_statistics_are_of_action_tokens_under_the_mask():
    # Energies -2 and -4: mean -3, standard deviation 1. The action flag under padding does not count.
    assert energy_statistics(ENERGY, ACTION, MASK) == EnergyStatistics(-3.0, 1.0)
    hidden = torch.where(MASK, ENERGY, torch.nan)
    assert energy_statistics(hidden, ACTION, MASK) == EnergyStatistics(-3.0, 1.0)


def test_statistics_without_an_action_token():
    assert energy_statistics(ENERGY, torch.zeros_like(ACTION), MASK) == EnergyStatistics(0.0, 1.0)


def test_weights_by_hand():
    energy = ENERGY.clone().requires_grad_()
    weights = ActFocus()(ACTION, energy, EnergyStatistics(-3.0, 1.0))
    assert weights[0].tolist() == pytest.approx([0.1, 1 + 0.5 * UP, 1 + 0.5 * DOWN], abs=1e-6)
    assert weights[1, :2].tolist() == pytest.approx([0.1, 0.1])
    assert not weights.requires_grad
    # Uncertain (high) energies weigh more.
    assert weights[0, 1] > weights[0, 2]


def test_parameters():
    weights = ActFocus(alpha=0.3, beta=2.0)(ACTION, ENERGY, EnergyStatistics(-3.0, 1.0))
    assert weights[0].tolist() == pytest.approx([0.3, 1 + 2 * UP, 1 + 2 * DOWN], abs=1e-6)


def test_equal_energies_give_the_middle():
    energy = torch.full((2, 3), -5.0)
    statistics = energy_statistics(energy, ACTION, MASK)
    assert statistics == EnergyStatistics(-5.0, 0.0)
    assert ActFocus()(ACTION, energy, statistics)[0].tolist() == pytest.approx([0.1, 1.25, 1.25])


def test_loss_is_the_weighted_sum_over_the_sum_of_weights():
    given = inputs()
    out = policy_loss(given, get_algorithm("actfocus"))
    up, down = 1 + 0.5 * UP, 1 + 0.5 * DOWN
    total = 0.1 + up + down + 0.1 + 0.1
    assert total == pytest.approx(2.8)
    assert out.loss.item() == pytest.approx(-(0.1 + up + down - 2 * 0.1 - 2 * 0.1) / total)
    out.loss.backward()
    expected = [[-0.1 / total, -up / total, -down / total], [0.2 / total, 0.2 / total, 0.0]]
    for row, values in zip(given.logprob.grad, expected, strict=True):
        assert row.tolist() == pytest.approx(values)
    assert out.weight[1, 2] == 0.0


def test_statistics_of_the_rollout_batch_replace_those_of_the_micro_batch():
    given = inputs(energy_statistics=EnergyStatistics(-2.0, 2.0))
    weights = token_weights(given, get_algorithm("actfocus"))
    assert weights[0].tolist() == pytest.approx([0.1, 1.25, 1 + 0.5 * DOWN], abs=1e-5)


def test_given_weights_are_used_as_they_are():
    weight = torch.tensor([[1.0, 3.0, 0.0], [2.0, 0.0, 26.0]])
    out = policy_loss(inputs(weight=weight), get_algorithm("actfocus"))
    assert out.loss.item() == pytest.approx(-(1 + 3 - 4) / 6)


def test_zero_total_weight_gives_a_zero_loss_and_gradient():
    given = inputs(role=torch.ones_like(ACTION, dtype=torch.long))
    out = policy_loss(given, get_algorithm("actfocus:alpha=0"))
    out.loss.backward()
    assert out.loss.item() == 0.0
    assert given.logprob.grad.abs().max() == 0.0


@pytest.mark.parametrize("missing", ["role", "energy"])
def test_weighting_without_its_inputs_is_refused(missing):
    message = r"^'actfocus' weights tokens: LossInputs needs role and energy, or weight$"
    with pytest.raises(ValueError, match=message):
        policy_loss(inputs(**{missing: None}), get_algorithm("actfocus"))


def test_methods_without_weighting_weigh_every_token_one():
    assert token_weights(inputs(), get_algorithm("gspo")).tolist() == inputs().mask.float().tolist()

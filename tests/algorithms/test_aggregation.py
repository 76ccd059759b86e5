"""Token mean and sequence mean part on uneven lengths, and neither sees padding."""

import pytest
import torch

from arena.algorithms import LossInputs, get_algorithm, policy_loss
from arena.algorithms.aggregation import Denominators, FixedLength, SequenceMean, TokenMean, denominators
from arena.algorithms.units import Units

#: One token of 10, and five tokens of 2.
VALUES = torch.tensor([[10.0, 26.0, 26.0, 26.0, 26.0], [2.0, 2.0, 2.0, 2.0, 2.0]])
MASK = torch.tensor([[True, False, False, False, False], [True, True, True, True, True]])
ONES = torch.ones_like(VALUES)


def aggregate(rule, values, weight, mask, sequence_id=None):
    totals = denominators(mask, weight, sequence_id)
    return rule(values, weight, Units.of(sequence_id, mask), totals.weight, totals.sequences)


def test_uneven_lengths():
    assert float(aggregate(TokenMean(), VALUES, ONES, MASK)) == pytest.approx(20 / 6)  # 3.33
    assert float(aggregate(SequenceMean(), VALUES, ONES, MASK)) == pytest.approx(6.0)
    assert float(aggregate(FixedLength(10), VALUES, ONES, MASK)) == pytest.approx(20 / (2 * 10))


def test_fixed_length_gives_every_token_the_same_share_and_sees_no_padding():
    values = torch.where(MASK, VALUES, torch.nan).requires_grad_()
    loss = aggregate(FixedLength(4), values, ONES, MASK)
    (gradient,) = torch.autograd.grad(loss, values)
    assert torch.allclose(gradient, MASK / 8)


def test_a_fixed_length_that_is_not_given_is_asked_for():
    inputs = LossInputs(ONES, ONES, ONES, MASK)
    with pytest.raises(ValueError, match=r"the length is 0, .*'dr-grpo:length=48'"):
        policy_loss(inputs, get_algorithm("dr-grpo"))
    loss = policy_loss(inputs, get_algorithm("dr-grpo:length=3")).loss
    assert float(loss) == pytest.approx(-6 / (2 * 3))  # six tokens, two sequences
    with pytest.raises(ValueError, match="must not be negative"):
        FixedLength(-1)


@pytest.mark.parametrize("rule", [TokenMean(), SequenceMean()])
@pytest.mark.parametrize("garbage", [26.0, torch.nan, torch.inf])
def test_padding_carries_garbage(rule, garbage):
    values = torch.where(MASK, 1.0, garbage)
    assert float(aggregate(rule, values, ONES, MASK)) == 1.0


def test_weighted_means_by_hand():
    values = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 26.0]])
    weight = torch.tensor([[1.0, 0.5, 0.5], [0.25, 0.75, 9.0]])
    mask = torch.tensor([[True, True, True], [True, True, False]])
    # Token: (1 + 1 + 1.5 + 1 + 3.75) / (1 + .5 + .5 + .25 + .75); sequence: (3.5 / 2 + 4.75 / 1) / 2.
    assert float(aggregate(TokenMean(), values, weight, mask)) == pytest.approx(8.25 / 3)
    assert float(aggregate(SequenceMean(), values, weight, mask)) == pytest.approx(3.25)


def test_gradients_by_hand():
    values = VALUES.clone().requires_grad_()
    aggregate(TokenMean(), values, ONES, MASK).backward()
    assert torch.allclose(values.grad, MASK / 6)
    values.grad = None
    aggregate(SequenceMean(), values, ONES, MASK).backward()
    expected = torch.tensor([[0.5, 0.0, 0.0, 0.0, 0.0], [0.1] * 5])
    assert torch.allclose(values.grad, expected)


def test_denominators_count_tokens_weights_and_non_empty_sequences():
    mask = torch.tensor([[True, True], [True, False], [False, False]])
    weight = torch.tensor([[0.5, 1.5], [0.25, 26.0], [26.0, torch.nan]])
    assert denominators(mask, weight) == Denominators(weight=2.25, tokens=3.0, sequences=2.0, turns=2.0)
    # Tokens of the first column and the others: the sequence of padding alone does not count.
    ids = torch.tensor([[0, 1], [0, 1], [5, 5]])
    assert denominators(mask, weight, ids) == Denominators(weight=2.25, tokens=3.0, sequences=2.0, turns=2.0)


@pytest.mark.parametrize("rule", [TokenMean(), SequenceMean()])
def test_zero_total_weight_gives_zero_and_a_zero_gradient(rule):
    values = VALUES.clone().requires_grad_()
    loss = aggregate(rule, values, torch.zeros_like(ONES), MASK)
    loss.backward()
    assert loss.item() == 0.0
    assert values.grad.abs().max() == 0.0


@pytest.mark.parametrize("rule", [TokenMean(), SequenceMean()])
def test_micro_batches_sum_to_the_whole(rule):
    weight = torch.tensor([[0.5] * 5, [1.0, 2.0, 3.0, 4.0, 5.0]])
    totals = denominators(MASK, weight)
    whole = rule(VALUES, weight, Units.of(None, MASK), totals.weight, totals.sequences)
    parts = [
        rule(VALUES[i], weight[i], Units.of(None, MASK[i]), totals.weight, totals.sequences)
        for i in (slice(0, 1), slice(1, 2))
    ]
    assert float(parts[0] + parts[1]) == pytest.approx(float(whole))
    # Each part alone, divided by its own count, would give another sum.
    alone = sum(float(aggregate(rule, VALUES[i], weight[i], MASK[i])) for i in (slice(0, 1), slice(1, 2)))
    assert alone != pytest.approx(float(whole))

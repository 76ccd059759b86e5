"""A sequence is dropped when its advantage is negative and the policy has moved away from it."""

from statistics import mean

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from arena.algorithms.catalog import get_algorithm
from arena.algorithms.loss import LossInputs, policy_loss
from arena.algorithms.masking import SequenceMask
from arena.algorithms.units import Units


@pytest.mark.parametrize(
    ("log_ratio", "advantage", "dropped"),
    [
        ([-0.006, -0.002], -1.0, True),  # mean log(old/new) 0.004 > 0.003
        ([-0.006, -0.002], 1.0, False),
        ([-0.006, -0.002], 0.0, False),
        ([-0.004, 0.0], -1.0, False),  # 0.002
        ([0.5, 0.5], -1.0, False),
        ([-1.0, 0.9], -1.0, True),  # 0.05, although one token has grown
    ],
)
def test_by_hand(log_ratio, advantage, dropped):
    ratios, mask = torch.tensor([log_ratio]), torch.ones(1, 2, dtype=torch.bool)
    got = SequenceMask()(ratios, torch.full((1, 2), advantage), Units.of(None, mask))
    assert got.tolist() == [[dropped, dropped]]


@settings(deadline=None, max_examples=100)
@given(
    st.lists(st.tuples(st.lists(st.integers(-8, 8), min_size=1, max_size=4), st.integers(-1, 1)), min_size=1),
    *[st.sampled_from([0.0, 0.003, 0.1, 0.223, 1.0])] * 2,
)
def test_a_larger_delta_drops_a_subset(sequences, one, other):
    """And each drops the sequences of negative advantage whose mean log(old/new) is above it."""
    small, large = sorted((one, other))
    mask = torch.tensor([[t < len(ratios) for t in range(4)] for ratios, _ in sequences])
    log_ratio = torch.zeros(mask.shape, dtype=torch.float64)
    log_ratio[mask] = torch.tensor([n / 8 for ratios, _ in sequences for n in ratios], dtype=torch.float64)
    advantage = torch.tensor([[a] for _, a in sequences], dtype=torch.float64).expand(mask.shape)
    dropped = {
        delta: SequenceMask(delta)(log_ratio, advantage, Units.of(None, mask)) for delta in (small, large)
    }
    assert not (dropped[large] & ~dropped[small]).any()
    for delta, got in dropped.items():
        expected = [a < 0 and -mean(n / 8 for n in ratios) > delta for ratios, a in sequences]
        assert torch.equal(got, torch.tensor(expected)[:, None] & mask)


def test_padding_is_neither_averaged_nor_dropped():
    mask = torch.tensor([[True, False], [True, False]])
    log_ratio = torch.tensor([[-0.01, 9.0], [0.0, -9.0]])
    got = SequenceMask()(log_ratio, torch.full((2, 2), -1.0), Units.of(None, mask))
    assert got.tolist() == [[True, False], [False, False]]


def test_a_sequence_over_two_rows_is_dropped_whole():
    mask, ids = torch.ones(2, 2, dtype=torch.bool), torch.tensor([[0, 1], [0, 1]])
    log_ratio = torch.tensor([[-0.02, 0.5], [0.01, 0.5]])
    got = SequenceMask()(log_ratio, torch.full((2, 2), -1.0), Units.of(ids, mask))
    assert got.tolist() == [[True, False], [True, False]]


def test_a_dropped_sequence_loses_its_gradient_and_still_counts_in_the_mean():
    logprob = torch.tensor([[-1.1, -1.1], [-1.0, -1.0]], requires_grad=True)
    out = policy_loss(
        LossInputs(
            logprob=logprob,
            old_logprob=torch.full((2, 2), -1.0),
            advantage=torch.tensor([[-1.0, -1.0], [2.0, 2.0]]),
            mask=torch.ones(2, 2, dtype=torch.bool),
        ),
        get_algorithm("grpo+seqmask"),
    )
    out.loss.backward()
    assert out.masked.tolist() == [[True, True], [False, False]]
    # (0 + 0 + 2 + 2) / 4 tokens.
    assert out.loss.item() == pytest.approx(-1.0)
    assert logprob.grad.tolist() == [[0.0, 0.0], [-0.5, -0.5]]

"""Sums and means over sequences that are rows, parts of rows, or several rows."""

import pytest
import torch

from arena.algorithms.units import Units

MASK = torch.tensor([[True, True, True], [True, True, False]])
VALUES = torch.tensor([[1.0, 2.0, 3.0], [10.0, 20.0, 26.0]])


def test_without_ids_every_row_is_a_sequence():
    units = Units.of(None, MASK)
    assert units.count == 2
    assert units.sum(VALUES).tolist() == [6.0, 30.0]
    assert units.mean(VALUES).tolist() == [2.0, 15.0]
    assert units.spread(torch.tensor([7.0, 8.0])).tolist() == [[7.0] * 3, [8.0] * 3]


def test_ids_are_arbitrary_and_a_sequence_may_span_rows():
    # Sequence 40 is the first token of each row, sequence -3 the rest.
    ids = torch.tensor([[40, -3, -3], [40, -3, -3]])
    units = Units.of(ids, MASK)
    assert units.sum(VALUES).tolist() == [25.0, 11.0]
    assert units.mean(VALUES).tolist() == pytest.approx([25 / 3, 5.5])
    assert units.spread(units.sum(VALUES)).tolist() == [[11.0, 25.0, 25.0], [11.0, 25.0, 25.0]]


def test_a_sequence_without_tokens_has_sum_and_mean_zero():
    mask = torch.tensor([[True, True], [False, False]])
    units = Units.of(None, mask)
    assert units.sum(torch.full((2, 2), 26.0)).tolist() == [52.0, 0.0]
    assert units.mean(torch.full((2, 2), 26.0)).tolist() == [26.0, 0.0]


def test_values_outside_the_mask_never_enter():
    values = torch.where(MASK, VALUES, torch.nan)
    assert Units.of(None, MASK).mean(values).tolist() == [2.0, 15.0]

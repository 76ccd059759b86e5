"""PPO's clipped value loss against hand-worked numbers."""

import pytest
import torch

from arena.algorithms.values import SharedValue, clipped_value_loss


def test_clipped_value_loss_by_hand():
    # Moved by 0.1, within the clip; by 0.5 towards the target, of which 0.2 counts; by 0.5 away from it; masked.
    value = torch.tensor([1.1, 1.5, 0.5, torch.nan], requires_grad=True)
    old = torch.tensor([1.0, 1.0, 1.0, torch.inf])
    target = torch.tensor([2.0, 2.0, 2.0, 0.0])
    mask = torch.tensor([True, True, True, False])
    loss = clipped_value_loss(value, old, target, mask, 0.2)
    assert loss.tolist() == pytest.approx([0.5 * 0.9**2, 0.5 * 0.8**2, 0.5 * 1.5**2, 0.0])
    loss.sum().backward()
    # The clip holds back a value that moved enough towards its target, never one that moved away.
    assert value.grad is not None and value.grad.tolist() == pytest.approx([-0.9, 0.0, -1.5, 0.0])


def test_tau_must_be_positive():
    with pytest.raises(ValueError, match="tau must be positive"):
        SharedValue(tau=0.0)

"""PPO's numbers against verl's: GAE along tokens and turns, its returns, and the clipped value loss."""

from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from arena.algorithms.advantages import TokenGAE, TurnRewards, gae_advantage, turn_gae_advantage
from arena.algorithms.values import clipped_value_loss

#: Relative and absolute, in float64. Whitening has an epsilon of its own on each side, compared further down.
ROUNDING = 1e-12
DISCOUNTS = [(1.0, 1.0), (1.0, 0.95), (0.95, 0.95), (0.9, 0.0), (0.0, 0.5)]


@dataclass(frozen=True)
class Trajectories:
    """Rewards and values [rows, tokens], which tokens were sampled, and each token's turn (-1 elsewhere)."""

    rewards: Tensor
    values: Tensor
    mask: Tensor
    turn: Tensor


def trajectories(shape: list[str]) -> Trajectories:
    """A row for each string of turn numbers; what is no number is an observation or padding.

    Every column has a value and a reward, those that nothing may read too.
    """
    generator = torch.Generator().manual_seed(7)
    turn = torch.tensor([[int(c) if c.isdigit() else -1 for c in row] for row in shape])
    rewards, values = torch.randn(2, *turn.shape, generator=generator, dtype=torch.float64)
    return Trajectories(rewards, values, turn >= 0, turn)


#: Sequences padded on the right, and episodes of up to four turns with observations between them.
SINGLE_TURN = trajectories(["0000000", "0......", "0000...", "00....."])
MULTI_TURN = trajectories(["000..11.2..33", "0....1111....", "..00.1.22....", "000.........."])

#: Of its 16 turns, some without a token.
ORDER = torch.randperm(16, generator=torch.Generator().manual_seed(3))


def theirs(verl, batch: Trajectories, gamma: float, lam: float) -> tuple[Tensor, Tensor]:
    """verl's whitened advantages and its returns."""
    return verl.compute_gae_advantage_return(batch.rewards, batch.values, batch.mask.double(), gamma, lam)


def whiten(values: Tensor, mask: Tensor) -> Tensor:
    """By verl's own function, so that what is compared is GAE."""
    from verl.utils.torch_functional import masked_whiten

    return masked_whiten(values, mask.double())


@pytest.mark.parametrize(("gamma", "lam"), DISCOUNTS)
@pytest.mark.parametrize("batch", [SINGLE_TURN, MULTI_TURN], ids=["single-turn", "multi-turn"])
def test_token_gae_agrees(verl, batch, gamma, lam):
    """Both skip observations: the value after a turn's last token is that of the next turn's first."""
    mask = batch.mask
    advantage, returns = gae_advantage(batch.rewards, batch.values, mask, gamma=gamma, lam=lam)
    whitened, their_returns = theirs(verl, batch, gamma, lam)
    torch.testing.assert_close(returns[mask], their_returns[mask], rtol=ROUNDING, atol=ROUNDING)
    ours = whiten(advantage, mask)[mask]
    torch.testing.assert_close(ours, whitened[mask], rtol=ROUNDING, atol=ROUNDING)
    assert (advantage[~mask] == 0).all()


@pytest.mark.parametrize(("gamma", "lam"), DISCOUNTS)
def test_token_gae_agrees_where_a_row_is_a_turn(verl, gamma, lam):
    """verl given trajectories, Arena the same tokens as one row per turn, shuffled: the same advantages."""
    batch = MULTI_TURN
    episode, turn = torch.tensor([(e, t) for e in range(4) for t in range(4)])[ORDER].T
    mask = batch.turn[episode] == turn[:, None]
    filled = mask.any(1)
    episode, turn, mask = episode[filled], turn[filled], mask[filled]
    assert mask.sum() == batch.mask.sum()
    advantage, returns = gae_advantage(
        batch.rewards[episode],
        batch.values[episode],
        mask,
        episode=episode,
        turn=turn,
        gamma=gamma,
        lam=lam,
    )

    def together(rows: Tensor) -> Tensor:
        return torch.zeros_like(batch.rewards).index_add(0, episode, rows)[batch.mask]

    whitened, their_returns = theirs(verl, batch, gamma, lam)
    torch.testing.assert_close(together(returns), their_returns[batch.mask], rtol=ROUNDING, atol=ROUNDING)
    ours = whiten(together(advantage), torch.ones(int(batch.mask.sum())))
    torch.testing.assert_close(ours, whitened[batch.mask], rtol=ROUNDING, atol=ROUNDING)


def test_the_rule_of_ppo_agrees(verl):
    """Whitened by Arena. Rewards are on each turn's last token and spread by thousands, where no epsilon shows."""
    batch = MULTI_TURN
    turns = [(e, t) for e in range(4) for t in range(4) if (batch.turn[e] == t).any()]
    episode, turn = torch.tensor(turns).T
    last = [int((batch.turn[e] == t).nonzero()[-1]) for e, t in turns]
    rewards = torch.zeros_like(batch.rewards)
    rewards[episode, last] = 1000 * batch.rewards[episode, last]
    values = 1000 * batch.values
    given = TurnRewards(
        episode,
        torch.zeros_like(episode),
        turn,
        rewards[episode, last],
        torch.zeros(len(turns)),
        turn,
        tokens=torch.tensor([int((batch.turn[e] == t).sum()) for e, t in turns]),
        token_value=values[batch.mask],
    )
    ours = TokenGAE(gamma=0.95, lam=0.9)(given)
    spread = Trajectories(rewards, values, batch.mask, batch.turn)
    whitened, returns = theirs(verl, spread, 0.95, 0.9)
    torch.testing.assert_close(ours.token, whitened[batch.mask], rtol=1e-8, atol=1e-8)
    torch.testing.assert_close(ours.target, returns[batch.mask], rtol=ROUNDING, atol=ROUNDING)


@pytest.mark.parametrize(("gamma", "lam"), DISCOUNTS)
def test_turn_gae_agrees_with_verls_estimator_on_a_column_per_turn(verl, gamma, lam):
    """verl has no GAE on turns; its estimator is one when a turn is a column with the reward of all its tokens and
    the value before its first."""
    batch = MULTI_TURN
    of_turn = [batch.turn == t for t in range(4)]
    reward = torch.stack([torch.where(chosen, batch.rewards, 0.0).sum(1) for chosen in of_turn], 1)
    first = torch.stack([chosen.int().argmax(1) for chosen in of_turn], 1)
    turns = torch.stack([chosen.any(1) for chosen in of_turn], 1)
    by_turn = Trajectories(reward, batch.values.gather(1, first), turns, torch.arange(4).expand(4, 4))
    whitened, their_returns = theirs(verl, by_turn, gamma, lam)
    advantage, returns = turn_gae_advantage(
        batch.rewards,
        batch.values,
        batch.mask,
        episode=torch.arange(4),
        turn=batch.turn,
        gamma=gamma,
        lam=lam,
    )
    torch.testing.assert_close(
        returns.gather(1, first)[turns], their_returns[turns], rtol=ROUNDING, atol=ROUNDING
    )
    ours = whiten(advantage.gather(1, first), turns)[turns]
    torch.testing.assert_close(ours, whitened[turns], rtol=ROUNDING, atol=ROUNDING)


def value_batch() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Values that moved up to 0.9 from the old ones, the old ones, targets on both sides, and a mask."""
    generator = torch.Generator().manual_seed(5)
    old, target, move = torch.randn(3, 6, 7, generator=generator, dtype=torch.float64)
    mask = torch.arange(7)[None] < torch.tensor([7, 1, 4, 2, 6, 3])[:, None]
    return old + 0.4 * move.clamp(-2.2, 2.2), old, target, mask


@pytest.mark.parametrize("clip", [0.1, 0.2, 0.5])
def test_the_value_loss_agrees(verl, clip):
    """As the critic is fitted: summed over the tokens under the mask, divided by their number. Loss and gradient."""
    start, old, target, mask = value_batch()

    def ours(value: Tensor) -> Tensor:
        return clipped_value_loss(value, old, target, mask, clip).sum() / mask.sum()

    def other(value: Tensor) -> Tensor:
        return verl.compute_value_loss(value, target, old, mask.double(), clip)[0]

    (loss, gradient), (their_loss, their_gradient) = (
        (f(value), torch.autograd.grad(f(value), value)[0])
        for f in (ours, other)
        for value in [start.clone().requires_grad_()]
    )
    torch.testing.assert_close(loss, their_loss, rtol=ROUNDING, atol=ROUNDING)
    torch.testing.assert_close(gradient, their_gradient, rtol=ROUNDING, atol=ROUNDING)
    held = mask & ((start - old).abs() > clip) & (gradient == 0)
    assert 0 < held.sum() < mask.sum()


# Differences. Each test pins both numbers.


def test_whitening_has_another_epsilon(verl):
    """Advantages -1e-4, 0 and 1e-4, standard deviation 1e-4: Arena's rule divides by 1e-4 + 1e-6, verl by the root of
    1e-8 + 1e-8. PPO's paper has no whitening; the exact quotient is 1."""
    reward, rows = torch.tensor([-1e-4, 0.0, 1e-4], dtype=torch.float64), torch.arange(3)
    zero, one = torch.zeros_like(reward), torch.ones_like(rows)
    given = TurnRewards(rows, rows, 0 * rows, reward, zero, rows, tokens=one, value=zero, token_value=zero)
    assert TokenGAE()(given).total[2].item() == pytest.approx(1 / 1.01)
    batch = Trajectories(reward[:, None], zero[:, None], torch.ones(3, 1, dtype=torch.bool), one[:, None])
    assert theirs(verl, batch, 1.0, 1.0)[0][2].item() == pytest.approx(0.5**0.5)


def test_one_token_alone_is_whitened_to_zero(verl):
    """There is no spread to divide by: Arena gives 0, as for equal values; verl refuses."""
    one, row = torch.ones(1, dtype=torch.float64), torch.arange(1)
    given = TurnRewards(row, row, row, one, 0 * one, row, tokens=row + 1, value=0 * one, token_value=0 * one)
    assert TokenGAE()(given).total.tolist() == [0.0]
    batch = Trajectories(one[:, None], 0 * one[:, None], one[:, None] > 0, row[:, None])
    with pytest.raises(ValueError, match="The sum of the mask is one"):
        theirs(verl, batch, 1.0, 1.0)

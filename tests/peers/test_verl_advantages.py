"""Arena's advantage rules against verl's estimators, for single-turn episodes with their reward on the last token."""

import numpy as np
import pytest
import torch

from arena.algorithms.advantages import BatchNorm, GroupCentre, group_advantage, rloo_advantage
from tests.peers.ours import TOLERANCE, arena_advantage, rewards_at_the_end

#: Groups of 4, 3 and 2; in the last both returns are equal.
REWARD = [1.0, 0.0, 0.25, 2.0, -1.0, 3.0, 0.5, 1.0, 1.0]
GROUP = [4, 4, 4, 4, 0, 0, 0, 9, 9]
MASK = torch.arange(5)[None] < torch.tensor([5, 1, 3, 2, 4, 5, 1, 2, 3])[:, None]
#: Of float64, where both sides have the same formula and epsilon.
ROUNDING = 1e-12


def theirs(verl, name, reward, group, mask, dtype=torch.float64, **settings):
    """verl's advantage [rows, tokens], by its registry."""
    advantage, _ = verl.get_adv_estimator_fn(name)(
        token_level_rewards=rewards_at_the_end(reward, mask, dtype),
        response_mask=mask.to(dtype),
        index=np.array([f"task-{g}" for g in group]),
        **settings,
    )
    return advantage


def reinforce_plus_plus(verl, reward, mask, gamma=1.0):
    """verl's REINFORCE++ [rows, tokens], which reads gamma from a config."""
    config = verl.AlgoConfig(gamma=gamma)
    return theirs(verl, "reinforce_plus_plus", reward, range(len(reward)), mask, config=config)


@pytest.mark.parametrize(
    ("method", "name", "settings", "tolerance"),
    [
        (group_advantage, "grpo", {}, ROUNDING),
        (GroupCentre(), "grpo", {"norm_adv_by_std_in_grpo": False}, ROUNDING),
        (rloo_advantage, "rloo", {}, ROUNDING),
        (rloo_advantage, "rloo_vectorized", {}, ROUNDING),
        # This one computes in float32 whatever it is given.
        (group_advantage, "grpo_vectorized", {}, 1e-6),
    ],
)
def test_group_methods_agree(verl, method, name, settings, tolerance):
    ours = arena_advantage(method, REWARD, GROUP, MASK)
    other = theirs(verl, name, REWARD, GROUP, MASK, **settings)
    torch.testing.assert_close(ours, other.double(), rtol=tolerance, atol=tolerance)
    assert ours[:7, 0].count_nonzero() == 7


def test_reinforce_plus_plus_agrees(verl):
    """Whitened over the batch's tokens, Bessel-corrected. Returns are spread by 30, where no epsilon shows."""
    reward = [30.0 * r for r in REWARD]
    ours = arena_advantage(BatchNorm(), reward, GROUP, MASK)
    torch.testing.assert_close(ours, reinforce_plus_plus(verl, reward, MASK), rtol=TOLERANCE, atol=TOLERANCE)
    assert ours[MASK].mean().item() == pytest.approx(0, abs=1e-6)
    assert ours[MASK].std().item() == pytest.approx(1, abs=1e-6)


# Differences. Each test pins both numbers and says which side follows the paper.

ONE_TOKEN = torch.ones(3, 1, dtype=torch.bool)


@pytest.mark.parametrize(
    ("method", "name", "theirs_alone"),
    [
        (group_advantage, "grpo", 5 / (1 + 1e-6)),
        (group_advantage, "grpo_vectorized", 5 / (1 + 1e-6)),
        (rloo_advantage, "rloo", 5.0),
        (rloo_advantage, "rloo_vectorized", 0.0),
    ],
)
def test_a_group_of_one_has_no_advantage(verl, method, name, theirs_alone):
    """Return 5 in a group of its own beside a group of 0 and 2: a group's mean is the return itself, so its centred
    return is 0, as Arena; verl takes mean 0 and standard deviation 1 there and passes the return on, but for one of
    its two RLOOs. The papers have groups of at least two."""
    reward, group = [5.0, 0.0, 2.0], [0, 1, 1]
    assert arena_advantage(method, reward, group, ONE_TOKEN)[0].item() == 0.0
    assert theirs(verl, name, reward, group, ONE_TOKEN)[0].item() == pytest.approx(theirs_alone, abs=1e-6)


def test_equal_returns_have_no_advantage(verl):
    """Three returns of 0.9: the formula gives 0, as Arena; in float32, in which verl's trainer has rewards, their
    mean is off by its last bit, 6e-8, and the standard deviation as small: over 1e-6 more that is 0.056."""
    reward, group = [0.9] * 3, [0] * 3
    assert arena_advantage(group_advantage, reward, group, ONE_TOKEN).abs().max().item() == 0.0
    other = theirs(verl, "grpo", reward, group, ONE_TOKEN, torch.float32)
    assert other.abs().max().item() == pytest.approx(0.0555, abs=1e-3)


def test_whitening_has_another_epsilon(verl):
    """Returns -1e-4, 0 and 1e-4, standard deviation 1e-4: Arena divides by 1e-4 + 1e-6, verl by the root of
    1e-8 + 1e-8. REINFORCE++ names no epsilon; the exact quotient is 1."""
    reward = [-1e-4, 0.0, 1e-4]
    ours = arena_advantage(BatchNorm(), reward, [0] * 3, ONE_TOKEN)
    assert ours[2].item() == pytest.approx(1 / 1.01)
    assert reinforce_plus_plus(verl, reward, ONE_TOKEN)[2].item() == pytest.approx(0.5**0.5)


def test_gamma_counts_turns_and_not_tokens(verl):
    """A return of 1 after two tokens beside one of 0: at gamma 0.5 verl discounts from token to token, Arena from
    turn to turn, and here there is one turn. The paper has gamma 1, where both are the same."""
    reward, mask = [1.0, 0.0], torch.ones(2, 2, dtype=torch.bool)
    ours = arena_advantage(BatchNorm(gamma=0.5), reward, [0, 1], mask)
    std = (1 / 3) ** 0.5  # of 1, 1, 0, 0
    assert ours[0].tolist() == pytest.approx([0.5 / std] * 2, rel=1e-5)
    other = reinforce_plus_plus(verl, reward, mask, gamma=0.5)
    std = (((0.5 - 0.375) ** 2 + (1 - 0.375) ** 2 + 2 * 0.375**2) / 3) ** 0.5  # of 0.5, 1, 0, 0
    assert other[0].tolist() == pytest.approx([0.125 / std, 0.625 / std], rel=1e-5)
    same = reinforce_plus_plus(verl, reward, mask)
    assert same[0].tolist() == pytest.approx(ours[0].tolist(), rel=1e-5)


def test_rewards_outside_the_mask_are_nobodys(verl):
    """A reward of 1 on an observation after the one sampled token, beside a return of 0: Arena counts what lies on
    sampled tokens, so both returns are 0; verl's GRPO and RLOO sum over all columns (its GAE does not). The papers
    have no observations."""
    mask = torch.tensor([[True, False]] * 2)
    rewards = torch.tensor([[0.0, 1.0], [0.0, 0.0]], dtype=torch.float64)
    for method, name, other in ((group_advantage, "grpo", 0.5**0.5), (rloo_advantage, "rloo", 1.0)):
        assert method(rewards, mask, group=torch.zeros(2, dtype=torch.long)).tolist() == [[0.0, 0.0]] * 2
        advantage, _ = verl.get_adv_estimator_fn(name)(rewards, mask.double(), np.array(["task"] * 2))
        assert advantage[:, 0].tolist() == pytest.approx([other, -other], rel=1e-5)

"""What every advantage must satisfy on random episodes: scale rules, sums, bounds; and the shortest episodes by hand.

That neither the order of rows nor padding matters is part of test_against_naive.py, whose layouts vary both.
"""

from collections import Counter
from dataclasses import replace
from math import exp, nextafter

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from arena.algorithms.advantages import (
    EMPG,
    empg_advantage,
    gae_advantage,
    gigpo_advantage,
    group_advantage,
    rloo_advantage,
    turn_gae_advantage,
)
from arena.algorithms.normalise import leave_one_out, whitened
from tests.algorithms.layouts import batches, both, by_turn, turn_rewards
from tests.algorithms.naive import Episode, Turn

many = settings(deadline=None, max_examples=60)
seeds = st.integers(0, 99)


@many
@given(batches(), seeds, st.sampled_from([2.0, 8.0, 100.0]))
def test_scale_rules(episodes, seed, scale):
    """What is divided by a standard deviation does not see the scale of rewards, but for the 1e-6 beside it; what is
    not grows with it. Discount 1/2: equal returns to go stay equal, others are at least 0.01 apart."""
    x = by_turn(episodes, seed)
    larger = replace(x, rewards=scale * x.rewards, values=scale * x.values)

    def of(layout, compute):
        return torch.tensor(layout.flat(compute(layout)), dtype=torch.float64)

    for compute in (
        lambda y: group_advantage(y.rewards, y.mask, **y.groups),
        lambda y: gigpo_advantage(y.rewards, y.mask, group=y.group, **y.turns, anchor=y.anchor, gamma=0.5),
        lambda y: empg_advantage(y.rewards, y.entropy, y.mask, group=y.group, **y.turns),
    ):
        torch.testing.assert_close(of(larger, compute), of(x, compute), rtol=1e-3, atol=1e-3)
    for compute in (
        lambda y: rloo_advantage(y.rewards, y.mask, **y.groups),
        lambda y: gae_advantage(y.rewards, y.values, y.mask, **y.turns, gamma=0.9, lam=0.8)[0],
        lambda y: turn_gae_advantage(y.rewards, y.values, y.mask, **y.turns, gamma=0.9, lam=0.8)[1],
    ):
        torch.testing.assert_close(of(larger, compute), scale * of(x, compute), rtol=1e-9, atol=1e-9)


@many
@given(batches(), seeds, st.sampled_from([-3.0, 0.1, 50.0]))
def test_group_methods_do_not_see_what_all_episodes_earn(episodes, seed, offset):
    """A constant on every episode's return, on its first token, changes nothing."""
    raised = [replace_first_reward(episode, offset) for episode in episodes]
    for before, after in zip(both(episodes, seed), both(raised, seed), strict=True):
        for compute in (group_advantage, rloo_advantage):
            plain = before.flat(compute(before.rewards, before.mask, **before.groups))
            assert after.flat(compute(after.rewards, after.mask, **after.groups)) == pytest.approx(
                plain, rel=1e-9, abs=1e-9
            )


def replace_first_reward(episode: Episode, offset: float) -> Episode:
    """The episode, its first token worth `offset` more."""
    first, *others = episode.turns
    reward = (first.rewards[0] + offset, *first.rewards[1:])
    return Episode(episode.group, (first._replace(rewards=reward), *others))


def bound(size: int) -> float:
    """Of |A| among `size` values that were normalised together."""
    return (size - 1) / size**0.5


@many
@given(batches(), seeds, st.sampled_from([0.3, 1.0, 5.0]), st.sampled_from([0.0, 0.5, 1.0]))
def test_gigpos_bounds(episodes, seed, omega, gamma):
    """(G-1)/sqrt(G) of the episode part, (m-1)/sqrt(m) of the step part with m visits of the anchor, and
    (G-1)/sqrt(G) + omega (m-1)/sqrt(m) of their sum."""
    size = Counter(episode.group for episode in episodes)
    visits = Counter((episode.group, turn.anchor) for episode in episodes for turn in episode.turns)
    turns = [(bound(size[e.group]), bound(visits[e.group, t.anchor])) for e in episodes for t in e.turns]
    tokens = [len(turn.rewards) for episode in episodes for turn in episode.turns]
    outer, inner = torch.tensor(turns, dtype=torch.float64).repeat_interleave(torch.tensor(tokens), 0).T
    for x in both(episodes, seed):

        def parts(omega, x=x):
            ours = gigpo_advantage(
                x.rewards, x.mask, group=x.group, **x.turns, anchor=x.anchor, omega=omega, gamma=gamma
            )
            return torch.tensor(x.flat(ours), dtype=torch.float64)

        episode = parts(0.0)
        assert (episode.abs() <= outer + 1e-9).all()
        assert ((parts(1.0) - episode).abs() <= inner + 1e-9).all()
        assert (parts(omega).abs() <= outer + omega * inner + 1e-9).all()


def one_token(anchor: int, reward: float, value: float = 0.0, entropy: float = 0.0) -> Turn:
    return Turn(anchor, (reward,), (value,), (entropy,))


def test_gigpos_bound_is_attained_and_counts_visits_and_not_episodes():
    """Two episodes of a group and five visits of one anchor, four of them worth nothing: (2-1)/sqrt(2) + omega
    (5-1)/sqrt(5), where (G-1)/sqrt(G) alone would allow 0.71 of each part."""
    episodes = [Episode(0, (one_token(1, 1.0),)), Episode(0, (one_token(1, 0.0),) * 4)]
    x = by_turn(episodes, seed=0)
    ours = gigpo_advantage(x.rewards, x.mask, group=x.group, **x.turns, anchor=x.anchor, omega=3.0)
    assert x.flat(ours)[0] == pytest.approx(0.5**0.5 + 3 * 4 / 5**0.5, rel=1e-5)
    assert x.flat(ours)[1:] == pytest.approx([-(0.5**0.5) - 3 / 5**0.5] * 4, rel=1e-5)


@many
@given(
    st.lists(st.tuples(st.integers(-20, 20).map(float), st.integers(1, 5)), min_size=2, max_size=9),
)
def test_whitened_values_are_bounded_and_centred(items):
    """(N-1)/sqrt(N) over the N tokens of the batch, with mean 0 and a standard deviation of at most 1."""
    value, count = (torch.tensor(column) for column in zip(*items, strict=True))
    tokens = torch.repeat_interleave(whitened(value, count)[0], count)
    assert tokens.abs().max() <= bound(len(tokens)) + 1e-9
    assert abs(tokens.mean()) <= 1e-9
    assert tokens.std() <= 1 + 1e-9


@many
@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=8))
@example([1.0, nextafter(1.0, 2.0), 1.0])
def test_leave_one_out_is_no_larger_than_the_spread(values):
    """Each return less the mean of the others: at most the distance of the largest and the smallest, and G/(G-1)
    times the distance from the mean."""
    got = leave_one_out(torch.tensor(values, dtype=torch.float64), torch.zeros(len(values), dtype=torch.long))
    scale = max(map(abs, values)) + 1
    assert got.abs().max() <= max(values) - min(values) + 1e-15 * scale
    assert abs(got.sum()) <= 1e-14 * scale * len(values)


@pytest.mark.parametrize("base", [0.9, -3.3, 1e6])
def test_leave_one_out_of_returns_that_differ_by_rounding_is_zero(base):
    """Eight returns within three last bits, as different orders of one sum are."""
    values = [base]
    for _ in range(3):
        values.append(nextafter(values[-1], 2 * abs(base)))
    got = leave_one_out(torch.tensor(values * 2, dtype=torch.float64), torch.zeros(8, dtype=torch.long))
    assert got.tolist() == [0.0] * 8


@many
@given(batches(), seeds, st.sampled_from([0.5, 4.0]), st.sampled_from([-1.0, 0.0, 3.0]))
def test_empg_is_centred_and_sees_the_order_of_entropies_alone(episodes, seed, scale, offset):
    """Its mean over turns is 0, and min-max takes scale and offset of entropies out."""
    entropy = torch.tensor(
        [sum(turn.entropies) / len(turn.entropies) for e in episodes for turn in e.turns], dtype=torch.float64
    )
    given = turn_rewards(episodes)
    plain = EMPG()(replace(given, entropy=entropy)).total
    assert abs(plain.mean()) <= 1e-12
    moved = EMPG()(replace(given, entropy=scale * entropy + offset)).total
    torch.testing.assert_close(moved, plain, rtol=1e-9, atol=1e-9)


# Episodes that end in their first turn

#: Three of a group, from one state: returns 1, 0 and 0.5; entropies 0, 1 and 1.
FIRST_TURN = [
    Episode(0, (one_token(2, reward, value, entropy),))
    for reward, value, entropy in ((1.0, 0.3, 0.0), (0.0, -0.2, 1.0), (0.5, 0.5, 1.0))
]
#: The returns, normalised: their standard deviation is 1/2.
NORMALISED = [0.5 / 0.500001, -0.5 / 0.500001, 0.0]


def test_gigpo_of_episodes_of_one_turn_is_group_normalisation_twice():
    for x in both(FIRST_TURN, seed=1):
        ours = gigpo_advantage(x.rewards, x.mask, group=x.group, **x.turns, anchor=x.anchor, omega=0.5)
        assert x.flat(ours) == pytest.approx([1.5 * value for value in NORMALISED])


def test_empg_of_episodes_of_one_turn_has_no_bonus():
    low, high = 1.0, exp(-1)
    scale = (low + 2 * high) / 3
    changed = [low / scale * NORMALISED[0], high / scale * NORMALISED[1], 0.0]
    mean = sum(changed) / 3
    for x in both(FIRST_TURN, seed=2):
        ours = empg_advantage(x.rewards, x.entropy, x.mask, group=x.group, **x.turns, zeta=7.0)
        assert x.flat(ours) == pytest.approx([value - mean for value in changed])


@pytest.mark.parametrize("compute", [gae_advantage, turn_gae_advantage])
def test_gae_of_an_episode_of_one_turn_is_its_reward_less_its_value(compute):
    """The end is terminal, so neither gamma nor lambda plays a part."""
    for x in both(FIRST_TURN, seed=3):
        ours, returns = compute(x.rewards, x.values, x.mask, **x.turns, gamma=0.3, lam=0.7)
        assert x.flat(ours) == pytest.approx([0.7, 0.2, 0.0])
        assert x.flat(returns) == pytest.approx([1.0, 0.0, 0.5])


def test_one_episode_may_end_at_once_beside_longer_ones():
    """Returns 1 (one turn) and 1 (in the second turn): equal, but the shared first state is worth more to the first.
    The second state is seen once: 0."""
    episodes = [
        Episode(0, (one_token(0, 1.0),)),
        Episode(0, (one_token(0, 0.0), one_token(1, 1.0))),
    ]
    quarter = 0.25 / (0.125**0.5 + 1e-6)
    for x in both(episodes, seed=4):
        ours = gigpo_advantage(x.rewards, x.mask, group=x.group, **x.turns, anchor=x.anchor, gamma=0.5)
        assert x.flat(ours) == pytest.approx([quarter, -quarter, 0.0])


# Batches without a token to train on

EMPTY = {
    "group": lambda r, m, row: group_advantage(r, m, group=row),
    "rloo": lambda r, m, row: rloo_advantage(r, m, group=row),
    "gigpo": lambda r, m, row: gigpo_advantage(r, m, group=row, episode=row, turn=row, anchor=row),
    "empg": lambda r, m, row: empg_advantage(r, r, m, group=row, episode=row, turn=row),
    "turn_gae": lambda r, m, row: turn_gae_advantage(r, r, m, episode=row, turn=row)[0],
    "gae": lambda r, m, row: gae_advantage(r, r, m)[0],
}


@pytest.mark.parametrize("garbage", [1.0, torch.nan])
@pytest.mark.parametrize("name", EMPTY)
def test_where_no_token_was_sampled_there_is_no_advantage(name, garbage):
    rewards, mask = torch.full((2, 3), garbage), torch.zeros(2, 3, dtype=torch.bool)
    assert EMPTY[name](rewards, mask, torch.arange(2)).tolist() == [[0.0] * 3] * 2

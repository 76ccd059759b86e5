"""Arena's advantages and targets against plain Python written from the formulas, on random episodes in both layouts.

What lies outside the mask is NaN in every layout, and rows are in any order.
"""

from collections.abc import Iterable, Sequence
from random import Random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from arena.algorithms.advantages import (
    TurnGAE,
    TurnRewards,
    empg_advantage,
    gae_advantage,
    gigpo_advantage,
    group_advantage,
    rloo_advantage,
    turn_gae_advantage,
)
from arena.algorithms.catalog import get_algorithm
from arena.policy.scoring import Rows
from arena.training.values import value_batch, with_values
from tests.algorithms import naive
from tests.algorithms.layouts import batches, both, turn_rewards
from tests.algorithms.naive import Episode

many = settings(deadline=None, max_examples=60)
seeds = st.integers(0, 99)
factors = st.sampled_from([0.0, 0.5, 0.95, 1.0])


def close(values: Iterable[float]) -> object:
    """Equal but for rounding in float64."""
    return pytest.approx(list(values), rel=1e-9, abs=1e-9)


def at_tokens(episodes: Sequence[Episode], per_turn: Sequence[Sequence[float]]) -> list[float]:
    """Each turn's number at each of its tokens."""
    pairs = zip(flat(episode.turns for episode in episodes), flat(per_turn), strict=True)
    return [value for turn, value in pairs for _ in turn.rewards]


def flat(lists: Iterable[Sequence]) -> list:
    """All entries in one list."""
    return [entry for some in lists for entry in some]


@many
@given(batches(), seeds)
def test_group_and_leave_one_out(episodes, seed):
    for x in both(episodes, seed):
        for ours, other in ((group_advantage, naive.group_advantage), (rloo_advantage, naive.leave_one_out)):
            expected = [[value] * len(e.turns) for e, value in zip(episodes, other(episodes), strict=True)]
            assert x.flat(ours(x.rewards, x.mask, **x.groups)) == close(at_tokens(episodes, expected))


@many
@given(batches(), seeds, st.sampled_from([0.0, 0.3, 1.0, 2.0]), factors)
def test_gigpo(episodes, seed, omega, gamma):
    options = {"omega": omega, "gamma": gamma}
    expected = close(at_tokens(episodes, naive.gigpo(episodes, **options)))
    for x in both(episodes, seed):
        ours = gigpo_advantage(x.rewards, x.mask, group=x.group, **x.turns, anchor=x.anchor, **options)
        assert x.flat(ours) == expected


@many
@given(batches(), seeds, *[st.sampled_from([0.0, 0.05, 1.0, 3.0])] * 3)
def test_empg(episodes, seed, k, k_future, zeta):
    options = {"k": k, "k_future": k_future, "zeta": zeta}
    expected = close(at_tokens(episodes, naive.empg(naive.group_advantage(episodes), episodes, **options)))
    for x in both(episodes, seed):
        ours = empg_advantage(x.rewards, x.entropy, x.mask, group=x.group, **x.turns, **options)
        assert x.flat(ours) == expected


@many
@given(batches(), seeds, factors, factors)
def test_gae_on_tokens(episodes, seed, gamma, lam):
    options = {"gamma": gamma, "lam": lam}
    rewards = [flat(turn.rewards for turn in episode.turns) for episode in episodes]
    values = [flat(turn.values for turn in episode.turns) for episode in episodes]
    expected = flat(naive.gae(r, v, **options) for r, v in zip(rewards, values, strict=True))
    targets = [a + v for a, v in zip(expected, flat(values), strict=True)]
    for x in both(episodes, seed):
        ours, returns = gae_advantage(x.rewards, x.values, x.mask, **x.turns, **options)
        assert x.flat(ours) == close(expected)
        assert x.flat(returns) == close(targets)


def by_turn(episode: Episode) -> tuple[list[float], list[float]]:
    """The reward of each turn, and the value before it."""
    return [turn.reward for turn in episode.turns], [turn.values[0] for turn in episode.turns]


@many
@given(batches(), seeds, factors, factors)
def test_gae_on_turns(episodes, seed, gamma, lam):
    options = {"gamma": gamma, "lam": lam}
    expected = [naive.gae(*by_turn(episode), **options) for episode in episodes]
    values = [by_turn(episode)[1] for episode in episodes]
    targets = [[a + v for a, v in zip(*pair, strict=True)] for pair in zip(expected, values, strict=True)]
    for x in both(episodes, seed):
        ours, returns = turn_gae_advantage(x.rewards, x.values, x.mask, **x.turns, **options)
        assert x.flat(ours) == close(at_tokens(episodes, expected))
        assert x.flat(returns) == close(at_tokens(episodes, targets))


@many
@given(batches(), seeds, factors, factors, st.sampled_from([1.0, 10.0]))
def test_sapos_advantage_and_targets(episodes, seed, gamma, lam, largest):
    """What the training loop fits V and Q to, in units of the largest return, and the advantage of the policy.

    V is the value before a turn's first token here, Q its last token's entropy: any number will do.
    """
    random = Random(seed)
    turns = sum(len(episode.turns) for episode in episodes)
    order = random.sample(range(turns), turns)
    penalties = [random.choice((0.0, 0.1)) for _ in order]
    rewards = [by_turn(episode)[0] for episode in episodes]
    v = [by_turn(episode)[1] for episode in episodes]
    q = [[turn.entropies[-1] for turn in episode.turns] for episode in episodes]

    scaled = [[[largest * value for value in row] for row in rows] for rows in (v, q)]
    advantages = [naive.gae(r, w, gamma=gamma, lam=lam) for r, w in zip(rewards, scaled[0], strict=True)]
    targets = [naive.sapo_targets(*row, gamma=gamma, lam=lam) for row in zip(rewards, *scaled, strict=True)]
    expected = [flat(columns) for columns in zip(*targets, strict=True)]

    algorithm = get_algorithm(f"sapo-sr:gamma={gamma}:lam={lam}")
    assert isinstance(algorithm.advantage, TurnGAE)
    index = torch.tensor(order)
    rewarded = turn_rewards(episodes)
    rewarded = TurnRewards(
        *(getattr(rewarded, name)[index] for name in ("episode", "group", "turn", "reward")),
        penalty=-torch.tensor(penalties, dtype=torch.float64)[index],
        anchor=rewarded.anchor[index],
    )
    old = torch.tensor([flat(v), flat(q)], dtype=torch.float32).T[index]
    rows = Rows.of([[1]] * turns, [[2]] * turns, 0)
    rewarded = with_values(rewarded, old, rows, algorithm, largest)
    ours = algorithm.advantage(rewarded)
    assert ours.total.tolist() == close(naive.sapo_advantage(flat(advantages), penalties)[i] for i in order)
    batch = value_batch(rewarded, ours, old, rows, algorithm, largest)
    for column, other in enumerate(expected):
        # The target is in float32.
        got = batch.target[:, column].tolist()
        assert got == pytest.approx([other[i] / largest for i in order], rel=1e-6, abs=1e-6)
    assert batch.mask.all()

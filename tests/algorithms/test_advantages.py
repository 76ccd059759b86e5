"""Group normalisation, discounted returns and GiGPO's step part, by hand and as properties."""

from dataclasses import fields, replace
from math import exp

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from jaxtyping import TypeCheckError

from arena.algorithms.advantages import (
    EMPG,
    BatchNorm,
    GiGPO,
    GroupCentre,
    GroupNorm,
    LeaveOneOut,
    TokenGAE,
    TurnGAE,
    TurnRewards,
    discounted_return,
    episode_return,
    gae_advantage,
    gigpo_advantage,
    group_advantage,
    rloo_advantage,
    turn_gae_advantage,
)
from arena.algorithms.normalise import (
    generalised_advantage,
    group_centred,
    group_normalised,
    leave_one_out,
    whitened,
)

#: (value - mean) / (std + 1e-6) of two values that differ by 1.
HALF = 0.5 / (0.5**0.5 + 1e-6)


def advantage(values, group=None):
    group = [0] * len(values) if group is None else group
    return group_normalised(torch.tensor(values, dtype=torch.float64), torch.tensor(group)).tolist()


def rewards(*turns):
    """TurnRewards from (episode, group, turn, reward, penalty, anchor)."""
    episode, group, turn, reward, penalty, anchor = (list(column) for column in zip(*turns, strict=True))
    return TurnRewards(
        torch.tensor(episode),
        torch.tensor(group),
        torch.tensor(turn),
        torch.tensor(reward, dtype=torch.float64),
        torch.tensor(penalty, dtype=torch.float64),
        torch.tensor(anchor),
    )


def shuffled(given: TurnRewards, order) -> TurnRewards:
    names = ("episode", "group", "turn", "reward", "penalty", "anchor")
    return TurnRewards(*(getattr(given, name)[order] for name in names))


def test_group_advantage_by_hand():
    # Mean 1/4, Bessel-corrected std 1/2: the bound (G-1)/sqrt(G) = 3/2 is attained up to the 1e-6.
    assert advantage([1.0, 0.0, 0.0, 0.0]) == pytest.approx([0.75 / 0.500001] + [-0.25 / 0.500001] * 3)
    assert advantage([0.0, 1.0]) == pytest.approx([-HALF, HALF])
    # Mean 2, std 1.
    assert advantage([1.0, 2.0, 3.0]) == pytest.approx([-1 / 1.000001, 0.0, 1 / 1.000001])


def test_groups_are_apart_and_may_be_interleaved():
    values, group = [1.0, 5.0, 0.0, 7.0, 3.0], [9, -2, 9, -2, 4]
    expected = [HALF, -1 / (2**0.5 + 1e-6), -HALF, 1 / (2**0.5 + 1e-6), 0.0]
    assert advantage(values, group) == pytest.approx(expected)


@pytest.mark.parametrize(
    "values",
    [
        [3.7] * 4,
        [0.0, 0.0],
        [5.0],
        [0.1 + 0.2, 0.3, 0.3],  # differ in the last bit
        [10.9 - 0.1 * k + 0.1 * k for k in range(8)],
        [-1e6, -1e6 + 1e-5],
    ],
)
def test_equal_values_rounding_and_groups_of_one_give_exactly_zero(values):
    assert advantage(values) == [0.0] * len(values)


def test_a_small_but_real_spread_is_not_zeroed():
    # std 7.07e-8 is small against the 1e-6: the advantage is small too.
    assert advantage([1.0, 1.0 + 1e-7]) == pytest.approx([-0.0467, 0.0467], abs=1e-4)


@settings(deadline=None)
@given(st.lists(st.floats(-100, 100), min_size=2, max_size=9))
def test_group_advantage_is_bounded_and_centred(values):
    got = torch.tensor(advantage(values))
    size = len(values)
    assert got.abs().max() <= (size - 1) / size**0.5 + 1e-6
    assert abs(got.mean()) <= 1e-6


@settings(deadline=None)
@given(
    st.lists(st.integers(-10, 10).map(float), min_size=2, max_size=8),
    st.sampled_from([0.5, 1.0, 4.0]),
    st.integers(-3, 3).map(float),
)
def test_group_advantage_does_not_see_scale_and_offset(values, scale, offset):
    moved = [scale * v + offset for v in values]
    assert advantage(moved) == pytest.approx(advantage(values), abs=1e-5)


TWO_EPISODES = rewards(
    (0, 0, 0, 1.0, 0.0, 0),
    (0, 0, 1, 2.0, -0.1, 1),
    (0, 0, 2, 4.0, 0.0, 2),
    (7, 0, 0, 0.0, 0.0, 0),
    (7, 0, 1, 3.0, -0.2, 3),
)
ORDERS = [[0, 1, 2, 3, 4], [4, 2, 0, 3, 1], [2, 4, 1, 3, 0]]


@pytest.mark.parametrize("order", ORDERS)
def test_episode_return_sums_turns_without_penalties(order):
    returns, index, group = episode_return(shuffled(TWO_EPISODES, order))
    assert returns.tolist() == [7.0, 3.0]
    assert group.tolist() == [0, 0]
    assert index.tolist() == [[0, 0, 0, 1, 1][i] for i in order]


@pytest.mark.parametrize("order", ORDERS)
def test_discounted_return_to_go_by_hand(order):
    plain = [1 + 0.5 * (2 + 0.5 * 4), 2 + 0.5 * 4, 4, 1.5, 3]
    assert discounted_return(shuffled(TWO_EPISODES, order), 0.5).tolist() == [plain[i] for i in order]


def test_every_turn_carries_its_episodes_advantage_and_its_own_penalty():
    out = GroupNorm()(
        rewards(
            (0, 0, 0, 0.0, 0.0, 0), (0, 0, 1, 1.0, -0.1, 1), (1, 0, 0, 0.0, -0.1, 0), (1, 0, 1, 0.0, 0.0, 1)
        )
    )
    assert out.episode.tolist() == pytest.approx([HALF, HALF, -HALF, -HALF])
    assert out.format.tolist() == [0.0, -0.1, -0.1, 0.0]
    # The penalty is a shift as it is, not divided by the group's standard deviation.
    assert out.total.tolist() == pytest.approx([HALF, HALF - 0.1, -HALF - 0.1, -HALF])
    assert out.step is None


def test_long_episodes_do_not_weigh_more():
    # Over turn rows the mean would be 3/4, over episodes it is 1/2.
    turns = [(0, 0, t, 1.0 if t == 2 else 0.0, 0.0, t) for t in range(3)] + [(1, 0, 0, 0.0, 0.0, 0)]
    assert GroupNorm()(rewards(*turns)).episode.tolist() == pytest.approx([HALF] * 3 + [-HALF])


def test_over_turns_long_episodes_weigh_more():
    # ARLArena's code: three rows of return 1 and one of 0 have mean 3/4 and a standard deviation of 1/2.
    turns = [(0, 0, t, 1.0 if t == 2 else 0.0, -0.1, t) for t in range(3)] + [(1, 0, 0, 0.0, 0.0, 0)]
    out = GroupNorm(over="turns")(rewards(*turns))
    assert out.episode.tolist() == pytest.approx([0.5 - 1e-6] * 3 + [-1.5 + 3e-6], abs=1e-8)
    assert (out.total - out.episode).tolist() == pytest.approx([-0.1] * 3 + [0.0])
    with pytest.raises(ValueError, match="over must be episodes or turns, given 'rows'"):
        GroupNorm(over="rows")


def test_penalty_reaches_groups_of_equal_returns_unscaled():
    out = GroupNorm()(rewards((0, 0, 0, 1.0, 0.0, 0), (1, 0, 0, 1.0, -0.1, 0)))
    assert out.episode.tolist() == [0.0, 0.0]
    assert out.total.tolist() == [0.0, -0.1]


#: Two episodes share anchor 0; anchors 1 and 2 are seen once. Returns to go at gamma 1/2: 1/2, 1, 0, 0.
SHARED = rewards(
    (0, 0, 0, 0.0, 0.0, 0),
    (0, 0, 1, 1.0, 0.0, 1),
    (1, 0, 0, 0.0, 0.0, 0),
    (1, 0, 1, 0.0, 0.0, 2),
)
#: The values 1/2 and 0, normalised.
QUARTER = 0.25 / (0.125**0.5 + 1e-6)


@pytest.mark.parametrize("omega", [1.0, 0.5])
def test_gigpo_by_hand(omega):
    out = GiGPO(omega=omega, gamma=0.5)(SHARED)
    assert out.step.tolist() == pytest.approx([QUARTER, 0.0, -QUARTER, 0.0])
    assert out.episode.tolist() == pytest.approx([HALF, HALF, -HALF, -HALF])
    total = [HALF + omega * QUARTER, HALF, -HALF - omega * QUARTER, -HALF]
    assert out.total.tolist() == pytest.approx(total)


@pytest.mark.parametrize("order", [[3, 1, 0, 2], [2, 3, 1, 0]])
def test_gigpo_does_not_depend_on_row_order(order):
    expected = GiGPO(gamma=0.5)(SHARED).total[order]
    assert GiGPO(gamma=0.5)(shuffled(SHARED, order)).total.tolist() == pytest.approx(expected.tolist())


def test_anchors_of_different_groups_are_different_states():
    out = GiGPO()(rewards((0, 0, 0, 1.0, 0.0, 5), (1, 1, 0, 0.0, 0.0, 5)))
    assert out.step.tolist() == [0.0, 0.0]


def test_every_visit_of_an_anchor_counts():
    # Episode 0 comes back to anchor 0: returns to go 1/4, 1/2, 1 at anchor 0 and episode 1's 0.
    out = GiGPO(gamma=0.5)(
        rewards(
            (0, 0, 0, 0.0, 0.0, 0), (0, 0, 1, 0.0, 0.0, 0), (0, 0, 2, 1.0, 0.0, 0), (1, 0, 0, 0.0, 0.0, 0)
        )
    )
    values = [0.25, 0.5, 1.0, 0.0]
    mean = 0.4375
    std = (sum((v - mean) ** 2 for v in values) / 3) ** 0.5 + 1e-6
    assert out.step.tolist() == pytest.approx([(v - mean) / std for v in values])


def test_gigpo_separates_turns_of_groups_with_equal_returns():
    # Both episodes return 1, one of them a turn later: the faster one is better at the shared anchor.
    out = GiGPO(gamma=0.5)(rewards((0, 0, 0, 1.0, 0.0, 0), (1, 0, 0, 0.0, 0.0, 0), (1, 0, 1, 1.0, 0.0, 1)))
    assert out.episode.tolist() == [0.0, 0.0, 0.0]
    assert out.total.tolist() == pytest.approx([QUARTER, -QUARTER, 0.0])


def test_a_format_penalty_enters_the_step_part_of_its_own_turn_alone():
    # Episode 0 is penalised at its second turn, episode 1 never; they share both anchors.
    out = GiGPO(omega=2.0, gamma=0.5)(
        rewards(
            (0, 0, 0, 0.0, 0.0, 0), (0, 0, 1, 0.0, -0.1, 1), (1, 0, 0, 0.0, 0.0, 0), (1, 0, 1, 0.0, 0.0, 1)
        )
    )
    # At the second anchor the returns to go are -0.1 and 0; at the first, 0 and 0.
    step = 0.05 / (0.005**0.5 + 1e-6)
    assert out.step.tolist() == pytest.approx([0.0, -step, 0.0, step])
    assert out.episode.tolist() == [0.0] * 4
    assert out.total.tolist() == pytest.approx([0.0, -0.1 - 2 * step, 0.0, 2 * step])


def test_leave_one_out_and_centring_by_hand():
    values, group = torch.tensor([1.0, 4.0, 10.0, 7.0]), torch.tensor([3, 3, 3, 8])
    assert leave_one_out(values, group).tolist() == pytest.approx([1 - 7, 4 - 5.5, 10 - 2.5, 0.0])
    assert group_centred(values, group).tolist() == pytest.approx([-4.0, -1.0, 5.0, 0.0])


@pytest.mark.parametrize(
    ("rule", "expected"), [(LeaveOneOut(), [3.0, 3.1, -2.9]), (GroupCentre(), [1.5, 1.6, -1.4])]
)
def test_rules_over_episodes_reach_every_turn_and_leave_the_penalty_apart(rule, expected):
    # Episode 0 returns 4 in two turns, episode 1 returns 1; the penalty 0.1 is on the first and the last turn.
    given = rewards((0, 0, 0, 1.0, -0.1, 0), (0, 0, 1, 3.0, 0.0, 1), (1, 0, 0, 1.0, 0.0, 0))
    out = rule(given)
    assert out.total.tolist() == pytest.approx([expected[0] - 0.1, expected[0], -expected[0]])
    assert out.episode.tolist() == pytest.approx([expected[0], expected[0], -expected[0]])
    assert out.format.tolist() == pytest.approx([-0.1, 0.0, 0.0])
    assert out.step is None


def test_batch_norm_weighs_turns_by_their_tokens():
    given = replace(
        rewards((0, 0, 0, 0.0, 0.0, 0), (0, 0, 1, 1.0, -0.5, 0), (1, 5, 0, 0.0, 0.0, 0)),
        tokens=torch.tensor([2, 1, 1]),
    )
    out = BatchNorm(gamma=0.5)(given)
    # Returns-to-go .5 (two tokens), 1, 0: mean 1/2, variance (1/4 + 1/4) / 3.
    std = (0.5 / 3) ** 0.5 + 1e-6
    assert out.episode.tolist() == pytest.approx([0.0, 0.5 / std, -0.5 / std])
    assert out.total.tolist() == pytest.approx([0.0, 0.5 / std - 0.5, -0.5 / std])


def test_batch_norm_of_equal_returns_is_zero():
    given = replace(rewards((0, 0, 0, 1.0, 0.0, 0), (1, 0, 0, 1.0, 0.0, 0)), tokens=torch.tensor([3, 4]))
    assert BatchNorm()(given).total.tolist() == [0.0, 0.0]


def test_empg_by_hand():
    # Two episodes of returns 1 and 0, two turns each; entropies 0, 1, 1/2 and 1 are 0, 1, 1/2 and 1 of the range.
    given = replace(
        rewards(
            (0, 0, 0, 0.0, 0.0, 0), (0, 0, 1, 1.0, 0.0, 0), (1, 0, 0, 0.0, 0.0, 0), (1, 0, 1, 0.0, -0.1, 0)
        ),
        entropy=torch.tensor([0.2, 1.2, 0.7, 1.2]),
    )
    out = EMPG(k=2.0, k_future=3.0, zeta=0.5)(given)
    g = [1, exp(-2), exp(-1), exp(-2)]
    mean = sum(g) / 4
    changed = [g[0] / mean * HALF + 0.5 * exp(-3), g[1] / mean * HALF, -g[2] / mean * HALF + 0.5 * exp(-3)]
    changed.append(-g[3] / mean * HALF)
    centre = sum(changed) / 4
    expected = [value - centre for value in changed]
    expected[3] -= 0.1
    assert out.total.tolist() == pytest.approx(expected)
    assert out.episode.tolist() == pytest.approx([HALF, HALF, -HALF, -HALF])
    assert torch.allclose(out.total, out.episode + out.step + out.format)


def test_empg_of_equal_entropies_without_the_bonus_is_grpo():
    given = replace(
        rewards((0, 0, 0, 1.0, 0.0, 0), (1, 0, 0, 0.0, -0.1, 0)), entropy=torch.tensor([0.7, 0.7])
    )
    assert EMPG(zeta=0.0)(given).total.tolist() == pytest.approx(GroupNorm()(given).total.tolist())


def test_empg_gives_equal_rewards_an_advantage_by_what_follows():
    given = replace(
        rewards(
            (0, 0, 0, 0.0, 0.0, 0), (0, 0, 1, 1.0, 0.0, 0), (1, 0, 0, 0.0, 0.0, 0), (1, 0, 1, 1.0, 0.0, 0)
        ),
        entropy=torch.tensor([0.0, 0.0, 0.0, 1.0]),
    )
    out = EMPG(zeta=1.0)(given)
    # Turn 0 of episode 0 leads to entropy 0 (bonus 1), that of episode 1 to the highest (bonus 1/e).
    centre = (1 + exp(-1)) / 4
    assert out.total.tolist() == pytest.approx([1 - centre, -centre, exp(-1) - centre, -centre])


@pytest.mark.parametrize("rule", [BatchNorm(), EMPG()])
def test_rules_say_what_they_lack(rule):
    with pytest.raises(ValueError, match=f"{rule.kind} needs the (tokens|entropy) of each turn"):
        rule(rewards((0, 0, 0, 1.0, 0.0, 0)))


@pytest.mark.parametrize(
    "rule",
    [GroupNorm(), GroupCentre(), LeaveOneOut(), GiGPO(), BatchNorm(), EMPG(), TurnGAE()],
    ids=lambda r: r.kind,
)
def test_no_rule_depends_on_the_order_of_turns(rule):
    given = rewards(
        (0, 0, 0, 0.5, 0.0, 1), (0, 0, 1, 1.0, -0.1, 2), (1, 0, 0, 0.0, 0.0, 1), (2, 0, 0, 2.0, 0.0, 2),
        (3, 1, 0, 1.0, -0.1, 1), (3, 1, 1, 0.0, 0.0, 1), (4, 1, 0, 3.0, 0.0, 1),
    )  # fmt: skip
    given = replace(
        given,
        tokens=torch.tensor([3, 1, 4, 1, 5, 9, 2]),
        entropy=torch.rand(7, dtype=torch.double),
        value=torch.rand(7, dtype=torch.double),
    )
    order = torch.tensor([4, 0, 6, 2, 1, 5, 3])
    mixed = TurnRewards(
        *(None if f.name == "token_value" else getattr(given, f.name)[order] for f in fields(TurnRewards))
    )
    assert torch.allclose(rule(mixed).total, rule(given).total[order], atol=1e-12)


@pytest.mark.parametrize(
    "rule", [GroupNorm(), GroupCentre(), LeaveOneOut(), GiGPO(gamma=1.0)], ids=lambda r: r.kind
)
@pytest.mark.parametrize("turns", [1, 2, 4, 7, 9])
def test_equal_returns_with_rounding_give_exactly_zero(rule, turns):
    """Sokoban's own returns: -0.1 a turn. A mean of eight equal sums need not be that sum."""
    given = rewards(
        *((episode, 0, turn, -0.1, 0.0, 10 * episode + turn) for episode in range(8) for turn in range(turns))
    )
    assert rule(given).total.tolist() == [0.0] * (8 * turns)


def test_step_penalty_decides_whether_the_penalty_is_normalised():
    given = rewards(*((episode, 0, 0, 0.0, -0.1 * (episode == 0), 5) for episode in range(8)))
    plain = GiGPO(step_penalty=False)(given)
    assert plain.total.tolist() == pytest.approx([-0.1] + [0.0] * 7)
    assert plain.step.tolist() == [0.0] * 8
    # With it, a penalty of any size is as strong as a difference in return: 7/8 over a std of 1/sqrt(8).
    assert GiGPO()(given).total[0].item() == pytest.approx(-0.1 - 7 / 8**0.5, abs=1e-4)


def test_empg_takes_entropies_that_differ_by_rounding_as_equal():
    given = rewards((0, 0, 0, 1.0, 0.0, 0), (1, 0, 0, 0.0, 0.0, 0))
    exact = EMPG()(replace(given, entropy=torch.tensor([0.7, 0.7]).double()))
    near = EMPG()(replace(given, entropy=torch.tensor([0.7, 0.7 + 1e-7]).double()))
    assert torch.equal(exact.total, near.total)


# Values and GAE


def test_gae_by_hand():
    # Two episodes, interleaved and out of order in time; gamma 1/2, lambda 1/2: gamma lambda = 1/4.
    reward = torch.tensor([4.0, 1.0, 0.0, 3.0])
    value = torch.tensor([2.0, 5.0, 1.0, 0.0])
    episode, time = torch.tensor([0, 9, 0, 0]), torch.tensor([2, 0, 0, 1])
    # Episode 0: deltas 0 + 0/2 - 1 = -1, 3 + 2/2 - 0 = 4, 4 - 2 = 2; advantages 2, 4 + 2/4, -1 + 4.5/4.
    out = generalised_advantage(reward, value, episode, time, 0.5, 0.5)
    assert out.tolist() == [2.0, -4.0, -1 + 4.5 / 4, 4.5]


def test_gae_is_the_return_less_the_value_at_lambda_1_and_the_error_of_one_step_at_0():
    generator = torch.Generator().manual_seed(0)
    reward, value = torch.randn(2, 6, generator=generator, dtype=torch.float64)
    episode, time = torch.zeros(6, dtype=torch.long), torch.arange(6)
    to_go = discounted_return(TurnRewards(episode, episode, time, reward, torch.zeros(6), episode), 0.9)
    assert torch.allclose(generalised_advantage(reward, value, episode, time, 0.9, 1.0), to_go - value)
    following = torch.cat([value[1:], torch.zeros(1)])
    assert torch.allclose(
        generalised_advantage(reward, value, episode, time, 0.9, 0.0), reward + 0.9 * following - value
    )


def test_whitening_by_hand():
    out, scale = whitened(torch.tensor([1.0, 2.0, 6.0]))
    assert scale == pytest.approx(7**0.5 + 1e-6)
    assert out.tolist() == pytest.approx([-2 / scale, -1 / scale, 3 / scale])
    assert whitened(torch.tensor([3.0, 3.0]))[0].tolist() == [0.0, 0.0]
    assert whitened(torch.tensor([]))[0].tolist() == []
    # An item that counts three times is three items.
    counted, _ = whitened(torch.tensor([1.0, 5.0]), torch.tensor([3, 1]))
    assert counted.tolist() == pytest.approx(whitened(torch.tensor([1.0, 1.0, 1.0, 5.0]))[0][2:].tolist())


def test_token_gae_runs_through_the_turns_of_an_episode():
    # Episode 0 has turns of 2 and 1 tokens, episode 1 one turn of 1 token.
    given = replace(
        rewards((0, 0, 0, 1.0, -0.1, 0), (0, 0, 1, 4.0, 0.0, 1), (1, 0, 0, 2.0, 0.0, 0)),
        tokens=torch.tensor([2, 1, 1]),
        token_value=torch.tensor([1.0, 3.0, 2.0, 2.0]),
    )
    out = TokenGAE(gamma=0.5, lam=0.5)(given)
    last = 4 - 2.0
    second = 1 + 0.5 * 2 - 3 + last / 4
    first = 0 + 0.5 * 3 - 1 + second / 4
    gae = torch.tensor([first, second, last, 0.0], dtype=torch.float64)
    assert out.target is not None and out.target.tolist() == pytest.approx(
        [1 + first, 3 + second, 2 + last, 2.0]
    )
    white = ((gae - gae.mean()) / (gae.std() + 1e-6)).tolist()
    # The penalty is a shift of its turn's tokens, as with every rule that normalises before.
    assert out.token is not None and out.token.tolist() == pytest.approx(
        [white[0] - 0.1, white[1] - 0.1, white[2], white[3]]
    )
    assert out.total.tolist() == pytest.approx([(white[0] + white[1]) / 2 - 0.1, white[2], white[3]])
    assert out.format.tolist() == [-0.1, 0.0, 0.0]


def test_turn_gae_takes_the_penalty_before_it_whitens():
    given = replace(
        rewards((0, 0, 0, 1.0, -0.5, 0), (0, 0, 1, 4.0, 0.0, 1), (1, 0, 0, 2.0, 0.0, 0)),
        value=torch.tensor([1.0, 2.0, 3.0]),
    )
    out = TurnGAE(gamma=0.5, lam=0.5)(given)
    gae = [1 + 1 - 1 + 2 / 4, 2.0, -1.0]
    assert out.target is not None and out.target.tolist() == pytest.approx([1 + gae[0], 4.0, 2.0])
    shifted = torch.tensor([gae[0] - 0.5, *gae[1:]], dtype=torch.float64)
    scale = float(shifted.std()) + 1e-6
    assert out.total.tolist() == pytest.approx(((shifted - shifted.mean()) / scale).tolist())
    # The penalty moves its own turn, and through the mean the others.
    assert out.format.tolist() == pytest.approx([-1 / 3 / scale, 1 / 6 / scale, 1 / 6 / scale])
    assert torch.allclose(out.total, out.episode + out.format)


def test_rounding_of_values_is_not_made_an_advantage():
    noise = 1e-7 * torch.linspace(-1, 1, 64, dtype=torch.float64)
    given = rewards(*[(e, e, 0, -0.8, -0.1, 0) for e in range(64)])
    out = TurnGAE()(replace(given, value=11 * (0.3 + noise)))
    assert out.total.tolist() == out.format.tolist() == out.episode.tolist() == [0.0] * 64


def test_returns_are_constants():
    values = torch.tensor([[1.0, 2.0]], requires_grad=True)
    mask, zeros = torch.ones(1, 2, dtype=torch.bool), torch.zeros(1, dtype=torch.long)
    for returns in (
        gae_advantage(torch.ones(1, 2), values, mask)[1],
        turn_gae_advantage(torch.ones(1, 2), values, mask, episode=zeros, turn=zeros)[1],
    ):
        assert not returns.requires_grad


def test_whole_numbers_as_rewards_are_refused():
    reward, mask = torch.tensor([[0, 1], [0, 0]]), torch.ones(2, 2, dtype=torch.bool)
    with pytest.raises((ValueError, TypeCheckError), match=r"rewards"):
        group_advantage(reward, mask, group=torch.tensor([0, 0]))


@pytest.mark.parametrize("make", [TokenGAE, TurnGAE])
def test_discounts_are_shares(make):
    with pytest.raises(ValueError, match="from 0 to 1"):
        make(gamma=1.5)


@pytest.mark.parametrize("rule", [TokenGAE(), TurnGAE()])
def test_gae_without_values_says_so(rule):
    with pytest.raises(ValueError, match="needs"):
        rule(rewards((0, 0, 0, 1.0, 0.0, 0)))


# The public functions over [rows, tokens]; test_against_naive.py has both layouts


def test_public_functions_by_hand():
    # Two episodes of a group: the first has two turns (rows 0 and 1), the second one. Padding carries nonsense.
    reward = torch.tensor([[0.0, 1.0, 9.0], [0.0, 2.0, 0.0], [1.0, 9.0, 9.0]])
    mask = torch.tensor([[True, True, False], [True, True, True], [True, False, False]])
    group, episode, turn = torch.tensor([5, 5, 5]), torch.tensor([0, 0, 1]), torch.tensor([0, 1, 0])
    a = 1 / (2**0.5 + 1e-6)
    expected = [[a, a, 0.0], [a, a, a], [-a, 0.0, 0.0]]
    assert torch.allclose(group_advantage(reward, mask, group=group, episode=episode), torch.tensor(expected))
    expected = [[2.0, 2.0, 0.0], [2.0, 2.0, 2.0], [-2.0, 0.0, 0.0]]
    assert torch.allclose(rloo_advantage(reward, mask, group=group, episode=episode), torch.tensor(expected))
    # Rows 0 and 2 start from one anchor: returns to go 1 + 2/2 = 2 and 1; row 1 is alone at its own.
    out = gigpo_advantage(
        reward, mask, group=group, episode=episode, turn=turn, anchor=torch.tensor([0, 1, 0]), gamma=0.5
    )
    assert torch.allclose(out, torch.tensor([[a + HALF] * 2 + [0.0], [a] * 3, [-a - HALF, 0.0, 0.0]]))
    values = torch.tensor([[1.0, 2.0, 9.0], [3.0, 0.0, 0.0], [4.0, 9.0, 9.0]])
    advantage, returns = gae_advantage(reward, values, mask, episode=episode, turn=turn)
    assert returns.tolist() == [[3.0, 3.0, 0.0], [2.0, 2.0, 0.0], [1.0, 0.0, 0.0]]
    assert advantage.tolist() == [[2.0, 1.0, 0.0], [-1.0, 2.0, 0.0], [-3.0, 0.0, 0.0]]
    advantage, returns = turn_gae_advantage(
        reward, values, mask, episode=episode, turn=turn, gamma=0.5, lam=1.0
    )
    assert returns.tolist() == [[2.0, 2.0, 0.0], [2.0, 2.0, 2.0], [1.0, 0.0, 0.0]]
    assert advantage.tolist() == [[1.0, 1.0, 0.0], [-1.0, -1.0, -1.0], [-3.0, 0.0, 0.0]]

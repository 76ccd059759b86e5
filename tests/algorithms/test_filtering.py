"""Which groups the dynamic filter keeps, by success and by return."""

import pytest

from arena.algorithms.filtering import DynamicFilter


@pytest.mark.parametrize(
    ("successes", "kept"),
    [([True, False], True), ([False, False, True], True), ([True, True], False), ([False, False], False)],
)
def test_success_rule_keeps_mixed_outcomes(successes, kept):
    assert DynamicFilter().keeps([0.0] * len(successes), successes) is kept


@pytest.mark.parametrize(
    ("returns", "kept"), [([0.9, 0.8], True), ([1.0, 1.0], False), ([0.1 + 0.2, 0.3], False)]
)
def test_reward_rule_keeps_returns_that_differ(returns, kept):
    assert DynamicFilter(on="reward").keeps(returns, [False] * len(returns)) is kept


def test_the_rules_part_under_shaped_rewards():
    returns, successes = [9.8, 9.1], [True, True]
    assert not DynamicFilter(on="success").keeps(returns, successes)
    assert DynamicFilter(on="reward").keeps(returns, successes)


def test_a_group_of_one_is_never_mixed():
    assert not DynamicFilter().keeps([1.0], [True])
    assert not DynamicFilter(on="reward").keeps([1.0], [True])


def test_wrong_parameters_are_refused():
    with pytest.raises(ValueError, match=r"^on must be 'success' or 'reward', given 'turns'"):
        DynamicFilter(on="turns")
    with pytest.raises(ValueError, match=r"^max_batches must be at least 1, given 0"):
        DynamicFilter(max_batches=0)

"""Streams: fixed forever, apart from each other, and on their side of the split."""

from hypothesis import given
from hypothesis import strategies as st

from arena.seeding import EVAL_SEED_START, eval_task_seed, stream_seed, train_task_seed

KEYS = st.lists(st.one_of(st.integers(0, 10**6), st.text("abc_-", max_size=5)), max_size=4)


def test_seeds_are_the_same_on_every_machine():
    """Written down once: a change here changes every record ever made."""
    assert stream_seed("rollout-noise", "sokoban", 0, 1, 0) == 7432878674810842618
    assert train_task_seed("sokoban", 0, 1, 0, 0) == 595297128
    assert eval_task_seed("sokoban", 0, 0) == 1507568256


@given(KEYS)
def test_ranges(key):
    assert 0 <= stream_seed("a", *key) < 2**63
    assert 0 <= train_task_seed(*key) < EVAL_SEED_START
    assert EVAL_SEED_START <= eval_task_seed(*key) < 2 * EVAL_SEED_START


@given(KEYS, KEYS)
def test_different_keys_are_different_streams(first, second):
    same = list(map(str, first)) == list(map(str, second))
    assert (stream_seed("a", *first) == stream_seed("a", *second)) == same


def test_parts_are_not_run_together():
    seeds = [stream_seed("a", "b", 1), stream_seed("a", "b1"), stream_seed("ab", 1), stream_seed("a", 1, "b")]
    assert len({*seeds, stream_seed("a", "b", 1, 0)}) == 5


def test_purposes_are_different_streams():
    purposes = ("rollout-noise", "rollout-dynamics", "eval-noise", "eval-dynamics", "minibatches", "init")
    assert len({stream_seed(p, "sokoban", 0) for p in purposes}) == len(purposes)
    assert train_task_seed("sokoban", 0) % EVAL_SEED_START != eval_task_seed("sokoban", 0) % EVAL_SEED_START

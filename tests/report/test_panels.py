"""Ticks and numbers that a reader meets."""

import pytest

from arena.analysis.statistics import spread_over_seeds
from arena.report.panels import log_ticks, short_number
from arena.report.wording import count, listing, percent, seeds_range, with_spread


@pytest.mark.parametrize(
    ("limits", "ticks"),
    [
        ((0.7, 1.4), [0.8, 1, 1.2]),
        ((0.19, 6), [0.2, 0.5, 1, 2, 5]),
        ((2e-6, 0.5), [1e-5, 1e-4, 1e-3, 1e-2, 1e-1]),
        ((1e-10, 1), [1e-10, 1e-8, 1e-6, 1e-4, 1e-2, 1]),
    ],
)
def test_log_ticks(limits, ticks):
    assert log_ticks(*limits) == pytest.approx(ticks)


def test_short_number():
    assert [short_number(x) for x in (0, 7, 999, 12_000, 1_234_567)] == ["0", "7", "999", "12 k", "1.23 M"]


def test_spread_in_words():
    assert with_spread(spread_over_seeds([0.5]), percent) == "50.0\u00a0%"
    assert with_spread(spread_over_seeds([0.5, 0.6]), percent) == "55.0\u00a0%\n50.0–60.0"
    assert with_spread(spread_over_seeds([7.0, 7.0]), count) == "7"
    # mean 0.2, half width 4.3027 * 0.1 / sqrt(3) = 0.2484
    assert (
        with_spread(spread_over_seeds([0.1, 0.2, 0.3]), percent) == "20.0\u00a0%\n10.0–30.0\nCI -4.8 to 44.8"
    )
    assert with_spread(None, percent) == "—"


def test_listing():
    assert [listing(x) for x in (["a"], ["a", "b"], ["a", "b", "c"])] == ["a", "a and b", "a, b and c"]


def test_seeds_in_words():
    assert [seeds_range(x) for x in ([1, 1], [2, 2], [1, 3, 2])] == ["1 seed", "2 seeds", "1 to 3 seeds"]

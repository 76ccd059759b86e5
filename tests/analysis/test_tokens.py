"""Ratio quantiles and the eight groups on token tables small enough to work by hand."""

import duckdb
import numpy as np
import pandas as pd
import pytest

from arena.analysis.tokens import GROUPS, NEUTRAL, eight_groups, ratio_quantiles


def relation(rows, connection):
    frame = pd.DataFrame(
        rows,
        columns=[
            "step",
            "epoch",
            "minibatch",
            "episode_id",
            "turn",
            "advantage",
            "log_ratio",
            "entropy",
            "kl_ref",
        ],
    )
    return connection.from_df(frame)


@pytest.fixture
def connection():
    with duckdb.connect() as opened:
        yield opened


def ratios(log_ratios, connection, step=1):
    return relation([(step, 0, 0, 0, 0, 1.0, x, 1.0, 0.0) for x in log_ratios], connection)


def test_quantiles_of_eleven_equidistant_log_ratios(connection):
    row = ratio_quantiles(ratios(np.linspace(-1, 1, 11), connection)).iloc[0]
    # Linear interpolation: the quantile q of these is at log ratio 2q - 1.
    expected = {"q01": -0.98, "q05": -0.9, "q25": -0.5, "q50": 0.0, "q75": 0.5, "q95": 0.9, "q99": 0.98}
    for name, value in expected.items():
        assert row[name] == pytest.approx(np.exp(value))
    assert (row["min"], row["max"]) == pytest.approx((np.exp(-1), np.exp(1)))
    assert row.tokens == 11


def test_ratios_are_clamped_as_in_the_loss_and_missing_ones_left_out(connection):
    row = ratio_quantiles(ratios([0.0, 50.0, None], connection)).iloc[0]
    assert row["max"] == pytest.approx(np.exp(20))
    assert row.tokens == 2


def test_steps_are_apart_and_in_order(connection):
    tokens = ratios([0.5], connection, step=2).union(ratios([0.1], connection, step=1))
    assert ratio_quantiles(tokens)[["step", "q50"]].values.tolist() == [
        [1, pytest.approx(np.exp(0.1))],
        [2, pytest.approx(np.exp(0.5))],
    ]


def shares(tokens, step):
    table = eight_groups(tokens)
    return table[table.step == step].set_index("group")


def test_each_sequence_goes_to_its_group(connection):
    rows = [
        # step 1 sets the threshold: sequence entropies 1, 2 and 3, median 2
        (1, 0, 0, 0, 0, 1.0, 0.0, 1.0, 0.0),
        (1, 0, 0, 1, 0, 1.0, 0.0, 2.0, 0.0),
        (1, 0, 0, 2, 0, 1.0, 0.0, 3.0, 0.0),
        # step 2: eight sequences, one per group, the kl of group k is k + 1, spread over two tokens
        *[
            (2, 0, 1, k, 0, a, r + wiggle, h, (k + 1) / 2)
            for k, (a, r, h) in enumerate(
                [(a, r, h) for a in (-0.5, 0.5) for r in (-0.1, 0.1) for h in (2.5, 1.5)]
            )
            for wiggle in (-0.3, 0.3)
        ],
        # neutral: no advantage; ratio 1 up to rounding
        (2, 0, 1, 8, 0, 0.0, 0.4, 1.0, 3.0),
        (2, 0, 0, 9, 0, 1.0, 1e-8, 1.0, 6.0),
    ]
    table = shares(relation(rows, connection), 2)
    assert list(table.index) == list(GROUPS)
    assert table.kl.tolist() == pytest.approx([1, 2, 3, 4, 5, 6, 7, 8, 9])
    assert table.sequences.tolist() == [1] * 8 + [2]
    assert table.share.tolist() == pytest.approx([k / 45 for k in range(1, 10)])


def test_without_kl_there_are_no_shares(connection):
    table = shares(relation([(1, 0, 0, 0, 0, 1.0, 0.0, 1.0, 0.0)], connection), 1)
    assert table.share.isna().all()
    assert table.sequences[NEUTRAL] == 1


def test_turns_and_updates_are_separate_sequences(connection):
    rows = [
        (1, epoch, 0, 0, turn, -1.0, -0.1 if epoch else 0.1, float(turn), 1.0)
        for epoch in (0, 1)
        for turn in (0, 1)
    ]
    table = shares(relation(rows, connection), 1)
    assert table.sequences.sum() == 4
    assert table.sequences["A<0 r<1 H high"] == table.sequences["A<0 r>1 H low"] == 1


def test_an_equal_entropy_is_low(connection):
    table = shares(relation([(1, 0, 0, 0, 0, 1.0, 0.2, 1.0, 1.0)], connection), 1)
    assert table.share["A>0 r>1 H low"] == 1.0

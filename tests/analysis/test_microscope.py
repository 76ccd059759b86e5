"""Which turns are shown, worked by hand, and the text of sampled ids."""

import duckdb
import pandas as pd
import pytest
from tokenizers import Tokenizer, decoders, models

from arena.analysis.microscope import Moment, moments, moved_turns, token_texts
from arena.records.reader import Cell


def steps(*rows):
    columns = ["env", "algo", "seed", "step", "out_of_band_low", "kl_behaviour_k3"]
    return pd.DataFrame(rows, columns=columns)


def test_without_an_alarm_the_step_that_left_the_band_most():
    frame = steps(
        ("e", "a", 0, 1, 0.1, 9.0),
        ("e", "a", 0, 2, 0.3, 0.1),
        ("e", "a", 0, 3, 0.3, 0.1),  # equal: the earlier one
        ("e", "a", 1, 1, 0.2, 0.5),  # less than the other seed: not shown
    )
    assert moments(frame, {}) == [Moment("e", "a", 0, 2, False)]


def test_equal_shares_are_decided_by_the_kl_and_missing_ones_are_lowest():
    frame = steps(("e", "a", 0, 1, 0.0, 0.1), ("e", "a", 0, 2, 0.0, 0.4), ("e", "a", 0, 3, None, 5.0))
    assert moments(frame, {}) == [Moment("e", "a", 0, 2, False)]


def test_two_methods_of_each_environment_alarms_first_and_earlier_ones_before():
    frame = steps(
        ("f", "a", 0, 1, 0.1, 0.0),
        ("e", "a", 0, 1, 0.9, 0.0),
        ("e", "b", 0, 1, 0.2, 0.0),
        ("e", "c", 0, 1, 0.3, 0.0),
        ("e", "c", 1, 1, 0.4, 0.0),
    )
    assert moments(frame, {}) == [
        Moment("e", "a", 0, 1, False),
        Moment("e", "c", 1, 1, False),
        Moment("f", "a", 0, 1, False),
    ]
    alarms = {("e", "b", 0): 17, ("e", "c", 0): 8, ("e", "c", 1): 9}
    assert moments(frame, alarms)[:2] == [Moment("e", "c", 0, 8, True), Moment("e", "b", 0, 17, True)]
    assert moments(frame.iloc[:0], {}) == []


@pytest.fixture
def connection():
    with duckdb.connect() as opened:
        yield opened


def turns(rows, connection, step=3, ids=None):
    columns = ["step", "epoch", "minibatch", "episode_id", "turn", "position", "log_ratio"]
    frame = pd.DataFrame(rows, columns=columns)
    frame["token_id"] = frame.episode_id + 100 * frame.turn if ids is None else ids
    found = moved_turns(connection.from_df(frame), step)
    return found[
        ["place", "episode_id", "turn", "epoch", "position", "log_ratio"]
    ].values.tolist(), found.moved


def test_the_turns_with_the_largest_mean_come_in_the_update_where_it_is_largest(connection):
    rows = [
        (3, 0, 0, 5, 0, 0, 0.5),  # mean 0.3
        (3, 0, 0, 5, 0, 1, -0.1),
        (3, 1, 0, 5, 0, 0, 0.2),  # the same turn in the next epoch: mean 0.4
        (3, 1, 0, 5, 0, 1, -0.6),
        (3, 0, 1, 2, 1, 0, -0.9),
        (3, 0, 1, 2, 0, 0, 0.35),
        (3, 0, 1, 1, 1, 0, 0.35),  # equal to the one before: the lower episode comes first
        (3, 0, 1, 9, 0, 0, None),
        (2, 0, 0, 7, 0, 0, 8.0),  # another step
    ]
    found, moved = turns(rows, connection)
    assert found == [
        [1, 2, 1, 0, 0, -0.9],
        [2, 5, 0, 1, 0, 0.2],
        [2, 5, 0, 1, 1, -0.6],
        [3, 1, 1, 0, 0, 0.35],
    ]
    assert moved.tolist() == pytest.approx([0.9, 0.4, 0.4, 0.35])


def test_a_response_is_shown_once_where_it_moved_most(connection):
    rows = [(3, 0, 0, 5, 0, 0, 0.2), (3, 0, 0, 6, 0, 0, 0.5), (3, 0, 0, 7, 0, 0, 0.1)]
    found, moved = turns(rows, connection, ids=[4, 4, 8])
    assert found == [[1, 6, 0, 0, 0, 0.5], [2, 7, 0, 0, 0, 0.1]]
    assert moved.tolist() == pytest.approx([0.5, 0.1])


def test_a_step_that_was_not_recorded_has_no_turns(connection):
    assert turns([(3, 0, 0, 5, 0, 0, 0.5)], connection, step=4)[0] == []


def cell(run):
    return Cell("e", "a", 0, run / "cells" / "e" / "a" / "seed-0", None, "done", 1, 1, None)


def save(tokenizer, folder):
    (folder / "model").mkdir(parents=True)
    tokenizer.save(str(folder / "model" / "tokenizer.json"))


def test_texts_come_from_the_start_unless_the_cell_has_a_tokenizer(tmp_path):
    def words(*vocabulary):
        tokenizer = Tokenizer(
            models.WordLevel({w: i for i, w in enumerate(vocabulary)}, unk_token=vocabulary[0])
        )
        tokenizer.decoder = decoders.Fuse()
        return tokenizer

    assert token_texts(cell(tmp_path), [1, 0]) == ["#1", "#0"]
    save(words("<think>", " up"), tmp_path / "bc" / "e" / "seed-0")
    assert token_texts(cell(tmp_path), [0, 1, 1]) == ["<think>", " up", " up"]
    save(words("<think>", " down"), cell(tmp_path).path)
    assert token_texts(cell(tmp_path), [0, 1]) == ["<think>", " down"]


def test_a_character_of_several_tokens_is_shown_once(tmp_path):
    letters = {
        "a": 0,
        "Ã": 1,
        "©": 2,
        "ð": 3,
        "Ł": 4,
        "ĺ": 5,
        "Ģ": 6,
    }  # a, the two bytes of é, the four of a grin
    tokenizer = Tokenizer(models.BPE(letters, []))
    tokenizer.decoder = decoders.ByteLevel()
    save(tokenizer, cell(tmp_path).path)
    texts = token_texts(cell(tmp_path), [0, 1, 2, 0, 3, 4, 5, 6, 0])
    assert "".join(texts) == "aéa\N{GRINNING FACE}a"
    assert (texts[0], texts[3], texts[8]) == ("a", "a", "a")

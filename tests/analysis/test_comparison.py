"""Comparisons of runs whose evaluations are written by hand."""

import math

import numpy as np
import pandas as pd
import pytest

from arena.analysis.comparison import as_json, compare
from arena.analysis.sides import choose_sides
from arena.errors import UsageError
from arena.records.files import write_json
from arena.records.schema import TABLES
from tests.synthetic import Size, write_cell, write_table

TASKS = 20
SIZE = Size(steps=4, groups=1, turns=1, tokens=4, eval_episodes=TASKS, eval_every=2)


def cell(run, env, algo, seed, *shares, size=SIZE, last_step=None, temperatures=(0.5, 1.0)):
    """A cell whose evaluations at steps 0, 2, 4 succeed on so many of the tasks; lower by 0.1 at temperature 1."""
    folder = write_cell(run, env, algo, seed, size, last_step=last_step)
    frames = [
        pd.DataFrame(
            {
                "step": 2 * i,
                "temperature": temperature,
                "episode": range(TASKS),
                "success": np.arange(TASKS) < round((share - 0.1 * (temperature == 1)) * TASKS),
            }
        )
        for i, share in enumerate(shares)
        for temperature in temperatures
    ]
    write_table(folder / "evals.parquet", "evals", pd.concat(frames))


def sides(root, a="a", b="b", run=None):
    return choose_sides(a, b, run, root)


def runs_of_finals(root, a, b, env="sokoban"):
    """Runs a and b, one cell per final success: seeds 0, 1, ..."""
    for name, finals in (("a", a), ("b", b)):
        for seed, final in enumerate(finals):
            cell(root / name, env, "grpo", seed, 0.5, 0.6, final)


def only_row(root, **options):
    (row,) = compare(*sides(root), **options).rows
    return row


def test_paths_and_the_paired_difference(tmp_path):
    runs_of_finals(tmp_path, [0.7, 0.3, 0.6], [0.8, 0.6, 0.8])
    row = only_row(tmp_path)
    assert (row.env, row.methods, row.temperature, row.seeds) == ("sokoban", ("grpo", "grpo"), 0.5, (0, 1, 2))
    assert row.a.start == 0.5
    # Peaks: the end; the mean of 0.5 and 0.6; the end and the mean of 0.6 and 0.6 alike.
    assert row.a.peak == pytest.approx((0.7 + 0.55 + 0.6) / 3)
    assert row.a.final == pytest.approx(1.6 / 3)
    assert row.a.drop == pytest.approx(0.25 / 3)
    assert row.a.relative_drop == pytest.approx(0.25 / 0.55 / 3)
    # 4 steps of 4 episodes of one turn of 4 tokens
    assert row.a.tokens == 64
    # Differences 0.1, 0.3, 0.2: mean 0.2, deviation 0.1, t(0.975, 2) = 4.3027.
    assert row.final.differences == pytest.approx((0.1, 0.3, 0.2))
    half = 4.3027 * 0.1 / math.sqrt(3)
    assert row.final.spread.interval == pytest.approx((0.2 - half, 0.2 + half))


@pytest.mark.parametrize(
    ("a", "b", "verdict", "words"),
    [
        ([0.4, 0.4, 0.4], [0.6, 0.65, 0.6], "better", "B is better"),
        ([0.6, 0.65, 0.6], [0.4, 0.4, 0.4], "worse", "B is worse"),
        ([0.6, 0.4], [0.6, 0.4], "equal", "no difference: the same in every seed"),
        ([0.6], [0.6], "equal", "no difference in the one seed"),
        ([0.6], [0.8], "open", "open: one seed gives no interval; it takes 3"),
        # Differences 0.1 and 0.3 need 7 seeds, by hand in test_statistics.
        (
            [0.5, 0.5],
            [0.6, 0.8],
            "open",
            "open: 2 seeds give no interval; it takes 3; about 7 seeds would show one of this size (an estimate)",
        ),
        # Differences 0.2, 0, 0.1: mean 0.1, deviation 0.1. n = 10: 2.2622 x 35/36 + 0.8416 sqrt(1 + 2.2622^2 / 18)
        # = 3.153, over sqrt(10) 0.997; n = 9: 2.3060 x 31/32 + 0.8416 sqrt(1 + 2.3060^2 / 16) = 3.205, over 3 1.07.
        (
            [0.5, 0.5, 0.5],
            [0.7, 0.5, 0.6],
            "open",
            "no difference that 3 seeds can show; about 10 seeds would show one of this size (an estimate)",
        ),
        # One episode more in every seed: no spread, so no interval.
        (
            [0.5, 0.55, 0.6],
            [0.55, 0.6, 0.65],
            "open",
            "open: the same in all 3 seeds, so no spread and no interval",
        ),
        ([0.5, 0.5], [0.6, 0.6], "open", "open: 2 seeds give no interval; it takes 3"),
        # Mean 0: no number of seeds.
        (
            [0.5, 0.5, 0.5],
            [0.6, 0.4, 0.5],
            "open",
            "no difference that 3 seeds can show; more than 1000 seeds would show one of this size (an estimate)",
        ),
    ],
)
def test_verdicts(tmp_path, a, b, verdict, words):
    runs_of_finals(tmp_path, a, b)
    row = only_row(tmp_path)
    assert (row.verdict, row.words) == (verdict, words)


def test_methods_of_a_run_and_other_temperatures(tmp_path):
    for seed in (0, 1):
        cell(tmp_path / "r", "sokoban", "grpo", seed, 0.5, 0.5, 0.6)
        cell(tmp_path / "r", "sokoban", "sampo", seed, 0.5, 0.5, 0.8)
    a, b = sides(tmp_path, "sampo", "grpo")
    found = compare(a, b, temperature=1.0)
    assert found.warnings == ()
    (row,) = found.rows
    assert (row.methods, row.temperature) == (("sampo", "grpo"), 1.0)
    assert (row.a.final, row.b.final) == (pytest.approx(0.7), pytest.approx(0.5))
    with pytest.raises(
        UsageError, match=r"seed 0 of A has no evaluation at temperature 0.7 .*\n?.*it has: 0.5, 1\."
    ):
        compare(a, b, temperature=0.7)


def test_runs_of_several_methods_pair_by_method(tmp_path):
    for name, final in (("a", 0.6), ("b", 0.8)):
        for algo in ("grpo", "sampo"):
            cell(tmp_path / name, "sokoban", algo, 0, 0.5, 0.5, final)
    cell(tmp_path / "b", "sokoban", "cispo", 0, 0.5, 0.5, 0.1)
    found = compare(*sides(tmp_path))
    assert [row.methods for row in found.rows] == [("grpo", "grpo"), ("sampo", "sampo")]
    assert found.warnings == ("B has cells without a finished partner, left out: sokoban cispo, seed 0",)


def test_runs_of_one_method_each_pair_across_methods(tmp_path):
    cell(tmp_path / "a", "sokoban", "grpo", 0, 0.5, 0.5, 0.6)
    cell(tmp_path / "b", "sokoban", "sampo", 0, 0.5, 0.5, 0.6)
    assert only_row(tmp_path).methods == ("grpo", "sampo")


def test_what_is_left_out_and_what_differs_is_said(tmp_path):
    runs_of_finals(tmp_path, [0.7, 0.7, 0.7, 0.7], [0.7])
    cell(tmp_path / "b", "sokoban", "grpo", 1, 0.5, 0.6, last_step=2)
    longer = Size(steps=5, groups=1, turns=1, tokens=4, eval_episodes=TASKS, eval_every=2)
    cell(tmp_path / "b", "sokoban", "grpo", 0, 0.5, 0.6, 0.7, size=longer)
    found = compare(*sides(tmp_path))
    assert found.rows[0].seeds == (0,)
    assert found.warnings == (
        "the recipes of sokoban differ beside the method, in (A; B): steps (4; 5)",
        "A has cells without a finished partner, left out: sokoban grpo, seeds 1, 2, 3",
        "B has cells without a finished partner, left out: sokoban grpo, seed 1 (failed)",
    )


def test_skipped_updates_are_warned_of(tmp_path):
    runs_of_finals(tmp_path, [0.7], [0.7])
    path = tmp_path / "b" / "cells" / "sokoban" / "grpo" / "seed-0" / "steps.parquet"
    steps = pd.read_parquet(path).assign(updates=1, skipped_updates=3)
    write_table(path, "steps", steps[[c.name for c in TABLES["steps"].columns]])
    (warning,) = compare(*sides(tmp_path)).warnings
    assert warning.startswith("B: sokoban/grpo/seed-0 took no step in 12 of 16 updates")


def test_nothing_in_common_says_what_each_has(tmp_path):
    cell(tmp_path / "a", "sokoban", "grpo", 0, 0.5, 0.5, 0.6)
    cell(tmp_path / "a", "sokoban", "grpo", 1, 0.5, 0.5, 0.6)
    cell(tmp_path / "b", "frozen_lake", "grpo", 0, 0.5, 0.5, 0.6)
    cell(tmp_path / "b", "sokoban", "grpo", 1, 0.5, 0.5, last_step=2)
    with pytest.raises(UsageError) as told:
        compare(*sides(tmp_path))
    assert str(told.value).splitlines() == [
        "A and B have no finished cell in common.",
        "  A, a: sokoban grpo, seeds 0, 1",
        "  B, b: frozen_lake grpo, seed 0; sokoban grpo, seed 1 (failed)",
    ]


def test_names_of_nothing_get_a_guess(tmp_path):
    cell(tmp_path / "first", "sokoban", "grpo", 0, 0.5, 0.5, 0.6)
    cell(tmp_path / "first", "sokoban", "sampo", 0, 0.5, 0.5, 0.6)
    cell(tmp_path / "second", "sokoban", "grpo", 0, 0.5, 0.5, 0.6)
    with pytest.raises(UsageError, match=r"unknown run 'secnod'. Did you mean 'second'\?"):
        sides(tmp_path, "first", "secnod")
    with pytest.raises(
        UsageError,
        match=r"unknown method 'smpo' of run 'first'. Did you mean 'sampo'\?.*first, second.*--run",
    ):
        sides(tmp_path, "grpo", "smpo", run="first")
    with pytest.raises(UsageError, match=r"unknown run 'frist'. Did you mean 'first'\?"):
        sides(tmp_path, "grpo", "sampo", run="frist")
    with pytest.raises(UsageError, match="A and B are the same: first"):
        sides(tmp_path, "first", str(tmp_path / "first"))
    with pytest.raises(UsageError, match="A and B are the same: grpo"):
        sides(tmp_path, "grpo", "grpo", run="first")
    write_json(tmp_path / "empty" / "manifest.json", {})
    with pytest.raises(UsageError, match="run 'empty' has no cells to compare"):
        sides(tmp_path, "grpo", "sampo", run="empty")


def test_json_has_shares_and_nulls(tmp_path):
    runs_of_finals(tmp_path, [0.5, 0.5], [0.6, 0.8])
    row = as_json(only_row(tmp_path))
    assert (row["interval"], row["why_no_interval"]) == (None, "2 seeds give no interval; it takes 3")
    assert row["final_difference"] == pytest.approx(0.2)
    assert row["by_seed"] == pytest.approx([0.1, 0.3])
    assert (row["verdict"], row["seeds_needed"], row["seeds"]) == ("open", 7, [0, 1])
    assert row["a"] == {
        "start": 0.5, "peak": pytest.approx(0.55), "final": 0.5, "drop": pytest.approx(0.05),
        "relative_drop": pytest.approx(0.05 / 0.55), "tokens": 64.0, "collapsed": 0, "late_falls": 0,
    }  # fmt: skip
    runs_of_finals(tmp_path / "same", [0.5] * 3, [0.6] * 3)
    row = as_json(only_row(tmp_path / "same"))
    assert (row["verdict"], row["interval"], row["seeds_needed"]) == ("open", None, None)
    assert row["why_no_interval"] == "the same in all 3 seeds, so no spread and no interval"


def test_a_fall_at_the_end_is_counted_apart(tmp_path):
    # Four training steps are fewer than the mean of five takes. 0.55 to 0.1: 8 of 20 tasks lost, 2 half of the time.
    runs_of_finals(tmp_path, [0.6, 0.6, 0.6], [0.1, 0.6, 0.5])
    row = only_row(tmp_path)
    assert (row.a.collapsed, row.a.late_falls) == (0, 0)
    assert (row.b.collapsed, row.b.late_falls) == (0, 1)


def test_several_intervals_are_wrong_more_often_than_one(tmp_path):
    runs_of_finals(tmp_path, [0.5, 0.4, 0.5], [0.7, 0.7, 0.6])
    assert compare(*sides(tmp_path)).chance is None
    runs_of_finals(tmp_path, [0.5, 0.4, 0.5], [0.7, 0.7, 0.6], env="frozen_lake")
    # An environment with one seed has no interval.
    runs_of_finals(tmp_path, [0.5], [0.7], env="sudoku")
    # 1 - 0.95^2 = 0.0975
    assert compare(*sides(tmp_path)).chance == (
        "Each interval is at 95 % on its own: of 2 without a true difference, one or more is expected to exclude 0 by "
        "chance in 10 % of comparisons."
    )

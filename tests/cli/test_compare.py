"""`arena compare` as typed, on runs whose finals are known: tests/analysis/test_comparison.py has the numbers."""

import json

import pytest

from arena.cli.compare import _signed
from tests.analysis.test_comparison import cell, runs_of_finals


def test_two_runs_in_one_screen(arena, runs):
    runs_of_finals(runs, [0.4, 0.4, 0.4], [0.6, 0.65, 0.6])
    result = arena("compare", "a", "b")
    assert (result.code, result.err) == (0, "")
    # Peaks of A: the mean of 0.5 and 0.6; drops 0.15 of 0.55. Of B: the end. Differences 20, 25, 20: deviation 2.887,
    # interval 21.667 +- 4.3027 x 2.887 / sqrt(3) = 7.17.
    assert result.out == (
        f"A: a (grpo; {runs}/a)\n"
        f"B: b (grpo; {runs}/b)\n"
        "\n"
        "Success in %, means over the seeds that both have; differences and falls in points\n"
        "\n"
        "cells           side   start  peak  final  peak to final  collapsed  tokens\n"
        "sokoban, T 0.5  A      50.0   55.0  40.0   15.0 (27 %)    0 of 3     64\n"
        "sokoban, T 0.5  B      50.0   61.7  61.7   0.0 (0 %)      0 of 3     64\n"
        "sokoban, T 0.5  B - A  +0.0   +6.7  +21.7  -15.0          -          x 1.00\n"
        "\n"
        "Final success, B - A in points, with Student's 95 % interval over seeds\n"
        "\n"
        "cells           B - A  interval        by seed        verdict\n"
        "sokoban, T 0.5  +21.7  +14.5 to +28.8  0 +, 1 +, 2 +  B is better\n"
    )


def test_methods_of_the_latest_run_and_of_a_named_one(arena, runs):
    for name in ("old", "new"):
        for env in ("frozen_lake", "sokoban"):
            cell(runs / name, env, "grpo", 0, 0.5, 0.5, 0.6)
            cell(runs / name, env, "sampo", 0, 0.5, 0.5, 0.7)
    result = arena("compare", "grpo", "sampo", "--run", "old")
    assert result.code == 0
    assert f"A: grpo (grpo; {runs}/old)" in result.out
    assert (
        "\nfrozen_lake, T 0.5  +10.0  -         0 +      open: one seed gives no interval; it takes 3\n"
        in (result.out)
    )
    assert f"{runs}/new)" in arena("compare", "grpo", "sampo").out
    assert "sokoban, T 1" in arena("compare", "grpo", "sampo", "--temperature", "1").out


def test_many_seeds_are_counted(arena, runs):
    runs_of_finals(runs, [0.5] * 9, [0.6] * 6 + [0.5] + [0.4] * 2)
    assert "  6 +, 2 -, 1 =  " in arena("compare", "a", "b").out


def test_what_fell_at_the_end_and_what_chance_does_are_said(arena, runs):
    for env in ("frozen_lake", "sokoban"):
        runs_of_finals(runs, [0.6, 0.6, 0.6], [0.1, 0.6, 0.5], env=env)
    told = arena("compare", "a", "b").out
    assert "0 of 3, 1 at the end" in told
    assert (
        "\nAt the end: the last evaluation is below half of the peak, and training success does not show"
        in told
    )
    assert "one or more is expected to exclude 0 by chance in 10 % of comparisons.\n" in told


def test_json(arena, runs):
    runs_of_finals(runs, [0.5], [0.6])
    found = json.loads(arena("compare", "a", "b", "--json").out)
    assert (found["a"], found["b"]["name"]) == ({"name": "a", "run": f"{runs}/a"}, "b")
    assert [row["verdict"] for row in found["rows"]] == ["open"]
    assert found["warnings"] == []


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("a", "bb"), "unknown run 'bb'"),
        (("grpo", "gspo"), "unknown method 'gspo' of run "),
        (("a", "c"), "A and B have no finished cell in common.\n  A, a: sokoban grpo, seed 0\n"),
        (("a", "b", "--temperature", "0"), "Temperatures it has: 0.5, 1."),
        (("a", "b", "--temperature", "-1"), "no evaluation at temperature -1"),
        (("a",), "Missing argument 'B'"),
    ],
)
def test_wrong_usage_exits_with_2(arena, runs, words, told):
    runs_of_finals(runs, [0.5], [0.6])
    cell(runs / "c", "frozen_lake", "grpo", 0, 0.5, 0.5, 0.6)
    result = arena("compare", *words)
    assert (result.code, result.out) == (2, "")
    assert told in result.err


def test_nothing_is_not_negative():
    assert [_signed(share) for share in (-0.0004, 0.0, 0.0123, -0.2)] == ["+0.0", "+0.0", "+1.2", "-20.0"]

"""The rule of verdicts, worked by hand."""

import math
from dataclasses import replace

import pytest
from scipy import stats

from arena.claims.base import Claim, Criterion, Outcome, all_of, as_json, judge, not_run, on_some
from arena.claims.cells import Missing, Need
from arena.claims.published import Number

LARGER, ALIKE = Criterion(smallest=2.0), Criterion(smallest=5.0, alike=True)


def verdict(values, bounds=LARGER, **options):
    return judge("x", dict(enumerate(values)), bounds, "points", **options)


def test_effect_and_interval_by_hand():
    found = verdict([10.0, 30.0, 20.0])
    # Mean 20, deviation 10, t(0.975, 2) = 4.3027: half width 24.84.
    half = 4.3027 * 10 / math.sqrt(3)
    assert (found.effect, found.low, found.high) == pytest.approx((20, 20 - half, 20 + half))
    assert (found.verdict, found.unit, found.seeds) == ("inconclusive", "points", (0, 1, 2))
    # A mean twice the deviation takes 5 seeds (tests/analysis/test_statistics.py): two more.
    assert found.more_seeds == 2
    assert found.explanation == "about 2 more seeds would decide it"


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([20.0, 25.0, 20.0], "reproduced"),
        ([-20.0, -25.0, -20.0], "not reproduced"),
        # Above 0 and below the smallest effect of interest: mean 1, half width 0.248.
        ([0.9, 1.0, 1.1], "not reproduced"),
        # Mean 2, half width 0.248: from 1.75 on, above 0, not below 2.
        ([1.9, 2.0, 2.1], "reproduced"),
        # Mean 1, half width 2.48: neither above 0 nor below 2.
        ([0.0, 1.0, 2.0], "inconclusive"),
        ([0.0, 0.0, 0.0], "inconclusive"),
        ([20.0, 20.0, 20.0], "inconclusive"),
        ([20.0, 21.0], "inconclusive"),
        ([], "inconclusive"),
    ],
)
def test_a_larger_one(values, expected):
    assert verdict(values).verdict == expected


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1.0, 0.0, -1.0], "reproduced"),
        # Half width 2.48 about 3: to 5.48.
        ([2.0, 3.0, 4.0], "inconclusive"),
        ([7.0, 8.0, 9.0], "not reproduced"),
        ([-7.0, -8.0, -9.0], "not reproduced"),
        ([0.0, 0.0, 0.0], "inconclusive"),
    ],
)
def test_two_alike(values, expected):
    assert verdict(values, ALIKE).verdict == expected


def test_what_few_or_equal_seeds_leave_open():
    one, two, same = verdict([20.0]), verdict([20.0, 21.0]), verdict([20.0] * 4)
    assert (one.low, one.more_seeds) == (None, 2)
    assert one.explanation == "one seed gives no interval; it takes 3"
    assert two.more_seeds == 1
    assert (same.low, same.more_seeds) == (None, None)
    assert same.explanation == "the same in all 4 seeds, so no spread and no interval"
    fixed = verdict([20.0] * 4, fixed=True)
    assert (fixed.verdict, fixed.low, fixed.high) == ("reproduced", 20.0, 20.0)


def test_to_lie_within_a_margin_takes_nine_in_ten_of_either_end():
    # Mean 0, deviation 4, margin 5: 10 seeds for 80 % of one end, 11 to 13 for 90 %.
    found = verdict([4.0, -4.0, 0.0], ALIKE)
    power = [
        stats.nct.sf(stats.t.ppf(0.975, n - 1), n - 1, 5 * math.sqrt(n) / 4)
        for n in (2 + found.more_seeds, 3 + found.more_seeds)
    ]
    assert power[0] < 0.9 <= power[1] + 1e-3


def test_without_all_environments_a_verdict_is_of_those_looked_at():
    whole = verdict([20.0, 25.0, 20.0], explanation="told")
    assert on_some(whole, ("a", "b"), ("a", "b")) is whole
    some = on_some(whole, ("a",), ("a", "b"))
    assert (some.verdict, some.effect, some.more_seeds) == ("inconclusive", whole.effect, None)
    assert some.explanation == "told; reproduced on a alone, 1 of 2 environments"
    # More seeds would not make up for an environment.
    assert verdict([10.0, 30.0, 20.0], complete=False).explanation == ""


def test_missing_values_are_left_out():
    assert verdict([20.0, math.nan, 25.0, 20.0]).seeds == (0, 2, 3)
    nothing = verdict([math.nan])
    assert (nothing.effect, nothing.explanation) == (None, "no seed has a value")


def test_no_number_of_seeds_decides_an_effect_on_the_bound():
    # Alike within 5, at 5 on average: distance 0.
    found = verdict([4.0, 5.0, 6.0], ALIKE)
    assert (found.verdict, found.more_seeds) == ("inconclusive", None)
    assert found.explanation == "more than 1000 seeds would not decide it"


def part(verdict, effect=1.0, more=None):
    return Outcome(f"{verdict} {effect}", verdict, "why", "points", effect, more_seeds=more)


def test_a_claim_of_parts_holds_if_all_do():
    good, weak = part("reproduced", 9.0), part("reproduced", 3.0)
    assert all_of([good]) is good
    both = all_of([good, weak])
    assert (both.verdict, both.effect, both.parts) == ("reproduced", 3.0, (good, weak))
    assert both.explanation == "of 2 parts 2 reproduced; decided by: reproduced 3.0"
    open_, missing, bad = (
        part("inconclusive", 4.0, more=7),
        part("not run", None),
        part("not reproduced", -1.0),
    )
    waits = all_of([good, open_, part("inconclusive", 5.0, more=9)])
    assert (waits.verdict, waits.effect, waits.more_seeds) == ("inconclusive", 4.0, 9)
    assert all_of([good, open_, part("inconclusive", 5.0)]).more_seeds is None
    assert all_of([good, open_, missing]).verdict == "not run"
    assert all_of([good, open_, missing, bad]).verdict == "not reproduced"
    assert (
        all_of([missing, bad]).explanation
        == "of 2 parts 1 not run, 1 not reproduced; decided by: not reproduced -1.0"
    )


def test_what_is_missing_of_several_parts_is_made_by_one_command():
    need = Need("cpu", ("grpo", "gspo"), ("sokoban",))
    parts = [not_run("a", "points", [Missing(need, (0, 1))])]
    parts.append(not_run("b", "points", [Missing(replace(need, algos=("grpo", "sampo")), (0, 1))]))
    whole = all_of(parts)
    assert whole.explanation == "cells are missing: grpo, gspo, sampo on sokoban (cpu), seeds 0, 1"
    assert whole.parts == tuple(parts)
    assert [m.command for m in whole.missing] == [
        "arena run --tier cpu --algos grpo,gspo,sampo --envs sokoban --num-seeds 2 --name claims-cpu"
    ]


def test_as_json_has_numbers_parts_and_commands():
    claim = Claim("n", "s", "src", "how", (), (Number("GRPO", "62.36", "t", "%"),))
    inner = replace(part("not run", None), missing=(Missing(Need("cpu", ("grpo",), ("sokoban",)), (3,)),))
    told = as_json(claim, all_of([inner, replace(part("reproduced"), equal_tokens=part("reproduced", 0.5))]))
    assert told["published"] == [{"label": "GRPO", "value": "62.36", "table": "t", "unit": "%"}]
    command = "arena run --tier cpu --algos grpo --envs sokoban --seeds 3 --name claims-cpu"
    assert (told["claim"], told["verdict"], told["effect"], told["commands"]) == (
        "n",
        "not run",
        None,
        [command],
    )
    assert [p["verdict"] for p in told["parts"]] == ["not run", "reproduced"]
    assert told["parts"][1]["equal_tokens"]["effect"] == 0.5

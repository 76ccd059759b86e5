"""Planted effects give the verdicts that they should."""

import dataclasses
import math

import pytest

from arena.claims.cells import Need
from arena.claims.contrast import FALL, FINAL, LOST, SECONDS, STATE, Arm, Contrast, balanced
from arena.records.files import JobStatus, write_status
from arena.records.layout import place
from tests.claims.planted import plant, pool_of

NEED = Need("cpu", ("grpo", "sampo"), ("sokoban",))
CONTRAST = Contrast("sampo ends above grpo", "cpu", Arm(("sampo",)), Arm(("grpo",)), ("sokoban",), FINAL)


def finals(run, a, b, env="sokoban", **options):
    """Seeds 0, 1, ... of sampo (a) and grpo (b), all from 0.5."""
    for algo, values in (("sampo", a), ("grpo", b)):
        for seed, value in enumerate(values):
            plant(run, NEED, env, algo, seed, 0.5, 0.5, value, **options)
    return run


def test_effect_and_interval_by_hand(tmp_path):
    found = CONTRAST.test(pool_of(finals(tmp_path / "r", [0.8, 0.6, 0.8], [0.7, 0.3, 0.6])))
    # Differences 10, 30, 20 points: mean 20, deviation 10, t(0.975, 2) = 4.3027.
    half = 4.3027 * 10 / math.sqrt(3)
    assert (found.effect, found.low, found.high) == pytest.approx((20, 20 - half, 20 + half))
    assert (found.verdict, found.more_seeds, found.seeds) == ("inconclusive", 2, (0, 1, 2))
    assert found.explanation == "final success: 73.33 against 53.33; about 2 more seeds would decide it"
    # The same number of tokens: the same figure.
    assert found.equal_tokens is not None
    assert (found.equal_tokens.effect, found.equal_tokens.low) == (found.effect, found.low)


@pytest.mark.parametrize(
    ("a", "b", "claimed", "verdict"),
    [
        ([0.8, 0.85, 0.8], [0.5, 0.5, 0.5], "more", "reproduced"),
        ([0.8, 0.85, 0.8], [0.5, 0.5, 0.5], "less", "not reproduced"),
        ([0.5, 0.5, 0.5], [0.5, 0.5, 0.5], "more", "inconclusive"),
        ([0.5, 0.5, 0.55], [0.5, 0.55, 0.5], "more", "inconclusive"),
        ([0.8, 0.3, 0.8], [0.5, 0.5, 0.5], "more", "inconclusive"),
        ([0.5, 0.5, 0.5], [0.5, 0.5, 0.5], "same", "inconclusive"),
        ([0.8, 0.85, 0.8], [0.5, 0.5, 0.5], "same", "not reproduced"),
    ],
)
def test_planted_verdicts(a, b, claimed, verdict, tmp_path):
    contrast = dataclasses.replace(CONTRAST, claimed=claimed)
    assert contrast.test(pool_of(finals(tmp_path / "r", a, b))).verdict == verdict


def test_missing_cells_name_the_command(tmp_path):
    plant(tmp_path / "r", NEED, "sokoban", "grpo", 0, 0.5, 0.5)
    found = CONTRAST.test(pool_of(tmp_path / "r"))
    assert (found.verdict, found.effect) == ("not run", None)
    assert found.explanation == "cells are missing: sampo, grpo on sokoban (cpu), seeds 0-4"
    assert [m.command for m in found.missing] == [
        "arena run --tier cpu --algos sampo,grpo --envs sokoban --num-seeds 5 --name claims-cpu "
        f"--reuse {tmp_path}/r"
    ]


def test_seeds_average_over_environments_and_the_one_without_cells_is_named(tmp_path):
    finals(tmp_path / "r", [0.8, 0.85, 0.8], [0.5, 0.5, 0.5])
    finals(tmp_path / "r", [0.6, 0.6, 0.6, 0.6], [0.5, 0.5, 0.5, 0.5], env="frozen_lake")
    contrast = dataclasses.replace(CONTRAST, envs=("sokoban", "frozen_lake", "webshop"))
    found = contrast.test(pool_of(tmp_path / "r"))
    # (30 + 10) / 2, (35 + 10) / 2, (30 + 10) / 2
    assert (found.verdict, found.seeds) == ("inconclusive", (0, 1, 2))
    assert found.effect == pytest.approx((20 + 22.5 + 20) / 3)
    assert "by environment sokoban +31.7, frozen_lake +10.0" in found.explanation
    assert found.explanation.endswith(
        "without webshop: no cells, or no values, of these seeds; "
        "reproduced on sokoban, frozen_lake alone, 2 of 3 environments"
    )
    assert [m.need.envs for m in found.missing] == [("webshop",)]
    assert dataclasses.replace(contrast, envs=contrast.envs[:2]).test(pool_of(tmp_path / "r")).verdict == (
        "reproduced"
    )


def test_seeds_and_environments_are_balanced():
    seeds, envs = balanced({"a": {0, 1, 2}, "b": {0, 1, 2, 3}, "c": {2, 9}, "d": set()})
    assert (seeds, envs) == ((0, 1, 2), ("a", "b"))
    assert balanced({"a": {0}, "b": {0, 1}}) == ((0, 1), ("b",))
    assert balanced({"a": set()}) == ((), ())


def test_methods_of_a_side_count_alike(tmp_path):
    for algo, final in (("gspo", 0.7), ("sampo", 0.9), ("grpo", 0.5)):
        for seed, extra in enumerate((0.0, 0.05, 0.1)):
            plant(tmp_path / "r", NEED, "sokoban", algo, seed, 0.5, final + (extra if algo != "grpo" else 0))
    contrast = dataclasses.replace(CONTRAST, a=Arm(("gspo", "sampo")))
    assert contrast.test(pool_of(tmp_path / "r")).effect == pytest.approx(35)


def test_at_equal_tokens_the_verdict_may_be_another(tmp_path):
    """Sampo samples twice as much; at grpo's total it is below grpo. The verdict follows steps."""
    run = tmp_path / "r"
    for seed, (half, final) in enumerate(((0.4, 0.8), (0.35, 0.85), (0.4, 0.8))):
        plant(run, NEED, "sokoban", "sampo", seed, 0.5, 0.5, half, half, final, tokens=200)
        plant(run, NEED, "sokoban", "grpo", seed, 0.5, 0.5, 0.5)
    found = CONTRAST.test(pool_of(run))
    assert (found.verdict, found.effect) == ("reproduced", pytest.approx(95 / 3))
    assert found.equal_tokens is not None
    assert (found.equal_tokens.verdict, found.equal_tokens.effect) == (
        "not reproduced",
        pytest.approx(-35 / 3),
    )
    assert found.explanation.endswith("at equal sampled tokens not reproduced")


def test_sides_may_differ_in_the_recipe(tmp_path):
    """The staleness claim's cells: the same method, in runs of their own."""
    few, many = ("optim.minibatches=2",), ("optim.minibatches=8",)
    contrast = Contrast("x", "cpu", Arm(("grpo",), few), Arm(("grpo",), many), ("sokoban",), FINAL)
    for changes, final in ((few, 0.9), (many, 0.5)):
        for seed in range(3):
            need = Need("cpu", ("grpo",), ("sokoban",), changes)
            value = final + (0.05 if seed == 1 and changes == few else 0)
            plant(tmp_path / need.run, need, "sokoban", "grpo", seed, 0.5, value)
    runs = [tmp_path / need.run for need in contrast.needs]
    assert [run.name for run in runs] == ["claims-cpu-minibatches-2", "claims-cpu-minibatches-8"]
    assert contrast.test(pool_of(*runs)).effect == pytest.approx((40 + 45 + 40) / 3)
    assert contrast.test(pool_of(runs[0])).verdict == "not run"


@pytest.mark.parametrize(("measure", "value"), [(FINAL, 30.0), (FALL, 25.0), (LOST, 100 * 0.25 / 0.55)])
def test_measures_of_a_path(measure, value, tmp_path):
    # Peak: the mean of 0.5 and 0.6.
    plant(tmp_path / "r", NEED, "sokoban", "grpo", 0, 0.5, 0.6, 0.3)
    cells = pool_of(tmp_path / "r")
    assert measure.of(cells.records(cells.cells[0])) == pytest.approx(value)


def test_the_share_lost_comes_with_the_count_of_collapses(tmp_path):
    run = tmp_path / "r"
    training = [0.6] * 40 + [0.05] * 37
    for seed in range(3):
        plant(run, NEED, "sokoban", "sampo", seed, 0.5, 0.6, 0.6)
        plant(run, NEED, "sokoban", "grpo", seed, 0.5, 0.6, 0.05 * seed, success=training)
    found = dataclasses.replace(CONTRAST, measure=LOST, claimed="less").test(pool_of(run))
    assert found.verdict == "reproduced"
    # Lost of 55 %: all, all but 5, all but 10.
    assert found.effect == pytest.approx(100 * (1 + 50 / 55 + 45 / 55) / 3)
    assert "collapsed 0 of 3 cells against 3 of 3 cells" in found.explanation


def test_time_and_state_are_shares_of_the_other_sides(tmp_path):
    run = tmp_path / "r"
    for algo, seconds, size in (("sampo", 0.75, 500), ("grpo", 1.0, 1000)):
        for seed in range(3):
            noise = 0.01 * seed if algo == "sampo" else 0.0
            parts = {
                "seconds_rollout": seconds / 2 + noise,
                "seconds_scoring": 0.0,
                "seconds_update": seconds / 2,
            }
            folder = plant(run, NEED, "sokoban", algo, seed, 0.5, 0.5, **parts)
            (folder / "checkpoint").mkdir()
            (folder / "checkpoint" / "state.pt").write_bytes(b"x" * size)
    cells = pool_of(run)
    time = dataclasses.replace(CONTRAST, measure=SECONDS, claimed="less").test(cells)
    assert (time.verdict, time.effect, time.equal_tokens) == ("reproduced", pytest.approx(24), None)
    state = dataclasses.replace(CONTRAST, measure=STATE, claimed="less").test(cells)
    assert (state.verdict, state.effect, state.low) == ("reproduced", 50, 50)


def test_time_is_compared_between_cells_that_record_alike(tmp_path):
    run, slow = tmp_path / "r", ("record.grad_by_role=true",)
    parts = {"seconds_rollout": 1.0, "seconds_scoring": 0.0, "seconds_update": 1.0}
    for seed in range(3):
        plant(run, NEED, "sokoban", "sampo", seed, 0.5, 0.5, **parts)
        need = dataclasses.replace(NEED, changes=slow if seed else ())
        plant(run, need, "sokoban", "grpo", seed, 0.5, 0.5, **parts)
    cells = pool_of(run)
    assert dataclasses.replace(CONTRAST, measure=SECONDS).test(cells).seeds == (0,)
    assert CONTRAST.test(cells).seeds == (0, 1, 2)  # what they learn is the same


def test_cells_that_skipped_updates_are_counted(tmp_path):
    run = finals(tmp_path / "r", [0.8], [0.5], updates=3, skipped_updates=1, nonfinite=1)
    assert "2 of the cells skipped updates" in CONTRAST.test(pool_of(run)).explanation


def test_a_seed_whose_cell_failed_is_left_out_and_told(tmp_path):
    run = finals(tmp_path / "r", [0.8, 0.85, 0.8, 0.9], [0.5, 0.5, 0.5, 0.5])
    write_status(
        run / place("sokoban", "grpo", 3), JobStatus("failed", "h", 3, 77, 0.5, "the loss is not finite")
    )
    found = CONTRAST.test(pool_of(run))
    assert (found.verdict, found.seeds, found.missing) == ("reproduced", (0, 1, 2), ())
    assert found.explanation.endswith("not counted: 1 cell failed")

"""The share of KL before a collapse, planted."""

from dataclasses import replace

import pandas as pd
import pytest

from arena.analysis.tokens import eight_groups
from arena.claims import cells
from arena.claims.cells import Need, pool
from arena.claims.kl_share import ShareRises
from arena.records.reader import map_cells, read_run
from tests.claims.planted import plant, pool_of
from tests.synthetic import write_table

NEED = Need("cpu-stress", ("cispo", "gspo"), ("sokoban",))
RISES = ShareRises("the share rises", "cpu-stress", ("cispo",), ("sokoban",))
MORE = ShareRises("it rises more", "cpu-stress", ("cispo",), ("sokoban",), control="gspo")
STEPS = 40
#: Training success falls for good at step 21; the running mean of five is below 3/4 of 0.6 two steps later.
FALLS = [0.6] * 20 + [0.0] * 20
ONSET = 22


def cell(run, algo, seed, before, later, collapses=True):
    """Sequences of A<0, r<1 carry `before` of the KL up to the sixth step before the onset, `later` from then on."""
    success, final = (FALLS, 0.0) if collapses else (0.6, 0.6)
    folder = plant(run, NEED, "sokoban", algo, seed, 0.5, 0.6, 0.6, final, success=success)
    frames = []
    for step in range(1, STEPS + 1):
        share = before if step < ONSET - 5 else later
        rows = {"advantage": [-1.0, 1.0], "log_ratio": [-0.1, 0.1], "kl_ref": [share, 1 - share]}
        same = {"step": step, "epoch": 0, "minibatch": 1, "turn": 0, "entropy": 1.0}
        frames.append(pd.DataFrame(rows).assign(episode_id=[0, 1], **same))
    write_table(folder / "tokens" / "step-00001.parquet", "tokens", pd.concat(frames))


def test_a_rise_before_the_onset_by_hand(tmp_path):
    for seed, later in enumerate((0.5, 0.6, 0.7)):
        cell(tmp_path / "r", "cispo", seed, 0.2, later)
    found = RISES.test(pool_of(tmp_path / "r"))
    # 30, 40 and 50 points: mean 40, half width 4.3027 x 10 / sqrt(3) = 24.84.
    assert (found.effect, found.low, found.high) == pytest.approx((40, 40 - 24.842, 40 + 24.842), abs=1e-3)
    assert (found.verdict, found.seeds) == ("reproduced", (0, 1, 2))
    assert found.explanation == "3 of 3 cells collapsed"


def test_a_rise_in_all_that_trains_is_taken_off(tmp_path):
    for seed, later in enumerate((0.5, 0.6, 0.7)):
        cell(tmp_path / "r", "cispo", seed, 0.2, later)
        cell(tmp_path / "r", "gspo", seed, 0.2, later + 0.01 * (seed - 1), collapses=False)
    found = MORE.test(pool_of(tmp_path / "r"))
    # 1, 0 and -1 points.
    assert (found.verdict, found.effect) == ("not reproduced", pytest.approx(0, abs=1e-4))


def test_a_share_that_does_not_rise_is_not_reproduced(tmp_path):
    for seed in range(3):
        cell(tmp_path / "r", "cispo", seed, 0.5, 0.2 + 0.01 * seed)
    assert RISES.test(pool_of(tmp_path / "r")).verdict == "not reproduced"


def test_without_a_collapse_there_is_nothing_to_see(tmp_path):
    cell(tmp_path / "r", "cispo", 0, 0.2, 0.5, collapses=False)
    found = RISES.test(pool_of(tmp_path / "r"))
    assert (found.verdict, found.effect, found.more_seeds) == ("inconclusive", None, None)
    assert found.explanation == "0 of 1 cells collapsed; no seed has a value"


def test_without_cells_or_control_it_is_not_run(tmp_path):
    cell(tmp_path / "r", "cispo", 0, 0.2, 0.5)
    found = MORE.test(pool_of(tmp_path / "r"))
    assert found.verdict == "not run"
    assert "--algos gspo --envs sokoban" in found.missing[0].command.replace("cispo,", "")


def test_a_seed_counts_with_the_cells_of_all_its_methods(tmp_path):
    both = replace(RISES, algos=("cispo", "sapo-soft"))
    for seed, later in enumerate((0.5, 0.6, 0.7)):
        cell(tmp_path / "r", "cispo", seed, 0.2, later)
    found = both.test(pool_of(tmp_path / "r"))
    assert found.verdict == "not run"
    assert "--algos sapo-soft" in found.missing[0].command
    cell(tmp_path / "r", "sapo-soft", 1, 0.2, 0.8)
    found = both.test(pool_of(tmp_path / "r"))
    # 40 and 60 points.
    assert (found.seeds, found.effect) == ((1,), pytest.approx(50))
    assert found.explanation.startswith("2 of 2 cells collapsed; one seed gives no interval")


def test_groups_that_are_known_are_not_computed_again(tmp_path, monkeypatch):
    for seed, later in enumerate((0.5, 0.6, 0.7)):
        cell(tmp_path / "r", "cispo", seed, 0.2, later)
    run = read_run(tmp_path / "r")
    groups = map_cells(run.cells, "tokens", eight_groups)
    computed = RISES.test(pool([run]))
    monkeypatch.delattr(cells, "eight_groups")
    assert RISES.test(pool([run], groups)) == computed
    assert RISES.test(pool([run], groups.assign(share=0.5))).effect == 0  # those given are those used

"""A planted relation of energy and variance, and none."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from arena.claims.cells import Need
from arena.claims.energy_correlation import EnergyCorrelation
from tests.claims.planted import plant, pool_of
from tests.synthetic import write_table

NEED = Need("cpu", ("grpo",), ("sokoban",))
ACTION = EnergyCorrelation("action", "cpu", "grpo", ("sokoban",), "energy_action")
THINK = EnergyCorrelation("think", "cpu", "grpo", ("sokoban",), "energy_think", none=True)


def cell(run, seed, ranks):
    """Four tasks of two rollouts in step 1, whose rewards differ by 1, 2, 3, 4; action energies in order of `ranks`."""
    folder = plant(run, NEED, "sokoban", "grpo", seed, 0.5, 0.5)
    group = np.repeat(np.arange(4), 2)
    episodes = {
        "step": 1,
        "group_id": group,
        "episode_id": np.arange(8),
        "reward": np.tile([0, 1], 4) * (1 + group),
        "energy_action": np.array(ranks)[group],
        # 2, 4, 1, 3 beside 1 to 4: squared rank differences 1, 4, 4, 1, so 1 - 6 x 10 / 60 = 0.
        "energy_think": np.array([2, 4, 1, 3])[group],
    }
    write_table(folder / "episodes" / "step-00001.parquet", "episodes", pd.DataFrame(episodes))


def test_correlations_by_hand(tmp_path):
    # All in order, one swap of neighbours (1 - 6 x 2 / 60 = 0.8), two of them (1 - 6 x 4 / 60 = 0.6).
    for seed, ranks in enumerate(([1, 2, 3, 4], [2, 1, 3, 4], [2, 1, 4, 3])):
        cell(tmp_path / "r", seed, ranks)
    cells = pool_of(tmp_path / "r")
    found = ACTION.test(cells)
    # Mean 0.8, deviation 0.2, half width 4.3027 x 0.2 / sqrt(3) = 0.4968.
    assert (found.effect, found.low) == pytest.approx((0.8, 0.3032), abs=1e-4)
    assert (found.verdict, found.explanation) == ("reproduced", "by environment sokoban +0.80")
    # 0 in every seed: no spread, so nothing says that it is 0 beyond these tasks.
    assert THINK.test(cells).verdict == "inconclusive"
    assert THINK.test(cells).effect == pytest.approx(0)


def test_the_other_way_round_is_not_reproduced(tmp_path):
    for seed, ranks in enumerate(([4, 3, 2, 1], [4, 3, 1, 2], [3, 4, 1, 2])):
        cell(tmp_path / "r", seed, ranks)
    assert ACTION.test(pool_of(tmp_path / "r")).verdict == "not reproduced"


def test_without_cells_or_energies(tmp_path):
    plant(tmp_path / "r", Need("cpu", (), ()), "sudoku", "grpo", 0, 0.5, 0.5)
    assert ACTION.test(pool_of(tmp_path / "r")).verdict == "not run"
    plant(tmp_path / "r", NEED, "sokoban", "grpo", 0, 0.5, 0.5)
    found = ACTION.test(pool_of(tmp_path / "r"))
    assert (found.verdict, found.effect) == ("inconclusive", None)
    assert found.explanation.endswith("no seed has a value")


def test_an_environment_without_energies_does_not_pass_for_one_with_them(tmp_path):
    for seed, ranks in enumerate(([1, 2, 3, 4], [2, 1, 3, 4], [2, 1, 4, 3])):
        cell(tmp_path / "r", seed, ranks)
        plant(tmp_path / "r", NEED, "sudoku", "grpo", seed, 0.5, 0.5)
    found = replace(ACTION, envs=("sokoban", "sudoku")).test(pool_of(tmp_path / "r"))
    assert (found.verdict, found.effect) == ("inconclusive", pytest.approx(0.8))
    assert found.explanation == (
        "by environment sokoban +0.80; without sudoku: no cells, or no values, of these seeds; "
        "reproduced on sokoban alone, 1 of 2 environments"
    )

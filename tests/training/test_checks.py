"""Every exact check finds its input in the records of real training, and nothing wrong with them."""

from __future__ import annotations

import pytest

from arena.analysis.detectors import DETECTORS
from arena.analysis.detectors.base import CellRecords, Status
from arena.analysis.detectors.examine import examine
from arena.records.layout import place
from arena.records.reader import read_run
from arena.training.cell import run_cell
from tests.training.conftest import silent, tiny

CHECKS = [detector for detector in DETECTORS.values() if detector.kind == "check"]
TRAJECTORY = {"rollout": {"layout": "trajectory"}, "optim": {"sequence": "trajectory"}}
HISTORY = {"env": {"history": 2}, "optim": {"epochs": 2}, "record": {"token_fraction": 0.5}}


@pytest.mark.parametrize(
    ("algo", "changes"),
    [
        # Every advantage rule, filter, mask, weighting and value source of the catalog.
        *((a, {}) for a in ("grpo-sm", "sampo:cold_start=0", "empg", "dr-grpo", "rloo", "reinforce++")),
        *((a, {}) for a in ("ppo-actfocus", "ppo-turn", "sapo-sr", "cispo+tis")),
        *((a, TRAJECTORY) for a in ("gspo", "ppo", "sapo-sr")),
        ("gigpo", HISTORY),
    ],
)
def test_no_check_fires_on_real_training(start, tmp_path, algo, changes):
    recipe = tiny(algo, steps=2, **changes)
    run_cell(recipe, tmp_path / place("frozen_lake", algo, 0), start, silent)
    (cell,) = read_run(tmp_path).cells
    verdicts = {detector.name: verdict for detector, verdict in examine(CellRecords.of(cell), CHECKS)}
    assert {name: v.summary for name, v in verdicts.items() if v.alarm} == {}
    assert [name for name, v in verdicts.items() if v.status == Status.SKIPPED] == []

"""Evaluation: the same held-out tasks and noise every time, and rows that say what happened."""

import pytest
import torch

from arena.seeding import EVAL_SEED_START, eval_task_seed
from arena.training.evaluation import evaluate, success_rate, temperatures
from tests.training.conftest import tiny


def test_temperatures():
    assert temperatures(tiny(), step=0) == [0.0, 0.5, 1.0]
    assert temperatures(tiny(), step=4) == [0.5, 1.0]
    assert temperatures(tiny(eval={"temperature": 1.0}), step=0) == [0.0, 0.5, 1.0]
    assert temperatures(tiny(eval={"temperature": 0.0}), step=4) == [0.0, 1.0]


def test_rows(world):
    rows = evaluate(world.model, world.roller, tiny(), step=0)
    assert [(r["temperature"], r["episode"]) for r in rows] == [
        (t, i) for t in (0.0, 0.5, 1.0) for i in range(4)
    ]
    tasks = [eval_task_seed("frozen_lake", 0, i) for i in range(4)]
    assert [r["task_seed"] for r in rows] == tasks * 3
    assert min(tasks) >= EVAL_SEED_START
    for row in rows:
        assert row["step"] == 0
        assert row["success"] == (row["reward"] == 1.0)
        assert row["truncated"] == (row["turns"] == 7 and not row["success"])
        assert 0 <= row["valid_turns"] <= row["turns"] <= row["response_tokens"]
    # Every successful episode of a 3 x 3 lake takes at least four moves.
    assert all(row["turns"] >= 4 for row in rows if row["success"])


def test_every_evaluation_meets_the_same_tasks_and_noise(world):
    first = evaluate(world.model, world.roller, tiny(), step=2)
    torch.manual_seed(5)
    second = evaluate(world.model, world.roller, tiny(), step=4)
    assert [{**row, "step": 4} for row in first] == second


def test_each_temperature_is_evaluated_on_its_own(world):
    together = evaluate(world.model, world.roller, tiny(), step=0)
    alone = evaluate(world.model, world.roller, tiny(), step=0, at=[0.5])
    assert [row for row in together if row["temperature"] == 0.5] == alone


def test_evaluation_leaves_the_global_stream_alone(world):
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    evaluate(world.model, world.roller, tiny(), step=2, at=[1.0])
    assert torch.equal(torch.rand(2), expected)


def test_success_rate_is_per_temperature():
    rows = [{"temperature": 0.5, "success": s} for s in (True, False, True, True)]
    rows += [{"temperature": 1.0, "success": False}]
    assert success_rate(rows, 0.5) == 0.75
    assert success_rate(rows, 1.0) == 0.0
    with pytest.raises(ZeroDivisionError):
        success_rate(rows, 2.0)

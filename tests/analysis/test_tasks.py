"""Which evaluation episodes share a task: asked of the environment, by the seeds that records hold."""

import math

import pandas as pd
import pytest

from arena.analysis.summary import summarise_cells
from arena.analysis.tasks import largest_error, task_numbers
from arena.envs.frozen_lake import FrozenLake
from arena.records.reader import load_evals, load_steps, read_run
from arena.seeding import eval_task_seed
from tests.synthetic import Size, write_cell, write_table

SIZE = Size(steps=2, groups=1, turns=1, tokens=2, eval_episodes=40, eval_every=1)


def only_cell(run, env="frozen_lake"):
    write_cell(run, env, "grpo", 0, SIZE)
    (cell,) = read_run(run).cells
    return cell


def with_seeds(cell, seeds):
    evals = load_evals([cell])
    return evals.assign(task_seed=[seeds[episode] for episode in evals.episode])


def test_lakes_that_look_alike_are_one_task(tmp_path):
    cell = only_cell(tmp_path)
    seeds = [eval_task_seed("frozen_lake", 0, i) for i in range(40)]
    env = FrozenLake(max_turns=cell.recipe.env.max_turns)
    lakes = [env.reset(seed=seed)[0] for seed in seeds]
    numbers = task_numbers(cell, with_seeds(cell, seeds))
    assert list(numbers) == list(range(40))
    assert len(set(lakes)) == len(set(numbers.values())) < 40
    for i in range(40):
        assert lakes.index(lakes[i]) == list(numbers.values()).index(numbers[i])


def test_the_summary_counts_by_task(tmp_path):
    cell = only_cell(tmp_path)
    evals = load_evals([cell])
    # One lake for all, another for the last episode.
    seeds = [eval_task_seed("frozen_lake", 0, 0)] * 39 + [eval_task_seed("frozen_lake", 0, 2)]
    success = (evals.step == 0) & (evals.episode < 39)
    fallen = with_seeds(cell, seeds).assign(success=success)
    assert len(set(task_numbers(cell, fallen).values())) == 2
    (row,) = summarise_cells([cell], load_steps([cell]), fallen).itertuples()
    # Lost 39 of 40, mean 0.975: sums of deviations 39 x 0.025 and -0.975; sqrt(2 / 1 x 2 x 0.975^2) / 40.
    assert row.drop_noise == pytest.approx(2 * 0.975 / 40)


def test_what_is_not_known_is_said(tmp_path):
    cell = only_cell(tmp_path / "known")
    evals = load_evals([cell])
    assert task_numbers(cell, evals) is not None
    assert task_numbers(cell, evals.iloc[:0]) is None
    assert task_numbers(cell, evals.assign(task_seed=pd.NA)) is None
    assert task_numbers(only_cell(tmp_path / "own", "line"), evals) is None
    write_table(
        cell.path / "evals.parquet", "evals", evals.drop(columns=["env", "algo", "seed", "task_seed"])
    )
    assert task_numbers(cell, load_evals([cell])) is None


def test_the_largest_error_of_tasks_that_repeat():
    # Four tasks, once each: sqrt(0.25 / 4). Three episodes of one and one of another: sqrt(0.25 x (9 + 1)) / 4.
    assert largest_error({0: 0, 1: 1, 2: 2, 3: 3}) == 0.25
    assert largest_error({0: 5, 1: 5, 2: 5, 3: 6}) == pytest.approx(math.sqrt(2.5) / 4)

"""The summary of the synthetic run agrees with its records."""

import math

import pandas as pd
import pytest

from arena.analysis.summary import mean_best_start, summarise_cells
from arena.records.reader import load_evals, load_steps, read_run
from tests.synthetic import Size, write_cell


def test_summary_of_a_cell(tmp_path):
    size = Size(steps=4, groups=2, turns=2, tokens=4, eval_episodes=8, eval_every=2)
    write_cell(tmp_path / "r", "sokoban", "grpo", 0, size)
    write_cell(tmp_path / "r", "sokoban", "grpo", 1, size, last_step=1)
    cells = read_run(tmp_path / "r").cells
    steps, evals = load_steps(cells), load_evals(cells)
    done, failed = summarise_cells(cells, steps, evals).itertuples()
    mine = evals[(evals.seed == 0) & (evals.temperature == 0.5)]
    means = mine.groupby("step").success.mean()
    assert (done.state, done.step, done.temperature) == ("done", 4, 0.5)
    assert done.start == means[0]
    assert done.final == means[4]
    assert done.peak == max(means[0], (means[0] + means[2]) / 2, (means[2] + means[4]) / 2, means[4])
    assert done.drop == pytest.approx(done.peak - means[4])
    starts = evals[(evals.seed == 0) & (evals.step == 0)].groupby("temperature").success.mean()
    assert (done.best_start, done.best_start_temperature) == (starts.max(), starts.idxmax())
    # 2 groups of 4 episodes of 2 turns of 4 tokens, 4 steps of 1.5 seconds
    assert (done.tokens, done.seconds) == (4 * 64, 6.0)
    assert (failed.state, failed.step, failed.tokens, failed.final_step) == ("failed", 1, 64, 0)


def test_the_collapsing_cell_is_labelled_with_its_onset(tmp_path):
    write_cell(tmp_path / "r", "sokoban", "cispo", 0, Size(eval_episodes=128))
    write_cell(tmp_path / "r", "sokoban", "grpo", 0, Size(eval_episodes=128))
    cells = read_run(tmp_path / "r").cells
    cispo, grpo = summarise_cells(cells, load_steps(cells), load_evals(cells)).itertuples()
    # Success falls from step 8 of 20 on and reaches the floor at step 16.
    assert 8 < cispo.collapse_step < 16
    assert math.isnan(grpo.collapse_step)
    at_one, _ = summarise_cells(cells, load_steps(cells), load_evals(cells), temperature=1.0).itertuples()
    assert at_one.temperature == 1.0
    assert at_one.final == at_one.final_t1 == cispo.final_t1


def test_the_best_start_counts_each_seed_once_and_skips_what_is_missing():
    missing = float("nan")
    rows = pd.DataFrame({"seed": [0, 1, 0, 1], "best_start": [missing, 0.4, 0.2, 0.4]})
    assert mean_best_start(rows) == pytest.approx(0.3)

"""The reader lists every cell, reads unfinished ones as far as they go, and refuses what it cannot read."""

import json
import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from arena.errors import UsageError
from arena.records import reader
from arena.records.files import JobStatus, write_json, write_status
from arena.records.reader import find_run, load_evals, load_steps, map_cells, read_run
from arena.records.schema import TABLES
from tests.synthetic import MANIFEST, Size, write_cell, write_run, write_table

SMALL = Size(steps=4, groups=2, turns=2, tokens=4, eval_episodes=8, eval_every=2)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return write_run(tmp_path_factory.mktemp("runs") / "small", SMALL, algos=("grpo", "cispo"))


def test_cells_are_listed_in_order_with_their_recipes(run):
    cells = read_run(run).cells
    keys = [(c.env, c.algo, c.seed) for c in cells]
    assert keys == [(e, a, s) for e in ("frozen_lake", "sokoban") for a in ("cispo", "grpo") for s in (0, 1)]
    assert cells[0].recipe.algorithm == "cispo"
    assert cells[0].recipe.eval.episodes == 8
    assert all(c.finished and c.step == c.steps == 4 for c in cells)


def test_starts_keep_their_scalars(run):
    starts = read_run(run).starts
    assert [(s.env, s.seed) for s in starts] == [(e, s) for e in ("frozen_lake", "sokoban") for s in (0, 1)]
    assert starts[0].metrics == {
        "demonstrations": 612,
        "expert_success": 0.61,
        "loss": 0.31,
        "success 0.5": 0.34,
    }


def test_frames_carry_the_identity_first(run):
    cells = read_run(run).cells
    steps, evals = load_steps(cells), load_evals(cells)
    assert list(steps.columns) == ["env", "algo", "seed", *(c.name for c in TABLES["steps"].columns)]
    assert len(steps) == 8 * 4
    # At step 0 three temperatures, at steps 2 and 4 two.
    assert len(evals) == 8 * 8 * (3 + 2 + 2)
    assert set(evals.groupby(["env", "algo", "seed"]).size()) == {8 * 7}


def test_tokens_are_aggregated_by_cell_and_agree_with_steps(run):
    cells = read_run(run).cells
    means = map_cells(
        cells, "tokens", lambda rows: rows.aggregate("step, avg(kl_ref) AS kl, count(*) AS n", "step").df()
    )
    both = load_steps(cells).merge(means, on=["env", "algo", "seed", "step"])
    assert len(both) == 32
    assert both.kl.to_numpy() == pytest.approx(both.kl_ref_k3.to_numpy(), rel=1e-5)
    assert (both.n == both.tokens_trained).all()


def test_parts_of_a_large_cell_are_whole_steps_and_stack_to_the_same(run, monkeypatch):
    cells = read_run(run).cells[:2]
    seen = []

    def analyse(rows):
        frame = rows.aggregate("step, sum(kl_ref) AS kl, count(*) AS n", "step").order("step").df()
        seen.append(tuple(frame.step))
        return frame

    whole = map_cells(cells, "tokens", analyse)
    assert seen == [(1, 2, 3, 4)] * 2
    seen.clear()
    monkeypatch.setattr(reader, "PART_ROWS", 2 * int(whole.n[0]))
    assert map_cells(cells, "tokens", analyse, by_step=True).equals(whole)
    assert sorted(seen) == [(1, 2)] * 2 + [(3, 4)] * 2
    seen.clear()
    monkeypatch.setattr(reader, "PART_ROWS", 1)  # a step is never cut
    assert map_cells(cells, "tokens", analyse, by_step=True).equals(whole)
    assert sorted(seen) == [(k,) for k in (1, 2, 3, 4) for _ in range(2)]


def test_a_failed_cell_is_read_as_far_as_it_went(tmp_path):
    write_cell(tmp_path / "r", "sokoban", "grpo", 0, SMALL, last_step=3)
    run = read_run(tmp_path / "r")
    (cell,) = run.cells
    assert (cell.state, cell.step, cell.steps) == ("failed", 3, 4)
    assert cell.error == "RuntimeError: the loss is not finite"
    assert list(load_steps(run.cells).step) == [1, 2, 3]
    assert set(load_evals(run.cells).step) == {0, 2}


@pytest.mark.parametrize("state", ["pending", "done"])
def test_cells_that_exist_only_in_the_manifest_are_pending(tmp_path, state):
    entry = {"env": "sokoban", "algo": "./mine.py:f", "seed": 3, "state": state, "error": None}
    write_json(tmp_path / "r" / "manifest.json", MANIFEST | {"cells": [entry]})
    (cell,) = read_run(tmp_path / "r").cells
    assert (cell.algo, cell.seed, cell.state, cell.step) == ("./mine.py:f", 3, "pending", 0)
    assert load_steps([cell]).empty
    assert load_evals([cell]).empty
    assert map_cells([cell], "tokens", lambda rows: rows.df()).empty


@pytest.mark.parametrize(
    ("status", "entry", "expected"),
    [
        ("running", "interrupted", "interrupted"),
        ("running", "failed", "failed"),
        ("done", "running", "done"),
        ("failed", "running", "failed"),
    ],
)
def test_state_of_a_cell_whose_launcher_died(tmp_path, status, entry, expected):
    folder = write_cell(tmp_path / "r", "sokoban", "grpo", 0, SMALL)
    write_status(folder, JobStatus(status, "h", 2, 4))
    row = {"env": "sokoban", "algo": "grpo", "seed": 0, "state": entry, "error": None}
    write_json(tmp_path / "r" / "manifest.json", {"cells": [row]})
    assert read_run(tmp_path / "r").cells[0].state == expected


def test_another_schema_version_is_refused(tmp_path):
    folder = write_cell(tmp_path / "r", "sokoban", "grpo", 0, SMALL)
    for name, read in (
        ("steps.parquet", load_steps),
        ("tokens/step-00002.parquet", lambda cells: map_cells(cells, "tokens", lambda rows: rows.df())),
    ):
        path = folder / name
        good = path.read_bytes()
        pq.write_table(pq.read_table(path).replace_schema_metadata({"schema_version": "999"}), path)
        with pytest.raises(UsageError, match=r"schema version 999; this version of Arena reads 2"):
            read(read_run(tmp_path / "r").cells)
        path.write_bytes(good)


def test_a_file_without_a_schema_version_is_refused(tmp_path):
    folder = write_cell(tmp_path / "r", "sokoban", "grpo", 0, SMALL)
    pq.write_table(pa.table({"step": [1]}), folder / "steps.parquet")
    with pytest.raises(UsageError, match="schema version none"):
        load_steps(read_run(tmp_path / "r").cells)


@pytest.mark.parametrize("table", ["steps", "tokens"])
def test_a_damaged_file_is_named(tmp_path, table):
    cell = read_run(write_run(tmp_path, Size(steps=2), ("sokoban",), ("grpo",), (0,))).cells[0]
    path = cell.path / "steps.parquet" if table == "steps" else cell.path / "tokens" / "step-00002.parquet"
    path.write_bytes(b"PAR")
    with pytest.raises(UsageError, match=rf"{path} cannot be read .* trains this cell again"):
        load_steps([cell]) if table == "steps" else map_cells([cell], "tokens", lambda rows: rows.df())


def test_a_recipe_of_another_version_is_refused(tmp_path):
    folder = write_cell(tmp_path / "r", "sokoban", "grpo", 0, SMALL)
    fields = json.loads((folder / "recipe.json").read_text())
    write_json(folder / "recipe.json", fields | {"unheard_of": 1})
    with pytest.raises(UsageError, match=r"(?s)recipe.json is not a recipe .*unheard_of"):
        read_run(tmp_path / "r")


def test_find_run_takes_the_run_written_to_last(tmp_path):
    for name, when in (("a", 2_000_000_000), ("b", 1_000_000_000)):
        write_json(tmp_path / name / "manifest.json", {})
        os.utime(tmp_path / name / "manifest.json", (when, when))
    (tmp_path / "not-a-run").mkdir()
    assert find_run(None, tmp_path) == tmp_path / "a"
    assert find_run("b", tmp_path) == tmp_path / "b"
    assert find_run(tmp_path / "b") == tmp_path / "b"


def test_find_run_says_what_there_is(tmp_path):
    with pytest.raises(UsageError, match=r"no run in .*Start one with `arena run`"):
        find_run(None, tmp_path)
    write_json(tmp_path / "first" / "manifest.json", {})
    with pytest.raises(UsageError, match=r"unknown run 'frist'. Did you mean 'first'\?"):
        find_run("frist", tmp_path)
    (tmp_path / "folder").mkdir()
    with pytest.raises(UsageError, match="is not a run folder"):
        find_run(tmp_path / "folder", tmp_path)


def test_the_generator_refuses_columns_that_the_schema_lacks(tmp_path):
    with pytest.raises(AssertionError, match="nonsense"):
        write_table(tmp_path / "x.parquet", "evals", {"nonsense": [1]})

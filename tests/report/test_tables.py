"""What was run, in tables."""

from arena.analysis.statistics import spread_over_seeds
from arena.records.files import write_json
from arena.records.reader import read_run
from arena.report.tables import cells_table, differences_table, facts, recipe_table, starts_table
from arena.report.wording import points, with_spread
from tests.synthetic import MANIFEST, Size, write_cell, write_run

TINY = Size(steps=1, groups=1, turns=1, tokens=4, eval_episodes=2, eval_every=1)


def rows(table):
    return {row[0]: row[1:] for group in table.groups for row in group.rows}


def test_recipe_fields_are_shared_or_listed_by_environment(tmp_path):
    write_cell(tmp_path / "r", "sokoban", "grpo", 0, TINY)
    write_cell(tmp_path / "r", "frozen_lake", "grpo", 0, TINY)
    longer = Size(steps=2, groups=1, turns=1, tokens=4, eval_episodes=2, eval_every=1)
    write_cell(tmp_path / "r", "frozen_lake", "cispo", 0, longer)
    cells = read_run(tmp_path / "r").cells
    shared, differing = rows(recipe_table(cells)), rows(differences_table(cells))
    assert shared["kl.coef"] == ("0.01",)
    assert differences_table(cells).header == ("Field", "FrozenLake", "Sokoban")
    assert differing == {"steps": ("1 / 2", "1")}
    assert not {"algorithm", "seed", "env.name", "steps"} & set(shared)


def test_starts_are_listed_with_their_numbers(tmp_path):
    run = read_run(write_run(tmp_path / "r", TINY, envs=("sokoban",), algos=("grpo",), seeds=(3,)))
    table = starts_table(run)
    assert table.header == ("Start", "demonstrations", "expert success", "loss", "success 0.5")
    assert rows(table) == {"seed 3": ("612", "0.61", "0.31", "0.34")}


def test_cells_say_where_they_stand(tmp_path):
    write_cell(tmp_path / "r", "sokoban", "grpo", 0, TINY)
    entry = {"env": "sokoban", "algo": "cispo", "seed": 1, "state": "interrupted", "error": None}
    write_json(tmp_path / "r" / "manifest.json", {"cells": [entry]})
    cells = read_run(tmp_path / "r").cells
    assert rows(cells_table(cells)) == {
        "grpo": ("0", "done", "1 of 1", cells[1].recipe.hash, "—"),
        "cispo": ("1", "interrupted", "—", "—", "—"),
    }


def test_an_interval_of_no_width_is_not_given():
    assert with_spread(spread_over_seeds([1.0, 1.0, 1.0]), points) == "100.0\nsame in all 3 seeds"
    assert with_spread(spread_over_seeds([1.0, 1.0]), points) == "100.0"
    # Student: 4.3027 x 0.1 / sqrt(3) = 0.248.
    assert with_spread(spread_over_seeds([0.4, 0.5, 0.6]), points) == "50.0\n40.0–60.0\nCI 25.2 to 74.8"


def test_facts_come_from_the_manifest(tmp_path):
    earlier = [{"command": "arena run", "commit": None, "started": "yesterday", "finished": None}]
    write_json(tmp_path / "r" / "manifest.json", MANIFEST | {"dirty": True, "earlier": earlier})
    told = dict(facts(read_run(tmp_path / "r")))
    assert told["Command"] == MANIFEST["command"]
    assert told["Commit"] == f"{MANIFEST['commit']}, with uncommitted changes"
    assert told["Versions"].startswith("arena 0.1.0, python 3.11.9, torch")
    assert told["Earlier launch"] == "command arena run, started yesterday"
    write_json(tmp_path / "s" / "manifest.json", {})
    assert list(facts(read_run(tmp_path / "s"))) == []

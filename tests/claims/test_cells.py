"""Which cells count, and the commands that make those that do not exist."""

import shlex

import pandas as pd
import pytest

from arena.claims import CLAIMS
from arena.claims.cells import Missing, Need, Pool, Records, merged
from arena.launch.plan import Options, build
from arena.records.files import JobStatus, write_status
from arena.records.reader import Cell
from tests.claims.planted import plant, pool_of

NEED = Need("cpu-stress", ("cispo", "gspo"), ("sokoban",))
COMMAND = "arena run --tier cpu-stress --algos {} --envs {} {} --name claims-cpu-stress"


def test_cells_of_the_recipe_are_found_in_any_run_and_equal_ones_once(tmp_path):
    first = plant(tmp_path / "a", NEED, "sokoban", "cispo", 0, 0.5, 0.5)
    plant(tmp_path / "b", NEED, "sokoban", "cispo", 0, 0.5, 0.5)
    plant(tmp_path / "b", NEED, "sokoban", "cispo", 4, 0.5, 0.5)
    plant(tmp_path / "b", Need("cpu", (), ()), "sokoban", "cispo", 5, 0.5, 0.5)
    found = pool_of(tmp_path / "a", tmp_path / "b").find(NEED, "sokoban", "cispo")
    assert sorted(found) == [0, 4]
    assert found[0].path == first


def test_another_recipe_does_not_count_but_for_what_is_written(tmp_path):
    other = Need("cpu-stress", (), (), ("steps=10", "optim.epochs=2"))
    free = Need(
        "cpu-stress", (), (), ("record.token_fraction=0.5", "checkpoint.every=9", "optim.micro_rows=8")
    )
    plant(tmp_path / "a", other, "sokoban", "cispo", 0, 0.5, 0.5)
    plant(tmp_path / "a", free, "sokoban", "gspo", 0, 0.5, 0.5)
    cells = pool_of(tmp_path / "a")
    assert cells.find(NEED, "sokoban", "cispo") == {}
    assert list(cells.find(NEED, "sokoban", "gspo")) == [0]
    # The same with the changes asked for.
    assert list(cells.find(other, "sokoban", "cispo")) == [0]
    (missing,) = cells.missing([NEED], (0,))
    assert (
        missing.words
        == "cispo on sokoban (cpu-stress), seed 0: 1 cell of another recipe (optim.epochs, steps)"
    )


def test_what_is_missing_is_the_command_that_makes_it(tmp_path):
    need = Need("cpu-stress", ("cispo", "gspo"), ("sokoban", "frozen_lake"))
    (nothing,) = Pool(()).missing([need])
    assert nothing.command == COMMAND.format("cispo,gspo", "sokoban,frozen_lake", "--num-seeds 5")
    for seed in (7, 9):
        plant(tmp_path / "a", need, "sokoban", "cispo", seed, 0.5, 0.5)
        plant(tmp_path / "a", need, "frozen_lake", "cispo", seed, 0.5, 0.5)
    plant(tmp_path / "a", need, "sokoban", "gspo", 7, 0.5, 0.5)
    cells = pool_of(tmp_path / "a")
    (missing,) = cells.missing([need], (7, 9))
    wanted = COMMAND.format("gspo", "sokoban,frozen_lake", "--seeds 7,9") + f" --reuse {tmp_path}/a"
    assert missing.command == wanted
    # Without seeds asked for, those that are there and enough for an interval.
    assert cells.missing([need])[0].seeds == (0, 1, 2, 3, 4, 7, 9)
    assert cells.missing([Need("cpu-stress", ("cispo",), ("sokoban",))], (7,)) == ()


def test_methods_missing_in_the_same_places_take_one_command():
    one = Missing(Need("cpu", ("grpo",), ("sokoban",)), (0, 1))
    two = Missing(Need("cpu", ("gspo", "grpo"), ("sokoban",)), (0, 1), ("r",))
    elsewhere = Missing(Need("cpu", ("grpo",), ("sudoku",)), (0, 1))
    changed = Missing(Need("cpu", ("grpo",), ("sokoban",), ("kl.coef=0.02",)), (0, 1))
    together = Missing(Need("cpu", ("grpo", "gspo"), ("sokoban",)), (0, 1), ("r",))
    assert merged([one, elsewhere, two, changed]) == (together, elsewhere, changed)


NEEDS = merged(m for claim in CLAIMS.values() for m in Pool(()).missing(claim.needs))


@pytest.mark.parametrize("missing", NEEDS, ids=lambda m: f"{m.need.run} {','.join(m.need.envs)}")
def test_the_commands_plan_exactly_the_cells_that_are_looked_for(missing, tmp_path):
    words = shlex.split(missing.command)
    assert words[:2] == ["arena", "run"]
    options = dict(zip(words[2::2], words[3::2], strict=True))
    changes = tuple(value for key, value in zip(words[2::2], words[3::2], strict=True) if key == "--set")
    seeds = {"num_seeds": 1} if "--num-seeds" in options else {"seeds": options["--seeds"]}
    plan = build(
        Options(
            options["--algos"],
            options["--envs"],
            options["--tier"],
            name=options["--name"],
            runs=tmp_path,
            overrides=changes,
            **seeds,
        )
    )
    cells = Pool(
        tuple(
            Cell(j.env, j.algorithm, j.recipe.seed, plan.run / j.relative, j.recipe, "done", 1, 1, None)
            for j in plan.cells
        )
    )
    assert cells.missing([missing.need], (0,)) == ()


def test_runs_of_other_changes_have_other_names():
    names = {(m.need.tier, m.need.changes): m.need.run for m in NEEDS}
    assert len(set(names.values())) == len(names) > 5


def test_evaluations_at_a_number_of_tokens_are_interpolated():
    steps = pd.DataFrame({"step": [1, 2, 3, 4], "tokens_sampled_total": [10, 20, 60, 100]})
    # Two episodes; success at steps 0, 2, 4: none, one, both.
    evals = pd.DataFrame(
        {
            "step": [0, 0, 2, 2, 4, 4],
            "temperature": 0.5,
            "episode": [0, 1] * 3,
            "success": [False, False, True, False, True, True],
        }
    )
    records = Records(None, steps, evals)
    assert records.tokens == 100
    # 40 tokens: a quarter of the way from 20 (step 2) to 100 (step 4).
    cut = records.until(40).evals.pivot(index="step", columns="episode", values="success").astype(float)
    assert cut.to_dict("index") == {0: {0: 0, 1: 0}, 2: {0: 1, 1: 0}, 4: {0: 1, 1: 0.25}}
    assert records.until(100) is records
    assert sorted(records.until(20).evals.step.unique()) == [0, 2, 4]
    assert records.until(20).evals.query("step == 4").success.tolist() == [1, 0]


def test_what_is_not_finished_does_not_count_and_is_named(tmp_path):
    folder = plant(tmp_path / "a", NEED, "sokoban", "cispo", 0, 0.5, 0.5)
    write_status(folder, JobStatus("failed", "h", 3, 40, 0.5, "RuntimeError: the loss is not finite"))
    cells = pool_of(tmp_path / "a")
    assert cells.find(NEED, "sokoban", "cispo") == {}
    (missing,) = cells.missing([NEED])
    assert missing.words == "cispo, gspo on sokoban (cpu-stress), seeds 0-4: 1 cell failed"

"""A grid to trials, and the tier that comes out."""

import tomllib

import pytest

from arena.errors import UsageError
from arena.launch import series, tune
from arena.launch.plan import Options
from arena.launch.tune import Result, build_tune, parse_grid, points
from arena.recipe import resolve


def build(tmp_path, *grid, **options):
    given = {"algos": "grpo,cispo", "envs": "sokoban,frozen_lake", "seeds": "1000,1001", "name": "t"}
    return build_tune(Options(**given | {"runs": tmp_path} | options), grid)


def test_points_are_the_product_the_last_field_fastest():
    grid = parse_grid(["optim.learning_rate=2e-4, 4e-4", "rollout.temperature=1", "kl.coef=0,0.01"])
    assert [tuple(point.values()) for point in points(grid)] == [
        ("2e-4", "1", "0"),
        ("2e-4", "1", "0.01"),
        ("4e-4", "1", "0"),
        ("4e-4", "1", "0.01"),
    ]
    assert set(map(tuple, points(grid))) == {("optim.learning_rate", "rollout.temperature", "kl.coef")}


def test_the_default_grid_lies_around_the_tiers_learning_rate(tmp_path):
    made = build(tmp_path, envs="sokoban")
    rates = [{c.recipe.optim.learning_rate for c in trial.plan.cells} for trial in made.trials]
    assert rates == [{3e-4}, {6e-4}, {1.2e-3}]
    assert made.trials[1].plan.cells[0].recipe == resolve("cpu", "sokoban", "grpo", 1000)


def test_every_method_gets_the_same_trials_on_the_same_starts(tmp_path):
    made = build(tmp_path, "kl.coef=0,0.5")
    assert [trial.plan.run for trial in made.trials] == [tmp_path / "t/trial-0", tmp_path / "t/trial-1"]
    for trial, coef in zip(made.trials, (0.0, 0.5), strict=True):
        assert {c.recipe.kl.coef for c in trial.plan.cells} == {coef}
        assert len(trial.plan.cells) == 2 * 2 * 2
    first, second = ([job.label for job in jobs] for jobs in series.to_run(made.plans))
    assert [label for label in first if "/bc/" in label] == [
        f"{env}/bc/seed-{seed}" for seed in (1000, 1001) for env in ("sokoban", "frozen_lake")
    ]
    assert second == [label for label in first if "/bc/" not in label]


def test_seeds_are_apart_from_those_of_runs():
    assert tune.seeds(None, None) == "1000,1001"
    assert tune.seeds(None, 3) == "1000,1001,1002"
    assert tune.seeds("7", None) == "7"
    with pytest.raises(UsageError, match="exclude each other"):
        tune.seeds("7", 3)


@pytest.mark.parametrize(
    ("grid", "options", "message"),
    [
        (["kl.coef"], {}, "--grid takes field=value,value,..., e.g. --grid kl.coef=0,0.01; given 'kl.coef'."),
        (["kl.coef=0,,1"], {}, "--grid takes field=value,value,..."),
        (["kl.coef=1e-2,0.01"], {}, "--grid kl.coef: a value is given twice; given '1e-2,0.01'."),
        (["kl.coef=0", "kl.coef=1"], {}, "--grid kl.coef: it was already given; give all its values at once."),
        (["cispo:clip_high=0.2,0.4"], {}, "--grid cispo:clip_high: it takes recipe fields, so that every method"),
        (["kl.coeff=0"], {}, "unknown recipe field 'kl.coeff'. Did you mean 'kl.coef'?"),
        (["kl.coef=-1,0"], {}, "recipe field kl.coef: input should be greater than or equal to 0; given -1."),
        (["seed=1,2"], {}, "--grid seed: use --seeds."),
        (["bc.steps=1,2"], {}, "--grid bc.steps: the start that all methods share depends on it"),
        (["env.options.size=5"], {}, "--grid env.options.size: the start that all methods share depends on it"),
        (["eval.temperature=0,1"], {}, "--grid eval.temperature: the start that all methods share depends on it"),
        (["kl.coef=0"], {"overrides": ("kl.coef=1",)}, "--set kl.coef: the grid has it; give its values with --g"),
        ([], {"overrides": ("optim.learning_rate=1",)}, "--set optim.learning_rate: the grid has it; give its val"),
        ([], {"algos": "grpo,grpo:clip_high=0.3"}, "--algos: 'grpo' and 'grpo:clip_high=0.3' are both 'grpo' in"),
        ([], {"algos": "grop"}, "--algos: unknown algorithm 'grop'. Did you mean 'grpo'?"),
        ([], {"tier": "cpuu"}, "--tier: unknown tier 'cpuu'. Did you mean 'cpu'?"),
        ([], {"name": "../up"}, "--name takes letters"),
        ([], {"name": "file"}, "--name: "),
        ([], {"name": "run"}, "--name: "),
    ],
)  # fmt: skip
def test_refusals_come_before_anything_is_written(tmp_path, grid, options, message):
    (tmp_path / "file").write_text("")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "manifest.json").write_text("{}")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(UsageError) as error:
        build(tmp_path, *grid, **options)
    assert str(error.value).startswith(message)
    assert sorted(tmp_path.rglob("*")) == before


def test_a_tier_of_several_learning_rates_has_no_default_grid(tmp_path):
    path = tmp_path / "own.toml"
    path.write_text('base = "cpu"\n[algos.cispo.optim]\nlearning_rate = 1e-4\n')
    with pytest.raises(UsageError, match=r"several values of optim\.learning_rate here \(0\.0001, 0\.0006\)"):
        build(tmp_path, tier=str(path), envs="sokoban")
    assert len(build(tmp_path, tier=str(path), envs="sokoban", algos="cispo").trials) == 3
    assert len(build(tmp_path, "kl.coef=0,1", tier=str(path)).trials) == 2


OWN = """
base = "cpu-stress"
description = "mine"
[algos.cispo]
steps = 9
[algos.cispo.optim]
learning_rate = 1e-4
minibatches = 2
[envs.sokoban.env.options]
max_solution = 5
[envs.frozen_lake.env]
options = {}
"""


@pytest.mark.parametrize("tier", ["cpu", "own"])
@pytest.mark.parametrize("overrides", [(), ("steps=7", "bc.steps=3", 'env.observation="full"')])
def test_the_tier_that_is_written_gives_the_recipes_that_were_chosen(tmp_path, tier, overrides):
    if tier == "own":
        (tmp_path / "own.toml").write_text(OWN)
        tier = str(tmp_path / "own.toml")
    algos = "grpo,cispo:clip_high=0.4,reinforce+++seqmask"
    made = build(
        tmp_path, "optim.learning_rate=2e-4,4e-4", "kl.coef=0,1", algos=algos, tier=tier, overrides=overrides
    )
    found = [
        Result(env, algo, (), number % 4) for number, (env, algo) in enumerate(tune._methods(made), start=1)
    ]
    path = tmp_path / "tier.toml"
    path.write_text(tune._tier_text(made, found, 'arena tune --name "t"'))
    for result in found:
        for cell in made.trials[result.chosen].plan.cells:
            if (cell.env, cell.algorithm) == (result.env, result.algorithm):
                got = resolve(str(path), cell.env, cell.algorithm, cell.seed)
                assert got.model_copy(update={"tier": cell.recipe.tier}) == cell.recipe
    tree = tomllib.loads(path.read_text())
    assert tree["description"] == 'Settings chosen by: arena tune --name "t"'
    assert tree["base"] == ("cpu" if tier == "cpu" else "cpu-stress")
    # It is a tier like others: methods that were not tuned have the tier's own values.
    assert resolve(str(path), "sokoban", "gspo", 0).optim == resolve(tier, "sokoban", "gspo", 0).optim

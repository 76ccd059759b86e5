"""Options to plan: which cells, where, and what is refused before anything is written."""

import re
from pathlib import Path

import pytest
import torch

from arena.algorithms.advantages import TurnRewards
from arena.algorithms.catalog import CATALOG
from arena.envs import ENVS
from arena.errors import UsageError
from arena.launch import folder
from arena.launch.jobs import Job
from arena.launch.plan import Options, build, notices
from arena.recipe import Recipe, resolve


def plan(**options):
    return build(Options(**{"algos": "grpo", "envs": "frozen_lake", "name": "r"} | options))


def labels(**options):
    return [cell.label for cell in plan(**options).cells]


def test_cells_are_the_product_seed_by_seed():
    found = plan(algos="grpo, gspo", envs="sokoban,frozen_lake", num_seeds=2)

    first = ["sokoban/grpo", "sokoban/gspo", "frozen_lake/grpo", "frozen_lake/gspo"]
    assert [c.label for c in found.cells] == [f"{c}/seed-0" for c in first] + [f"{c}/seed-1" for c in first]
    assert [s.label for s in found.starts] == [
        "sokoban/bc/seed-0", "frozen_lake/bc/seed-0", "sokoban/bc/seed-1", "frozen_lake/bc/seed-1",
    ]  # fmt: skip
    assert found.cells[-1].directory == Path("runs/r/cells/frozen_lake/gspo/seed-1")
    assert found.cells[-1].needs == found.starts[-1].directory == Path("runs/r/bc/frozen_lake/seed-1")


def test_all_stands_for_every_name_and_seeds_keep_their_order():
    assert labels(algos="all") == [f"frozen_lake/{name}/seed-0" for name in CATALOG]
    assert [c.env for c in plan(envs="all").cells] == list(ENVS)
    assert labels(seeds="4,3") == ["frozen_lake/grpo/seed-4", "frozen_lake/grpo/seed-3"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"algos": "grpo,gspo,grpo"}, "--algos: 'grpo' is given twice; give it once."),
        ({"algos": "all,all"}, "--algos: 'all' is given twice; give it once."),
        ({"algos": "all,grpo"}, "--algos: 'grpo' is given twice (all holds it); give it once."),
        ({"envs": "sokoban,sokoban"}, "--envs: 'sokoban' is given twice; give it once."),
        ({"envs": "sokoban,all"}, "--envs: 'sokoban' is given twice (all holds it); give it once."),
        ({"seeds": "4,3,04"}, "--seeds: '4' is given twice; give it once."),
    ],
)
def test_what_is_given_twice_is_refused(options, message):
    with pytest.raises(UsageError) as error:
        plan(**options)
    assert str(error.value) == message


def test_default_name_is_tier_and_time():
    assert re.fullmatch(r"cpu-\d{8}-\d{6}", plan(name=None).name)


def test_overrides_and_steps_reach_the_recipe():
    (cell,) = plan(steps=7, overrides=("kl.coef=0.5", "env.options.size=4")).cells

    assert (cell.recipe.steps, cell.recipe.kl.coef) == (7, 0.5)
    assert cell.recipe.env.options == {"size": 4}


ALONE = ("rollout.group_size=1",)


@pytest.mark.parametrize("algo", ["grpo", "dr-grpo", "rloo", "gigpo", "empg"])
def test_groups_of_one_are_refused_where_the_advantage_compares_episodes(algo):
    with pytest.raises(UsageError) as error:
        plan(algos=f"reinforce++,{algo}", overrides=ALONE)
    assert str(error.value) == (
        f"recipe field rollout.group_size: the advantage of '{algo}' compares the episodes of a group with each "
        "other, and with groups of one every episode's advantage would be 0; give at least 2."
    )
    assert plan(algos=algo, overrides=("rollout.group_size=2",))


def test_groups_of_one_are_refused_where_the_filter_compares_episodes():
    assert plan(algos="reinforce++", overrides=ALONE)
    with pytest.raises(
        UsageError, match=r"the filter of 'reinforce\+\+\+dynamic' .* would reject every group"
    ):
        plan(algos="reinforce+++dynamic", overrides=ALONE)


def test_the_outcome_of_an_episode_alone_reaches_no_advantage():
    """Which is why groups of one are refused: what is left are the format penalty and differences within it."""
    fields = {"group": [0] * 3, "episode": [0] * 3, "turn": [0, 1, 2], "anchor": [0, 1, 2], "tokens": [1] * 3}
    for won in (0.0, 1.0):
        given = TurnRewards(
            **{name: torch.tensor(values) for name, values in fields.items()},
            reward=torch.tensor([0.0, 0.0, won]),
            penalty=torch.zeros(3),
            entropy=torch.tensor([1.0, 2.0, 3.0]),
        )
        for algorithm in CATALOG.values():
            if getattr(algorithm.advantage, "needs_group", False):
                assert algorithm.advantage(given).episode.tolist() == [0.0] * 3


def test_more_mini_batches_than_episodes_are_refused():
    sizes = ("rollout.groups=2", "rollout.group_size=3")
    assert plan(overrides=(*sizes, "optim.minibatches=6"))
    with pytest.raises(UsageError) as error:
        plan(overrides=(*sizes, "optim.minibatches=7"))
    assert str(error.value) == (
        "recipe field optim.minibatches: at most the 6 episodes of a step "
        "(rollout.groups x rollout.group_size); given 7."
    )


def test_a_parameter_of_a_part_that_no_method_has_is_noticed():
    field = "parts.token_clip.clip_high=0.28"
    (said,) = notices(plan(algos="gspo,sampo", overrides=(field,)))
    assert said.startswith("recipe field parts.token_clip.clip_high: no method of this run has that part")
    assert notices(plan(algos="gspo,grpo", overrides=(field,))) == []
    assert notices(plan(algos="gspo")) == []


def test_mini_batches_are_those_of_each_method(tmp_path):
    tier = tmp_path / "mine.toml"
    tier.write_text('base = "cpu"\n[algos.cispo.optim]\nminibatches = 5000\n')
    for algos in ("cispo", "grpo,cispo"):
        with pytest.raises(UsageError, match=r"optim\.minibatches: at most .*; given 5000\."):
            plan(algos=algos, tier=str(tier))


TWICE = [
    ("gspo+gigpo+dynamic,sampo", "'gspo+gigpo+dynamic' and 'sampo'"),
    ("gspo,grpo,gspo:clip_low=3e-3", "'gspo' and 'gspo:clip_low=3e-3'"),
    ("grpo + gigpo,grpo+gigpo", "'grpo + gigpo' and 'grpo+gigpo'"),
    ("dr-grpo:length=48,dr-grpo", "'dr-grpo:length=48' and 'dr-grpo'"),
    ("all,grpo+gigpo", "'gigpo' and 'grpo+gigpo'"),
    ("grpo+gigpo,all", "'grpo+gigpo' and 'gigpo'"),
    ("./mine.py:own,grpo", "'./mine.py:own' and 'grpo'"),
    ("./mine.py:own,mine.py:own", "'./mine.py:own' and 'mine.py:own'"),
]


@pytest.mark.parametrize(("algos", "names"), TWICE)
def test_one_method_spelt_twice_is_refused(algos, names, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(
        "from arena.algorithms import get_algorithm\nown = get_algorithm('grpo')"
    )
    with pytest.raises(UsageError) as error:
        plan(algos=algos)
    assert str(error.value) == f"--algos: {names} are the same method; give one of them."


def test_methods_that_differ_in_one_parameter_are_two():
    assert labels(algos="all,grpo:clip_high=0.3") == [
        f"frozen_lake/{name}/seed-0" for name in [*CATALOG, "grpo:clip_high=0.3"]
    ]
    # Equal in themselves, but not under a tier's defaults for parts.
    assert len(labels(algos="gspo:clip_low=3e-3,gspo", overrides=("parts.sequence_clip.clip_low=0.1",))) == 2


def test_parts_that_cannot_be_compared_are_taken_for_different(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(HOLDS_A_TENSOR)
    assert len(labels(algos="./mine.py:one,./mine.py:two")) == 2


HOLDS_A_TENSOR = """
from dataclasses import dataclass, replace
import torch
from arena.algorithms import get_algorithm
from arena.algorithms.clipping import TokenClip

@dataclass(frozen=True)
class Table(TokenClip):
    weights: torch.Tensor | None = None

one, two = (replace(get_algorithm("grpo"), clip=Table(weights=torch.ones(3))) for _ in range(2))
"""


def test_a_spec_with_a_slash_gets_one_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text("")
    job = Job("cell", resolve("cpu", "frozen_lake", "./mine.py:fast", 0), tmp_path)
    assert job.relative == Path("cells/frozen_lake/mine.py:fast/seed-0")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"algos": "grop"}, "--algos: unknown algorithm 'grop'. Did you mean 'grpo'? Allowed: "),
        ({"algos": "grpo,sapo"}, "--algos: 'sapo' names two different methods"),
        ({"algos": "grpo:clip=3"}, "--algos: unknown parameter 'clip' of 'grpo'."),
        ({"algos": " , "}, "--algos is empty; given ' , '. Allowed: all, or a comma list of grpo, "),
        ({"envs": "sokobann"}, "--envs: unknown environment 'sokobann'. Did you mean 'sokoban'? Allowed: "),
        ({"tier": "gpuu"}, "--tier: unknown tier 'gpuu'. "),
        ({"num_seeds": 0}, "--num-seeds must be at least 1; given 0."),
        (
            {"seeds": "1,x"},
            "--seeds takes a comma list of whole numbers from 0, e.g. --seeds 3,4; given '1,x'.",
        ),
        (
            {"seeds": "1", "num_seeds": 2},
            "--num-seeds N (seeds 0 to N-1) and --seeds LIST exclude each other",
        ),
        ({"steps": 0}, "recipe field steps: input should be greater than or equal to 1; given 0."),
        ({"steps": 3, "overrides": ("steps=4",)}, "--steps and --set steps exclude each other"),
        (
            {"name": "../up"},
            "--name takes letters, digits, '.', '_' and '-', beginning with a letter or digit; given",
        ),
        ({"name": ""}, "--name takes letters"),
        ({"overrides": ("kl.coeff=1",)}, "unknown recipe field 'kl.coeff'. Did you mean 'kl.coef'?"),
        ({"overrides": ("kl.coef=high",)}, "recipe field kl.coef takes a number; given 'high'."),
        ({"overrides": ("kl.coef",)}, "--set takes section.key=value"),
        ({"overrides": ("seed=3",)}, "--set seed: use --seeds."),
        ({"overrides": ("env.name=sokoban",)}, "--set env.name: use --envs."),
        ({"overrides": ("env=sokoban",)}, "--set env=sokoban: use --envs."),
        (
            {"overrides": ("env.options.bogus=3",)},
            "unknown option 'bogus' of environment 'frozen_lake'",
        ),
        (
            {"overrides": ("bc.options.size=2",)},
            "recipe field bc.options: environment 'frozen_lake' refuses env.options {'harmless_holes': 0.5, 'size': 2}",
        ),
        (
            {
                "envs": "sokoban",
                "overrides": ("env.options={size=5, min_solution=60, max_solution=60}", "env.max_turns=99"),
            },
            "no room of size 5 with 1 boxes is solved in 60 to 60 moves",
        ),
    ],
)
def test_refusals_name_option_given_and_allowed(options, message):
    with pytest.raises(UsageError) as error:
        plan(**options)
    assert str(error.value).startswith(message)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[algos.cisp.optim]", "--tier: 't.toml', algos.cisp: unknown algorithm 'cisp'. Did you mean 'cispo'? Al"),
        ('[algos."cispo:clip_high=1"]', "--tier: 't.toml', algos.cispo:clip_high=1: a section is for a method, wit"),
        ("[envs.sokobn.bc]", "--tier: 't.toml', envs.sokobn: unknown environment 'sokobn'. Did you mean 'sokoban'?"),
        ("[algos.cispo.optim]\nrate = 1", "--tier: 't.toml', algos.cispo: unknown recipe field 'optim.rate'."),
        (
            "[envs.sokoban.algos.gspo.kl]\ncoef = -1",
            "--tier: 't.toml', envs.sokoban.algos.gspo: recipe field kl.coef: input should be greater than or equal "
            "to 0; given -1.",
        ),
        ("[algos.grpo]\nseed = 3", "--tier: 't.toml', algos.grpo seed: use --seeds."),
        ("seed = 3", "--tier: 't.toml' seed: use --seeds."),
        ("[kl]\ncoeff = 1", "--tier: 't.toml': unknown recipe field 'kl.coeff'. Did you mean 'kl.coef'?"),
        ("[algos.grpo]\nkl = 3", "--tier: 't.toml', algos.grpo: recipe field kl is a section: set its fields kl.coef"),
        (
            "[algos.gspo.bc]\nsteps = 3",
            "--tier: 'gspo' and 'grpo' would begin frozen_lake from different starts (they differ in bc); a section "
            "for a method may not change what the start depends on.",
        ),
    ],
)  # fmt: skip
def test_sections_of_a_tier_file_are_checked_used_or_not(tmp_path, monkeypatch, text, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.toml").write_text(f'base = "cpu"\n{text}\n')
    with pytest.raises(UsageError) as error:
        plan(algos="grpo,gspo", tier="t.toml")
    assert str(error.value).startswith(message)


def test_a_tier_file_with_a_section_for_a_users_own_method(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(HOLDS_A_TENSOR)
    (tmp_path / "my tier.toml").write_text('base = "cpu"\n[algos."./mine.py:one"]\nsteps = 3\n')
    found = plan(algos="./mine.py:one:clip_low=0.1,./mine.py:two", tier="my tier.toml", name=None)
    assert [cell.recipe.steps for cell in found.cells] == [3, resolve("cpu", "frozen_lake", "grpo", 0).steps]
    assert re.fullmatch(r"mytier-\d{8}-\d{6}", found.name)


def test_two_specs_of_one_folder_are_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a").mkdir()
    for path, name in (("a/b.py", "grpo"), ("a_b.py", "gspo")):
        (tmp_path / path).write_text(f"from arena.algorithms import CATALOG\nx = CATALOG['{name}']")
    with pytest.raises(
        UsageError,
        match=r"'a/b.py:x' and 'a_b.py:x' would share the folder cells/frozen_lake/a_b.py:x/seed-0",
    ):
        plan(algos="a/b.py:x,a_b.py:x")


def test_start_fields_are_those_of_the_start_hash(tmp_path):
    """The fields shown when a start differs are the ones that its hash is made of."""
    recipe = resolve("cpu", "frozen_lake", "grpo", 0)
    changes = {
        "tier": "x", "algorithm": "gspo", "seed": 1, "steps": 3, "env.max_turns": 3, "model.num_layers": 1,
        "code": {"mine.py": "0"},
        "bc.steps": 3, "rollout.max_response_tokens": 20, "rollout.groups": 3, "optim.epochs": 3,
        "rollout.layout": "trajectory", "optim.sequence": "trajectory",
        "kl.coef": 0.5, "format.penalty": 0.3, "eval.episodes": 3, "record.enabled": False,
        "checkpoint.every": 3,
        "parts.sequence_clip": {"clip_low": 1.0},
    }  # fmt: skip
    assert {key.split(".")[0] for key in changes} == set(Recipe.model_fields)
    for key, value in changes.items():
        tree = recipe.model_dump(mode="json")
        *sections, leaf = key.split(".")
        (tree[sections[0]] if sections else tree)[leaf] = value
        shown = folder._differences(recipe.model_dump(mode="json"), tree, Job("start", recipe, tmp_path))
        assert bool(shown) == (Recipe.model_validate(tree).start_hash != recipe.start_hash), key

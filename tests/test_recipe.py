"""Recipes: what overrides what, what identifies a cell and a start, and what a wrong field is told."""

import re

import pytest
from pydantic import ValidationError

from arena import recipe as recipe_module
from arena.algorithms.catalog import get_algorithm
from arena.algorithms.filtering import DynamicFilter
from arena.errors import UsageError
from arena.recipe import (
    GIVEN,
    Recipe,
    base_of,
    field_table,
    field_values,
    load_tier,
    merge,
    parse_overrides,
    resolve,
    tier_names,
)

TIER = {
    "description": "for this test",
    "steps": 7,
    "bc": {"steps": 11, "batch_size": 5},
    "env": {"max_turns": 6, "options": {"size": 4, "slippery": False}},
    "parts": {"token_clip": {"clip_low": 0.1}},
    "envs": {"sokoban": {"bc": {"steps": 13}, "env": {"options": {"size": 5}}}},
}


@pytest.fixture
def tier(monkeypatch):
    monkeypatch.setattr(recipe_module, "load_tier", lambda name: merge({}, TIER))


def test_environment_sections_lie_on_the_tier_and_overrides_on_both(tier):
    plain = resolve("any", "frozen_lake", "grpo", 3)
    assert (plain.tier, plain.env.name, plain.algorithm, plain.seed, plain.steps) == (
        "any",
        "frozen_lake",
        "grpo",
        3,
        7,
    )
    assert (plain.bc.steps, plain.bc.batch_size) == (11, 5)
    assert plain.env.options == {"size": 4, "slippery": False}
    assert plain.kl.coef == Recipe.model_fields["kl"].default.coef
    sokoban = resolve("any", "sokoban", "grpo", 3)
    assert (sokoban.bc.steps, sokoban.bc.batch_size) == (13, 5)
    assert sokoban.env.options == {"size": 5, "slippery": False}
    over = resolve("any", "sokoban", "grpo", 3, {"bc": {"steps": 17}, "env": {"options": {"slippery": True}}})
    assert (over.bc.steps, over.bc.batch_size, over.steps) == (17, 5, 7)
    assert over.env.options == {"size": 5, "slippery": True}
    # The tier itself is not changed.
    assert resolve("any", "sokoban", "grpo", 3) == sokoban


#: A tier as a user writes one, with sections for methods.
OWN = """
base = "cpu"
optim = { learning_rate = 1e-3, epochs = 3 }
[kl]
coef = 0.5
[envs.sokoban.optim]
learning_rate = 2e-3
[algos.cispo.optim]
learning_rate = 3e-3
minibatches = 8
[envs.sokoban.algos.cispo.optim]
learning_rate = 4e-3
[envs.sokoban.algos."reinforce++".kl]
coef = 0.25
"""


@pytest.fixture
def own(tmp_path):
    path = tmp_path / "own.toml"
    path.write_text(OWN)
    return str(path)


@pytest.mark.parametrize(
    ("env", "algorithm", "rate", "minibatches", "coef"),
    [
        ("frozen_lake", "grpo", 1e-3, 4, 0.5),
        ("sokoban", "grpo", 2e-3, 4, 0.5),
        ("frozen_lake", "cispo", 3e-3, 8, 0.5),
        ("frozen_lake", "cispo:clip_high=0.4+seqmask", 3e-3, 8, 0.5),
        ("sokoban", "cispo+gigpo:omega=0.5", 4e-3, 8, 0.5),
        ("sokoban", "reinforce++", 2e-3, 4, 0.25),
        ("sokoban", "reinforce+++dynamic", 2e-3, 4, 0.25),
        ("frozen_lake", "reinforce++", 1e-3, 4, 0.5),
    ],
)
def test_a_methods_section_lies_on_its_environments(own, env, algorithm, rate, minibatches, coef):
    made = resolve(own, env, algorithm, 0)
    assert (made.optim.learning_rate, made.optim.minibatches, made.kl.coef) == (rate, minibatches, coef)
    assert (made.optim.epochs, made.optim.warmup) == (3, resolve("cpu", env, "grpo", 0).optim.warmup)
    # --set lies on both.
    over = resolve(own, env, algorithm, 0, {"optim": {"learning_rate": 5e-3}})
    assert (over.optim.learning_rate, over.optim.minibatches) == (5e-3, minibatches)


def test_a_recipe_holds_its_tiers_values_and_the_name_of_its_file(own, tmp_path):
    made = resolve(own, "sokoban", "cispo", 0)
    assert made.tier == "own.toml"
    elsewhere = tmp_path / "elsewhere" / "own.toml"
    elsewhere.parent.mkdir()
    elsewhere.write_text(OWN)
    assert resolve(str(elsewhere), "sokoban", "cispo", 0).hash == made.hash
    elsewhere.write_text(OWN.replace("4e-3", "5e-3"))
    assert resolve(str(elsewhere), "sokoban", "cispo", 0).hash != made.hash
    assert resolve(str(elsewhere), "sokoban", "grpo", 0) == resolve(own, "sokoban", "grpo", 0)
    # The start is that of the base: it is shared.
    assert made.start_hash == resolve("cpu", "sokoban", "cispo", 0).start_hash


def test_fields_are_listed_with_what_methods_have_of_their_own(own):
    rows = {row["field"]: row for row in field_table(own)}
    assert rows["optim.learning_rate"]["value"] == ("0.001 (sokoban 0.002, cispo 0.003, sokoban/cispo 0.004)")
    assert rows["kl.coef"]["value"] == "0.5 (sokoban/reinforce++ 0.25)"
    values = {row["field"]: row["algorithms"] for row in field_values(own)}
    assert values["optim.minibatches"] == {"cispo": 8}
    assert values["optim.epochs"] == {}


@pytest.mark.parametrize(
    ("spec", "base"),
    [
        ("grpo", "grpo"),
        ("gspo:clip_low=3e-4:clip_high=4e+4+gigpo:omega=1+dynamic", "gspo"),
        ("reinforce++", "reinforce++"),
        ("reinforce+++seqmask", "reinforce++"),
        ("grpo + gigpo", "grpo"),
        ("./mine.py:my_method:width=0.3+seqmask", "./mine.py:my_method"),
    ],
)
def test_the_base_of_a_spec(spec, base):
    assert base_of(spec) == base


@pytest.mark.parametrize(
    ("tier", "text", "message"),
    [
        ("cpuu", None, "unknown tier 'cpuu'. Did you mean 'cpu'? Allowed: cpu, cpu-stress. Or the path of a"),
        ("a/cpu", None, "a tier's file ends in .toml; given 'a/cpu'."),
        ("none.toml", None, "'none.toml' cannot be read (No such file or directory)."),
        ("t.toml", "steps = ", "'t.toml' is not TOML: Invalid value"),
        ("t.toml", 'base = "cpuu"', "unknown tier 'cpuu'. Did you mean 'cpu'? Allowed: cpu, cpu-stress. Given"),
        ("t.toml", "[algos]\ncispo = 3", "'t.toml': algos holds a section for each name, as in [algos.cispo.o"),
        ("t.toml", "envs = 3", "'t.toml': envs holds a section for each name, as in [envs.sokoban.bc]; given 3."),
        ("t.toml", "[envs.sokoban]\nalgos = 3", "'t.toml': algos holds a section for each name"),
    ],
)  # fmt: skip
def test_tier_files_that_cannot_be_read(tmp_path, monkeypatch, tier, text, message):
    monkeypatch.chdir(tmp_path)
    if text:
        (tmp_path / tier).write_text(text)
    with pytest.raises(UsageError) as error:
        load_tier(tier)
    assert str(error.value).startswith(message)


def test_what_was_asked_for_is_not_overridden(tier):
    asked = resolve("any", "sokoban", "grpo", 3, {"algorithm": "gspo", "seed": 9, "env": {"name": "other"}})
    assert (asked.algorithm, asked.seed, asked.env.name) == ("grpo", 3, "sokoban")


def test_tiers_set_defaults_of_algorithm_parts(tier):
    made = resolve("any", "sokoban", "grpo:clip_high=0.3", 0)
    clip = get_algorithm(made.algorithm, made.parts).clip
    assert (clip.clip_low, clip.clip_high) == (0.1, 0.3)
    # Whole numbers and words keep their type.
    made = resolve("any", "sokoban", "sampo", 0, {"parts": {"dynamic": {"max_batches": 2, "on": "reward"}}})
    assert get_algorithm(made.algorithm, made.parts).filter == DynamicFilter(on="reward", max_batches=2)


@pytest.mark.parametrize("name", tier_names())
@pytest.mark.parametrize("env", ["frozen_lake", "sokoban"])
def test_tiers_that_ship_are_recipes(name, env):
    made = resolve(name, env, "sampo", 0)
    assert made.tier == name
    assert load_tier(name)["description"]
    get_algorithm(made.algorithm, made.parts)
    assert Recipe.model_validate(made.model_dump(mode="json")) == made


def test_overrides_are_read_as_toml_else_as_text():
    pairs = [
        "kl.coef=0.02",
        "steps=5",
        "record.enabled=false",
        "env.options.map=S_G",
        "a.b.c=[1, 2]",
        "d='5'",
        "e=",
    ]
    assert parse_overrides(pairs) == {
        "kl": {"coef": 0.02},
        "steps": 5,
        "record": {"enabled": False},
        "env": {"options": {"map": "S_G"}},
        "a": {"b": {"c": [1, 2]}},
        "d": "5",
        "e": "",
    }
    assert parse_overrides(["kl.coef=a=b"]) == {"kl": {"coef": "a=b"}}
    assert parse_overrides(["a={b=1}", "a.c=2"]) == {"a": {"b": 1, "c": 2}}
    assert parse_overrides([]) == {}


def test_every_field_is_listed_with_the_value_that_a_cell_gets():
    rows = {row["field"]: row for row in field_table("cpu-stress")}
    assert all(row["meaning"].endswith(".") for row in rows.values())
    assert rows["kl.coef"]["value"] == "0.0"
    assert rows["optim.minibatches"]["value"] == "8"
    recipes = {env: resolve("cpu-stress", env, "grpo", 0) for env in ("sokoban", "frozen_lake")}
    assert f"(sokoban {recipes['sokoban'].env.max_turns}, frozen_lake" in rows["env.max_turns"]["value"]
    assert "{ max_solution = 6 }" in rows["env.options"]["value"]
    # What is listed can be set, and the listed value changes nothing where no environment has its own.
    for path, row in rows.items():
        if "(" not in row["value"]:
            for env, recipe in recipes.items():
                given = parse_overrides([f"{path}={row['value']}"])
                assert resolve("cpu-stress", env, "grpo", 0, given) == recipe, path


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        (["steps"], "--set takes section.key=value, e.g. --set kl.coef=0.02; given 'steps'."),
        (["=5"], "--set takes section.key=value, e.g. --set kl.coef=0.02; given '=5'."),
        (["kl=1", "kl.coef=2"], "--set kl.coef: 'kl' was already given a value."),
        (["kl.coef=2", "kl={coef=1}"], "--set kl: it was already given a value; give it once."),
        (["kl.coef=1", "steps=3", "kl.coef=1"], "--set kl.coef: it was already given a value; give it once."),
        (["a={b=1}", "a.b=2"], "--set a.b: it was already given a value; give it once."),
    ],
)
def test_wrong_overrides(pairs, message):
    with pytest.raises(UsageError) as error:
        parse_overrides(pairs)
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (
            {"kl": {"coeff": 0.1}},
            "unknown recipe field 'kl.coeff'. Did you mean 'kl.coef'? Allowed: kl.coef.",
        ),
        (
            {"kl": 0, "optim": {"learning_rate": float("inf")}},
            "recipe field optim.learning_rate: input should be a finite number; given inf.\n"
            "recipe field kl is a section: set its fields kl.coef; given 0.",
        ),
        ({"model": {"num_heads": 5}}, "recipe field model: num_heads 5 is not a multiple of num_kv_heads 4."),
        (
            {"model": {"hidden_size": 36}},
            "recipe field model: hidden_size 36 is not a multiple of 2 x num_heads 4.",
        ),
        ({"kl": {"coef": -1}}, "recipe field kl.coef: input should be greater than or equal to 0; given -1."),
        (
            {"steps": "many"},
            "recipe field steps takes a whole number; given 'many'.",
        ),
        (
            {"record": {"enabled": "maybe"}, "env": {"options": 3}, "kl": {"coef": "high"}},
            "recipe field env.options takes a table, as { key = value }; given 3.\n"
            "recipe field kl.coef takes a number; given 'high'.\n"
            "recipe field record.enabled takes true or false; given 'maybe'.",
        ),
        ({"kl": {"coef": True}}, "recipe field kl.coef takes a number; given True."),
        ({"steps": 5.0}, "recipe field steps takes a whole number; given 5.0."),
        (
            {"parts": {"token_clip": {"clip_low": [1]}}},
            "recipe field parts.token_clip.clip_low takes a finite number, a word, or true or false; given [1].",
        ),
        (
            {"env": {"observation": "long"}},
            "recipe field env.observation: input should be 'compact' or 'full'; given 'long'.",
        ),
        (
            {"format": {"penalty": -0.5}, "checkpoint": {"evry": 2}},
            "recipe field format.penalty: input should be greater than or equal to 0; given -0.5.\n"
            "unknown recipe field 'checkpoint.evry'. Did you mean 'checkpoint.every'? Allowed: checkpoint.every.",
        ),
    ],
)
def test_a_wrong_field_is_told_what_is_allowed(tier, overrides, message):
    with pytest.raises(UsageError) as error:
        resolve("any", "sokoban", "grpo", 0, overrides)
    assert str(error.value) == message


def test_unknown_section_and_unknown_tier():
    with pytest.raises(
        UsageError, match=r"^unknown recipe field 'evla'. Did you mean 'eval'\? Allowed: bc, checkpoint"
    ):
        resolve("cpu", "sokoban", "grpo", 0, {"evla": {"every": 3}})
    with pytest.raises(UsageError, match=r"^unknown tier 'cpuu'. Did you mean 'cpu'\? Allowed: "):
        load_tier("cpuu")


@pytest.mark.parametrize(
    ("given", "nearest"),
    [("klcoef", "kl.coef"), ("coef", "kl.coef"), ("evla", "eval")],
)
def test_the_nearest_field_is_suggested_wherever_it_is(given, nearest):
    with pytest.raises(UsageError, match=rf"^unknown recipe field '{given}'\. Did you mean '{nearest}'\?"):
        resolve("cpu", "sokoban", "grpo", 0, parse_overrides([f"{given}=1"]))


@pytest.mark.parametrize("given", ["algorithms", "sed", "teir", "cod", "env.nam"])
def test_fields_that_set_does_not_take_are_not_suggested(given):
    with pytest.raises(UsageError, match=f"^unknown recipe field '{given}'") as error:
        resolve("cpu", "sokoban", "grpo", 0, parse_overrides([f"{given}=1"]))
    suggested = re.search(r"Did you mean '(.*)'", str(error.value))
    allowed = str(error.value).removesuffix(".").partition("Allowed: ")[2].split(", ")
    assert not GIVEN.keys() & {*allowed, suggested[1] if suggested else ""}


def test_recipes_are_frozen(tier):
    made = resolve("any", "sokoban", "grpo", 0)
    with pytest.raises(ValidationError):
        made.steps = 3  # ty: ignore
    with pytest.raises(ValidationError):
        made.kl.coef = 0.0  # ty: ignore


#: Overrides that change what the cell's records are, and those among them that change its start.
CELL_ONLY = [
    {"steps": 8},
    {"optim": {"learning_rate": 1e-4}},
    {"rollout": {"temperature": 0.5}},
    {"kl": {"coef": 0.5}},
    {"format": {"penalty": 0.2}},
    {"checkpoint": {"every": 2}},
    {"eval": {"every": 3}},
    {"parts": {"token_clip": {"clip_low": 0.2}}},
]
START_TOO = [
    {"bc": {"steps": 12}},
    {"env": {"max_turns": 9}},
    {"env": {"options": {"size": 6}}},
    {"model": {"hidden_size": 32}},
    {"eval": {"episodes": 3}},
    {"rollout": {"max_response_tokens": 20}},
]


@pytest.mark.parametrize("overrides", CELL_ONLY + START_TOO)
def test_hashes_know_what_they_depend_on(tier, overrides):
    base = resolve("any", "sokoban", "grpo", 0)
    other = resolve("any", "sokoban", "grpo", 0, overrides)
    assert other.hash != base.hash
    assert (other.start_hash != base.start_hash) == (overrides in START_TOO)


def test_methods_share_a_start_and_seeds_do_not(tier):
    base = resolve("any", "sokoban", "grpo", 0)
    method, seed = resolve("any", "sokoban", "gspo+gigpo", 0), resolve("any", "sokoban", "grpo", 1)
    assert base.hash == resolve("any", "sokoban", "grpo", 0).hash
    assert len({base.hash, method.hash, seed.hash}) == 3
    assert base.start_hash == method.start_hash != seed.start_hash
    assert len(base.hash) == 12
    # A recipe read back from its file is the same cell.
    assert Recipe.model_validate_json(base.model_dump_json()).hash == base.hash


def test_a_cell_of_an_older_version_of_its_method_is_another(monkeypatch):
    specs = ("grpo", "actfocus:alpha=0.3", "ppo + actfocus")
    new = [resolve("cpu", "sokoban", spec, 0).hash for spec in specs]
    monkeypatch.setattr("arena.recipe.METHOD_VERSIONS", {"actfocus": 1})
    old = [resolve("cpu", "sokoban", spec, 0).hash for spec in specs]
    assert [a == b for a, b in zip(new, old, strict=True)] == [True, False, False]


def test_merge_leaves_its_arguments_alone():
    base, over = {"a": {"b": 1, "c": {"d": 2}}, "e": 3}, {"a": {"c": {"f": 4}}, "e": {"g": 5}}
    assert merge(base, over) == {"a": {"b": 1, "c": {"d": 2, "f": 4}}, "e": {"g": 5}}
    assert base == {"a": {"b": 1, "c": {"d": 2}}, "e": 3}
    assert over == {"a": {"c": {"f": 4}}, "e": {"g": 5}}

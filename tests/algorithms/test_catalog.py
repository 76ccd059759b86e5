"""Specs: names, modifiers, parameters and tier defaults, and what a wrong one is told."""

from dataclasses import replace
from pathlib import Path

import pytest

from arena.algorithms.advantages import (
    EMPG,
    BatchNorm,
    GiGPO,
    GroupCentre,
    GroupNorm,
    LeaveOneOut,
    TokenGAE,
    TurnGAE,
)
from arena.algorithms.aggregation import FixedLength, SequenceMean, TokenMean
from arena.algorithms.catalog import (
    CATALOG,
    MODIFIERS,
    Algorithm,
    algorithm_of,
    get_algorithm,
    modifier_table,
    notices,
    table,
)
from arena.algorithms.clipping import GeometricClip, SequenceClip, SoftGate, TokenClip, WeightClip
from arena.algorithms.correction import TruncatedImportance
from arena.algorithms.filtering import DynamicFilter
from arena.algorithms.masking import SequenceMask
from arena.algorithms.values import Critic, SharedValue
from arena.algorithms.weighting import ActFocus
from arena.errors import UsageError
from arena.recipe import resolve

GRPO = Algorithm("", TokenMean(), GroupNorm(), TokenClip(0.2, 0.2))
DAPO = replace(GRPO, clip=TokenClip(0.2, 0.28), filter=DynamicFilter(on="reward", max_batches=3))
PPO = replace(GRPO, advantage=TokenGAE(gamma=1.0, lam=1.0), value=Critic(1e-3, value_clip=0.2))
COMPOSITIONS = {
    "grpo": GRPO,
    "grpo-st": replace(GRPO, aggregation=SequenceMean()),
    "grpo-sm": replace(GRPO, mask=SequenceMask(3e-3)),
    "dr-grpo": replace(GRPO, aggregation=FixedLength(0), advantage=GroupCentre()),
    "sapo-soft": replace(GRPO, clip=SoftGate(1.0, 1.05)),
    "cispo": replace(GRPO, clip=WeightClip(1.0, 0.2)),
    "gspo": Algorithm("", SequenceMean(), GroupNorm(), SequenceClip(3e-3, 4e-3)),
    "gmpo": Algorithm("", SequenceMean(), GroupNorm(), GeometricClip(0.4, 0.4)),
    "gigpo": replace(GRPO, advantage=GiGPO(omega=1.0, gamma=0.95)),
    "empg": replace(GRPO, advantage=EMPG(k=1.0, k_future=1.0, zeta=0.05)),
    "dapo": DAPO,
    "dapo-gigpo": replace(DAPO, advantage=GiGPO(omega=1.0, gamma=0.95)),
    "sampo": Algorithm(
        "",
        SequenceMean(),
        GiGPO(omega=1.0, gamma=0.95),
        SequenceClip(3e-3, 4e-3),
        filter=DynamicFilter(on="success", max_batches=3, cold_start=5),
    ),
    "rloo": replace(GRPO, advantage=LeaveOneOut()),
    "reinforce++": replace(GRPO, advantage=BatchNorm(gamma=1.0)),
    "actfocus": replace(GRPO, weighting=ActFocus(alpha=0.1, beta=0.5)),
    "ppo": PPO,
    "ppo-turn": replace(PPO, advantage=TurnGAE(gamma=0.95, lam=0.95)),
    "ppo-actfocus": replace(PPO, weighting=ActFocus(alpha=0.1, beta=0.5)),
    "sapo-sr": replace(
        GRPO, advantage=TurnGAE(gamma=0.95, lam=0.95), value=SharedValue(2.0, 0.5, 0.5, 0.0, value_clip=0.2)
    ),
}


def parts(algorithm: Algorithm) -> Algorithm:
    """The composition without its name."""
    return replace(algorithm, name="", source="")


@pytest.mark.parametrize("name", COMPOSITIONS)
def test_named_methods_are_the_documented_compositions(name):
    assert parts(get_algorithm(name)) == parts(COMPOSITIONS[name])
    assert get_algorithm(name).name == name
    assert get_algorithm(name).source


def test_the_catalog_holds_exactly_these():
    assert set(CATALOG) == set(COMPOSITIONS)


@pytest.mark.parametrize(
    ("spec", "same"),
    [
        ("gspo+gigpo+dynamic", "sampo"),
        ("gspo+dynamic+gigpo", "sampo"),
        ("grpo+actfocus", "actfocus"),
        ("grpo+seqmask", "grpo-sm"),
        ("grpo+gigpo", "gigpo"),
        ("grpo+empg", "empg"),
        ("ppo+actfocus", "ppo-actfocus"),
        ("dapo+gigpo", "dapo-gigpo"),
        ("grpo:clip_high=2.8e-01+dynamic:on=reward", "dapo"),
        ("reinforce+++actfocus", "reinforce++:gamma=1+actfocus"),
        ("sampo:omega=0.5", "gspo+gigpo:omega=0.5+dynamic"),
        ("sampo:cold_start=0:on=reward", "gspo+gigpo+dynamic:cold_start=0:on=reward"),
    ],
)
def test_modifiers_compose_into_named_methods(spec, same):
    assert parts(get_algorithm(spec)) == parts(get_algorithm(same))
    assert get_algorithm(spec).name == spec


def test_parameters_reach_the_part_that_has_them():
    sampo = get_algorithm("sampo:clip_low=3e-4:gamma=1:max_batches=5")
    assert sampo.clip == SequenceClip(clip_low=3e-4, clip_high=4e-3)
    assert sampo.advantage == GiGPO(gamma=1.0)
    assert sampo.filter == DynamicFilter(max_batches=5)
    assert isinstance(sampo.filter.max_batches, int)
    assert get_algorithm("grpo+seqmask:delta=0.223").mask == SequenceMask(0.223)
    assert get_algorithm("grpo+tis:cap=3e+0").correction == TruncatedImportance(3.0)
    assert get_algorithm("dr-grpo:length=512").aggregation == FixedLength(512)
    # The catalog itself is not changed.
    assert get_algorithm("sampo").clip == SequenceClip()


def test_tier_parts_are_defaults_below_the_spec():
    tier = {"sequence_clip": {"clip_low": 0.03, "clip_high": 0.04}, "gigpo": {"omega": 0.5}}
    assert get_algorithm("gspo", tier).clip == SequenceClip(0.03, 0.04)
    assert get_algorithm("gspo:clip_low=0.1", tier).clip == SequenceClip(0.1, 0.04)
    assert get_algorithm("gspo+gigpo", tier).advantage == GiGPO(omega=0.5)
    assert get_algorithm("gspo+gigpo:omega=2", tier).advantage == GiGPO(omega=2.0)
    assert get_algorithm("grpo", tier) == get_algorithm("grpo")
    # What a method has chosen itself stays.
    tier = {"token_clip": {"clip_low": 0.1, "clip_high": 0.5}, "dynamic": {"on": "success", "cold_start": 9}}
    assert get_algorithm("dapo", tier).clip == TokenClip(0.1, 0.28)
    assert get_algorithm("dapo", tier).filter == DynamicFilter(on="reward", cold_start=9)


@pytest.mark.parametrize(
    ("spec", "parts", "length"),
    [
        ("dr-grpo", {}, 40),
        ("dr-grpo:length=0", {}, 40),
        ("dr-grpo:length=512", {}, 512),
        ("dr-grpo", {"fixed_length": {"length": 30}}, 30),
        ("dr-grpo:length=512", {"fixed_length": {"length": 30}}, 512),
    ],
)
def test_the_fixed_length_is_the_cap_on_tokens_unless_given(spec, parts, length):
    overrides = {"rollout": {"max_response_tokens": 40}, "parts": parts}
    assert algorithm_of(resolve("cpu", "sokoban", spec, 0, overrides)).aggregation == FixedLength(length)


def test_the_algorithm_of_a_recipe_is_that_of_its_spec_and_parts():
    overrides = {"parts": {"sequence_clip": {"clip_low": 0.5}}}
    recipe = resolve("cpu", "sokoban", "sampo:omega=2", 0, overrides)
    assert algorithm_of(recipe) == get_algorithm("sampo:omega=2", recipe.parts)
    assert algorithm_of(recipe).clip == SequenceClip(0.5, 4e-3)


REST = (
    f"Allowed: {', '.join(sorted(COMPOSITIONS))}. "
    "Modifiers after '+': actfocus, dynamic, empg, gigpo, seqmask, tis."
)
ERRORS = {
    "grppo": f"unknown algorithm 'grppo'. Did you mean 'grpo'? {REST}",
    "xyz": f"unknown algorithm 'xyz'. {REST}",
    "": f"unknown algorithm ''. {REST}",
    "gspo+gigop": "unknown modifier 'gigop'. Did you mean 'gigpo'? "
    "Allowed: actfocus, dynamic, empg, gigpo, seqmask, tis. Given in 'gspo+gigop'.",
    "grpo:clip_hgih=0.3": "unknown parameter 'clip_hgih' of 'grpo'. Did you mean 'clip_high'? "
    "Allowed: clip_high, clip_low, over.",
    "gspo+gigpo:delta=1": "unknown parameter 'delta' of 'gigpo'. Allowed: gamma, omega, step_penalty.",
    "gspo:clip_low": "algorithm 'gspo:clip_low': 'clip_low' is not key=value, as in 'gspo:clip_low=3e-4'.",
    "gspo:=3": "algorithm 'gspo:=3': '=3' is not key=value, as in 'gspo:clip_low=3e-4'.",
    "gspo:clip_low=": "algorithm 'gspo:clip_low=': 'clip_low=' is not key=value, as in 'gspo:clip_low=3e-4'.",
    "gspo:clip_low=small": "parameter clip_low of 'gspo' takes a finite number from 0; given 'small'.",
    "gspo:clip_low=nan": "parameter clip_low of 'gspo' takes a finite number from 0; given 'nan'.",
    "gspo:clip_low=-0.1": "parameter clip_low of 'gspo' takes a finite number from 0; given '-0.1'.",
    "grpo+gigpo:omega=inf": "parameter omega of 'gigpo' takes a finite number from 0; given 'inf'.",
    "gigpo:step_penalty=no": "parameter step_penalty of 'gigpo' takes true or false; given 'no'.",
    "gspo:clip_low=1:clip_low=2": "algorithm 'gspo:clip_low=1:clip_low=2': clip_low is given twice.",
    "sampo:max_batches=2.5": "parameter max_batches of 'sampo' takes a whole number from 0; given '2.5'.",
    "sampo:max_batches=0": "parameter max_batches of 'sampo': max_batches must be at least 1, given 0.",
    "grpo+dynamic:on=turns": "parameter on of 'dynamic': on must be 'success' or 'reward', given 'turns'.",
    "sapo-sr:tau=0": "parameter tau of 'sapo-sr': tau must be positive, given 0.0.",
    "sapo": "'sapo' names two different methods: soft adaptive policy optimisation (arXiv 2511.20347) is "
    "'sapo-soft', single-rollout autoregressive policy optimisation (arXiv 2608.19842) is 'sapo-sr'.",
}


@pytest.mark.parametrize("spec", ERRORS)
def test_a_wrong_spec_is_told_what_is_allowed(spec):
    with pytest.raises(UsageError) as error:
        get_algorithm(spec)
    assert str(error.value) == ERRORS[spec]


def test_the_table_says_what_each_part_does():
    rows = {row["name"]: row for row in table()}
    assert list(rows) == list(CATALOG)
    assert rows["sampo"] == {
        "name": "sampo",
        "aggregation": "sequence mean of token mean",
        "advantage": "group-normalised return + 1 x anchor-normalised return-to-go (gamma 0.95)",
        "ratio and clip": "sequence ratio, min, clip 0.003/0.004",
        "filter": "mixed success, 3 rounds, cold start 5",
        "mask": "-",
        "weighting": "-",
        "correction": "-",
        "value": "-",
        "parameters": "omega=1.0:gamma=0.95:step_penalty=true:clip_low=0.003:clip_high=0.004:on=success:max_batches=3"
        ":cold_start=5",
        "source": "SAMPO (ARLArena, arXiv 2602.21534 Eq. 8)",
    }
    assert rows["grpo"]["ratio and clip"] == "token ratio, min, clip 0.2/0.2"
    assert rows["cispo"]["ratio and clip"] == "token ratio as detached weight, clip 1/0.2, no min"
    assert rows["actfocus"]["weighting"] == "think 0.1, action 1 + 0.5 sigmoid(z(energy))"


def test_the_modifiers_are_listed_with_what_they_set_and_their_defaults():
    rows = {row["name"]: row for row in modifier_table()}
    assert list(rows) == list(MODIFIERS)
    assert rows["gigpo"] == {
        "name": "gigpo", "sets": "advantage", "defaults": "omega=1.0:gamma=0.95:step_penalty=true",
    }  # fmt: skip
    for name, row in rows.items():
        with_defaults = get_algorithm(f"grpo+{name}:{row['defaults']}")
        assert with_defaults == get_algorithm(f"grpo+{name}")
        assert getattr(with_defaults, row["sets"]).kind == name


@pytest.mark.parametrize("name", CATALOG)
def test_every_method_has_a_page_and_a_row(name):
    folder = Path(__file__).parents[2] / "docs" / "algorithms"
    assert (folder / f"{name}.md").read_text().startswith(f"# {name}\n\n")
    assert f"| [`{name}`]({name}.md) |" in (folder / "README.md").read_text()


def test_a_tiers_default_is_of_its_parameters_kind():
    parts = {"gigpo": {"step_penalty": False}}
    assert resolve("cpu", "sokoban", "gigpo", 0, {"parts": parts}).parts["gigpo"] == {"step_penalty": False}
    assert get_algorithm("gigpo", parts) == get_algorithm("gigpo:step_penalty=false")
    with pytest.raises(UsageError) as error:
        get_algorithm("gigpo", {"gigpo": {"step_penalty": 0}})
    assert str(error.value) == "recipe field parts.gigpo.step_penalty takes true or false; given '0'."


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        (
            {"sequence_clp": {"clip_low": 1}},
            "unknown recipe field 'parts.sequence_clp'. Did you mean 'parts.sequence_clip'?",
        ),
        (
            {"sequence_clip": {"clip_lo": 1}},
            "unknown recipe field 'parts.sequence_clip.clip_lo'. Did you mean 'parts.sequence_clip.clip_low'?",
        ),
    ],
)
def test_wrong_tier_parts_are_refused_whether_or_not_the_method_has_them(parts, message):
    with pytest.raises(UsageError) as error:
        get_algorithm("grpo", parts)
    assert str(error.value).startswith(message)


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ("gspo+gigpo+empg", "'gigpo' and 'empg' both set the advantage"),
        (
            "ppo+gigpo",
            r"its advantage \(group-.*\) does not read values, so its value source \(critic model, clip 0.2\) would",
        ),
        (
            "sapo-sr+empg",
            r"its advantage \(entropy-.*\) does not read values, so its value source \(two reserved tokens, ",
        ),
        ("sapo-sr+dynamic", "one trajectory a task has no group whose outcomes differ"),
    ],
)
def test_parts_that_cannot_work_together_are_refused_with_the_reason(spec, reason):
    with pytest.raises(UsageError, match=reason):
        get_algorithm(spec)


def test_an_advantage_that_reads_values_needs_a_source(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(
        "from dataclasses import replace\n"
        "from arena.algorithms.catalog import CATALOG\n"
        "valueless = replace(CATALOG['ppo'], value=None)\n"
    )
    with pytest.raises(UsageError, match=r"its advantage \(token GAE .*\) needs a value source"):
        get_algorithm(f"{file}:valueless")


@pytest.mark.parametrize(
    ("spec", "acts"),
    [
        ("sampo+seqmask", False),  # delta 0.003 leaves it the ratios from 0.997 to 0.9970045
        ("sampo+seqmask:delta=2e-3", True),
        ("sampo+seqmask:delta=3.1e-3", False),
        ("gspo:clip_low=0.1+seqmask:delta=0.09", True),
        ("gspo:clip_low=0.995+seqmask:delta=4", True),
        ("gspo:clip_low=1+seqmask:delta=5", True),
        ("cispo+seqmask:delta=5", True),
        ("gspo", True),
    ],
)
def test_a_sequence_mask_beyond_the_clip_is_said_to_do_nothing(spec, acts):
    said = notices(get_algorithm(spec))
    assert len(said) == (0 if acts else 1)
    assert acts or "cannot act" in said[0] or "hardly ever acts" in said[0]


@pytest.mark.parametrize(
    ("spec", "note"),
    [
        ("sampo+empg", "'empg' takes the place of sampo's own advantage (group-normalised return + 1 x"),
        ("rloo+gigpo", "'gigpo' takes the place of rloo's own advantage (return - mean of the others)"),
        ("dapo+dynamic", "'dynamic' takes the place of dapo's own filter ("),
        ("actfocus+actfocus:alpha=0.3", "'actfocus' takes the place of actfocus's own weighting ("),
        ("gspo+gigpo+dynamic", None),
        ("sampo+gigpo", None),
        ("grpo:over=turns+gigpo", "'gigpo' takes the place of grpo:over=turns's own advantage"),
    ],
)
def test_a_modifier_that_replaces_a_methods_own_part_is_said_to(spec, note):
    said = notices(get_algorithm(spec))
    assert said == [] if note is None else [note in line for line in said] == [True]


def test_one_trajectory_a_task_has_no_group_to_compare(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(
        "from dataclasses import dataclass, replace\n"
        "from arena.algorithms.advantages import TurnGAE\n"
        "from arena.algorithms.catalog import CATALOG\n"
        "@dataclass(frozen=True)\n"
        "class Compared(TurnGAE):\n"
        "    kind = 'compared'\n"
        "    needs_group = True\n"
        "lonely = replace(CATALOG['sapo-sr'], advantage=Compared())\n"
    )
    with pytest.raises(UsageError, match="has no group, and its advantage"):
        get_algorithm(f"{file}:lonely")

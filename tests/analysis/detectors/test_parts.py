"""The table of advantage rules says what the catalog says."""

from __future__ import annotations

import pytest

from arena.algorithms.catalog import CATALOG, MODIFIERS, algorithm_of, get_algorithm
from arena.analysis.detectors.parts import advantage_rule
from arena.recipe import Recipe, resolve


def _recipe(spec: str) -> Recipe:
    return resolve("cpu", "sokoban", "grpo", 0).model_copy(update={"algorithm": spec})


@pytest.mark.parametrize("name", CATALOG)
def test_every_method_has_the_rule_of_the_catalog(name):
    assert advantage_rule(_recipe(name)) == CATALOG[name].advantage.kind


@pytest.mark.parametrize("modifier", MODIFIERS)
def test_every_modifier_sets_the_rule_that_the_catalog_sets(modifier):
    for spec in (f"grpo+{modifier}", f"reinforce++:clip_low=0.1+{modifier}"):
        assert advantage_rule(_recipe(spec)) == get_algorithm(spec).advantage.kind


@pytest.mark.parametrize("spec", ["grpo", "grpo:over=episodes", "grpo:clip_low=0.1:over=turns"])
@pytest.mark.parametrize(
    "tier", [{}, {"group_norm": {"over": "turns"}}, {"group_norm": {"over": "episodes"}}]
)
def test_the_spec_goes_before_the_tier(spec, tier):
    recipe = _recipe(spec).model_copy(update={"parts": tier})
    turns = algorithm_of(recipe).advantage.over == "turns"
    assert advantage_rule(recipe) == ("group_norm over turns" if turns else "group_norm")


def test_a_method_of_ones_own_has_the_rule_that_a_modifier_sets_or_an_unknown_one():
    assert advantage_rule(_recipe("./grpo.py:grpo")) is None
    assert advantage_rule(_recipe("./mine.py:method:k=1+gigpo:omega=0.5")) == "gigpo"

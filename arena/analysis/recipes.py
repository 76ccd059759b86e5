"""In which fields the recipes of cells differ."""

from __future__ import annotations

import json
from collections.abc import Iterable

from arena.recipe import Recipe, flatten
from arena.records.reader import Cell

#: Recipe fields that name the cell, so that they differ by design.
NAMING = {"algorithm", "seed", "env.name"}

#: What a recipe has that lacks a field.
ABSENT = "—"


def flat_recipe(recipe: Recipe) -> dict[str, str]:
    """`section.field` -> its value as text, JSON where it is not a text; an empty mapping has no field."""
    fields = flatten(recipe.model_dump(mode="json"))
    return {key: v if isinstance(v, str) else json.dumps(v) for key, v in fields.items() if v != {}}


def recipe_values(cells: Iterable[Cell]) -> dict[str, set[str]]:
    """Recipe field -> the values that the cells use, `NAMING` left out; cells without a recipe do not count."""
    recipes = [flat_recipe(cell.recipe) for cell in cells if cell.recipe]
    keys = dict.fromkeys(key for recipe in recipes for key in recipe if key not in NAMING)
    return {key: {recipe.get(key, ABSENT) for recipe in recipes} for key in keys}


def recipe_differences(a: Iterable[Cell], b: Iterable[Cell]) -> dict[str, tuple[str, str]]:
    """Fields whose values are not the same in both groups of cells, with the values of each.

    A user's file that only one side has is that of its method, which differs by design.
    """
    in_a, in_b = recipe_values(a), recipe_values(b)
    sides = {key: (in_a.get(key, {ABSENT}), in_b.get(key, {ABSENT})) for key in {**in_a, **in_b}}
    return {
        key: (" / ".join(sorted(x)), " / ".join(sorted(y)))
        for key, (x, y) in sides.items()
        if x != y and not (key.startswith("code.") and {ABSENT} in (x, y))
    }

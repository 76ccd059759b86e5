"""Which advantage rule a method has, and the parts of its advantage that are taken within groups.

Rules are read from the recipe's spec: the catalog itself needs torch. tests/analysis/detectors holds the table against
the catalog.
"""

from __future__ import annotations

import pandas as pd

from arena.analysis.detectors.base import CellRecords, Status, Verdict
from arena.recipe import Recipe, base_of, split_spec

#: Kind of advantage rule -> the methods of the catalog that have it.
_METHODS = {
    "group_norm": ("grpo", "grpo-st", "grpo-sm", "sapo-soft", "cispo", "gspo", "gmpo", "dapo", "actfocus"),
    "gigpo": ("gigpo", "dapo-gigpo", "sampo"),
    "empg": ("empg",),
    "group_centre": ("dr-grpo",),
    "leave_one_out": ("rloo",),
    "batch_norm": ("reinforce++",),
    "token_gae": ("ppo", "ppo-actfocus"),
    "turn_gae": ("ppo-turn", "sapo-sr"),
}
_RULES = {method: rule for rule, methods in _METHODS.items() for method in methods}
#: The modifiers that set the rule.
_MODIFIERS = ("gigpo", "empg")

#: Rules whose episode part (of GiGPO: and step part) is divided by its group's standard deviation. EMPG's modulation
#: is recorded apart from it.
NORMALISED = ("group_norm", "gigpo", "empg")
#: Rules whose episode part is the return less a mean of the group's.
WITHIN_GROUP = (*NORMALISED, "group_centre", "leave_one_out")


def advantage_rule(recipe: Recipe) -> str | None:
    """The kind of a recipe's advantage rule; None for a method that is not of the catalog.

    A group norm over turns is a kind of its own: bound and mean of the episodes' advantages are other ones. What the
    spec says of it goes before the tier's default, as in the catalog.
    """
    _, head, modifiers = split_spec(recipe.algorithm)
    names = [modifier.split(":")[0].strip() for modifier in modifiers]
    rule = next((n for n in names if n in _MODIFIERS), _RULES.get(base_of(recipe.algorithm)))
    settings = recipe.parts.get("group_norm", {}) | dict(
        pair.partition("=")[::2] for pair in head.split(":")[1:]
    )
    return "group_norm over turns" if rule == "group_norm" and settings.get("over") == "turns" else rule


def cannot_judge(records: CellRecords, rules: tuple[str, ...], what: str) -> Verdict | None:
    """The verdict where the recipe's rule is none of `rules` (it is not known, or its advantage is no `what`), or where
    `group_parts` lacks columns that it reads of this rule alone."""
    assert records.recipe is not None
    rule = advantage_rule(records.recipe)
    if rule in rules:
        lacking = records.missing(("turns.anchor", "turns.advantage_step")) if rule == "gigpo" else []
        return Verdict(Status.SKIPPED, f"not recorded: {', '.join(lacking)}") if lacking else None
    said = (
        f"the advantage rule of {records.recipe.algorithm} is not known here"
        if rule is None
        else f"{rule} gives no {what}"
    )
    return Verdict(Status.DEGENERATE, said)


def group_parts(records: CellRecords) -> pd.DataFrame:
    """How the advantage's parts look in the worst group of each step, indexed by step.

    A part is the episodes' advantage within a group, or for GiGPO the turns' step advantage within a group and anchor;
    n are the values of it. Columns: over (|A| less its bound (n-1)/sqrt(n)), largest and size (that |A| and n), mean
    (|mean A|, in units of the part's largest |A| where that exceeds 1), most (largest |A| of any group).
    """
    assert records.recipe is not None
    steps = "UNION ALL SELECT step, group_id, anchor, advantage_step FROM turns"
    frame = records.query(
        "episodes",
        f"""
        WITH parts AS (
            SELECT step, group_id, NULL::VARCHAR AS anchor, advantage AS a FROM episodes
            {steps if advantage_rule(records.recipe) == "gigpo" else ""}
        ),
        groups AS (
            SELECT step, count(*) AS n, avg(a) AS mean, max(abs(a)) AS largest
            FROM parts WHERE a IS NOT NULL GROUP BY step, group_id, anchor
        )
        SELECT step, max(largest - (n - 1) / sqrt(n)) AS over,
            arg_max(largest, largest - (n - 1) / sqrt(n)) AS largest,
            arg_max(n, largest - (n - 1) / sqrt(n)) AS size,
            max(abs(mean) / greatest(1, largest)) AS mean, max(largest) AS most
        FROM groups GROUP BY step ORDER BY step
        """,
    )
    assert frame is not None
    return frame.set_index("step")

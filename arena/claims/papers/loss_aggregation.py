"""How token losses are averaged."""

from arena.claims.base import Claim
from arena.claims.contrast import FINAL, Arm, Contrast
from arena.claims.papers.settings import ARLARENA, ARLARENA_ENVS, CPU
from arena.claims.published import number, spec

#: Columns of Table 3, in words.
_TASKS = {
    "alfworld_success": "ALFWorld success",
    "webshop_success": "WebShop success",
    "sokoban_success": "Sokoban success",
    "aime": "AIME score",
}

CLAIM = Claim(
    name="loss-aggregation",
    statement="How the loss is aggregated matters little, and not in one direction.",
    source=f"{ARLARENA}, Table 3",
    how=(
        "Final success, mean over environments, of grpo-st (sequence mean) and of dr-grpo (fixed length, no"
        " division by the deviation) within 5 points of grpo's, by two one-sided tests. That is a test of the average:"
        " differences that cancel between environments, as the published ones do, pass it. They are given by "
        "environment, and say in which directions."
    ),
    parts=tuple(
        Contrast(
            f"{algo} ends where grpo does", CPU, Arm((algo,)), Arm(("grpo",)), ARLARENA_ENVS, FINAL, "same"
        )
        for algo in ("grpo-st", "dr-grpo")
    ),
    published=tuple(
        number(f"{spec(name)} {_TASKS[env]}", "arlarena_table3", env, unit="%", method=name)
        for env in _TASKS
        for name in ("GRPO_ST", "GRPO")
    ),
)

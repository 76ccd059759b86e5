"""How token losses are averaged."""

from arena.claims.base import Claim
from arena.claims.contrast import FINAL, Contrast, Side
from arena.claims.papers.settings import ARLARENA, ARLARENA_ENVS, CPU
from arena.claims.published import number

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
            f"{algo} ends where grpo does", CPU, Side((algo,)), Side(("grpo",)), ARLARENA_ENVS, FINAL, "same"
        )
        for algo in ("grpo-st", "dr-grpo")
    ),
    published=tuple(
        number(f"{name} {env}", "arlarena_table3", env, method=name)
        for env in ("alfworld_success", "webshop_success", "sokoban_success", "aime")
        for name in ("GRPO_ST", "GRPO")
    ),
)

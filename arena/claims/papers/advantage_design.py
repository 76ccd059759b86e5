"""Finer credit: step groups, and entropy."""

from arena.claims.base import Claim
from arena.claims.contrast import FINAL, Arm, Contrast
from arena.claims.papers.settings import AGENT_ENVS, ARLARENA, CPU
from arena.claims.published import number, spec

CLAIM = Claim(
    name="advantage-design",
    statement="GiGPO and EMPG help modestly over GRPO.",
    source=f"{ARLARENA}, Table 3",
    how="Final success, mean over environments, of each against grpo; both have to gain.",
    parts=tuple(
        Contrast(f"{algo} ends above grpo", CPU, Arm((algo,)), Arm(("grpo",)), AGENT_ENVS, FINAL)
        for algo in ("gigpo", "empg")
    ),
    published=tuple(
        number(f"{spec(name)} average over tasks", "arlarena_table3", "average", method=name)
        for name in ("GIGPO", "EMPG", "GRPO")
    ),
)

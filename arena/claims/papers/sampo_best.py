"""ARLArena's own method against all others of its Table 3."""

from arena.claims.base import Claim
from arena.claims.contrast import FINAL, Arm, Contrast
from arena.claims.papers.settings import AGENT_ENVS, ARLARENA, CPU
from arena.claims.published import number, spec

#: Our names of the methods of Table 3, with the table's.
_OTHERS = {
    "grpo": "GRPO",
    "grpo-st": "GRPO_ST",
    "sapo-soft": "SAPO_SOFT",
    "cispo": "CISPO",
    "gspo": "GSPO",
    "gigpo": "GIGPO",
    "empg": "EMPG",
    "dapo": "DAPO_GRPO",
    "dapo-gigpo": "DAPO_GIGPO",
}

CLAIM = Claim(
    name="sampo-best",
    statement="SAMPO has the best average success of all methods compared.",
    source=f"{ARLARENA}, Table 3",
    how=(
        "Final success, mean over environments, against each of the other nine methods in turn: it is the "
        "best if it is above every one, so that no method is picked as the runner-up by its luck."
    ),
    parts=tuple(
        Contrast(f"sampo ends above {algo}", CPU, Arm(("sampo",)), Arm((algo,)), AGENT_ENVS, FINAL)
        for algo in _OTHERS
    ),
    published=tuple(
        number(f"{spec(name)} average over tasks", "arlarena_table3", "average", method=name)
        for name in ("SAMPO", *_OTHERS.values())
    ),
)

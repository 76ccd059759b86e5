"""ARLArena's own method against all others of its Table 3."""

from arena.claims.base import Claim
from arena.claims.contrast import FINAL, Arm, Contrast
from arena.claims.papers.settings import AGENT_ENVS, ARLARENA, CPU
from arena.claims.published import number, spec

#: The other methods of Table 3, as it names them.
_OTHERS = ("GRPO", "GRPO_ST", "SAPO_SOFT", "CISPO", "GSPO", "GIGPO", "EMPG", "DAPO_GRPO", "DAPO_GIGPO")

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
        for algo in map(spec, _OTHERS)
    ),
    published=tuple(
        number(f"{spec(name)} average over tasks", "arlarena_table3", "average", method=name)
        for name in ("SAMPO", *_OTHERS)
    ),
)

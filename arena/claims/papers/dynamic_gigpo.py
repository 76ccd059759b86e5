"""Dynamic filtering and GiGPO."""

from arena.claims.base import Claim
from arena.claims.contrast import FINAL, Arm, Contrast
from arena.claims.papers.settings import AGENT_ENVS, ARLARENA, CPU
from arena.claims.published import number, spec

CLAIM = Claim(
    name="dynamic-gigpo",
    statement="Dynamic filtering helps with GiGPO.",
    source=f"{ARLARENA}, Table 3",
    how=(
        "Final success of gigpo+dynamic against gigpo: they differ in the filter alone, as DAPO_GIGPO and "
        "GIGPO of the source, which differ in the upper clip too, do not. A filter samples more, so the "
        "figure at equal tokens matters here."
    ),
    parts=(
        Contrast(
            "gigpo+dynamic ends above gigpo",
            CPU,
            Arm(("gigpo+dynamic",)),
            Arm(("gigpo",)),
            AGENT_ENVS,
            FINAL,
        ),
    ),
    published=tuple(
        number(f"{spec(name)} average over tasks", "arlarena_table3", "average", method=name)
        for name in ("DAPO_GIGPO", "GIGPO")
    ),
)

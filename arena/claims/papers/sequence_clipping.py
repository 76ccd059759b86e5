"""ARLArena's main finding: sequence-level clipping is stable where tolerant token-level clipping collapses."""

from arena.claims.base import Claim
from arena.claims.contrast import LOST, Arm, Contrast
from arena.claims.papers.settings import ARLARENA, SEQUENCE_LEVEL, STRESS, STRESS_ENVS, TOLERANT
from arena.claims.published import number, spec

_TABLE = "arlarena_table3"

CLAIM = Claim(
    name="sequence-clipping",
    statement=(
        "Sequence-level clipping (GSPO, SAMPO) collapses less than tolerant token-level clipping (CISPO, "
        "soft SAPO)."
    ),
    source=f"{ARLARENA}, section 4 and Table 3",
    how=(
        "The share of its peak that a cell has lost by its end, under stress. A share, because counts of "
        "collapses that are all or none have no spread over seeds; the counts are given beside it."
    ),
    parts=(
        Contrast(
            "gspo, sampo lose less of their peak than cispo, sapo-soft",
            STRESS,
            Arm(SEQUENCE_LEVEL),
            Arm(TOLERANT),
            STRESS_ENVS,
            LOST,
            "less",
        ),
    ),
    published=tuple(
        number(f"{spec(name)} final ALFWorld success", _TABLE, "alfworld_success", unit="%", method=name)
        for name in ("GSPO", "SAMPO", "CISPO", "SAPO_SOFT")
    ),
)

"""Whether the main finding is one of tiny models only."""

from arena.claims.base import Claim
from arena.claims.contrast import LOST, Arm, Contrast
from arena.claims.papers.settings import ARLARENA, SEQUENCE_LEVEL, STRESS, STRESS_ENVS, TOLERANT
from arena.claims.published import number, spec

#: 2.9 times the weights of the tier's model (width 64, 2 layers): 313,584 against 106,496 with FrozenLake's vocabulary.
LARGER = ("model.hidden_size=96", "model.num_layers=3", "model.intermediate_size=192")

_TABLE = "arlarena_table_s2_8b_alfworld"

CLAIM = Claim(
    name="larger-model",
    statement="The effect of sequence-level clipping survives a model three times larger.",
    source=f"{ARLARENA}, Table S2 (8B in the place of 4B)",
    how="As sequence-clipping, with a model of width 96 and 3 layers, which has three times the weights.",
    parts=(
        Contrast(
            "gspo, sampo lose less of their peak than cispo, sapo-soft, model three times larger",
            STRESS,
            Arm(SEQUENCE_LEVEL, LARGER),
            Arm(TOLERANT, LARGER),
            STRESS_ENVS,
            LOST,
            "less",
        ),
    ),
    published=tuple(
        number(f"{spec(name)} final ALFWorld success, 8B", _TABLE, "success", unit="%", method=name)
        for name in ("GSPO", "SAMPO", "CISPO", "SAPO_SOFT")
    ),
)

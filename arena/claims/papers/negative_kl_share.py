"""ARLArena's diagnosis of collapse."""

from arena.claims.base import Claim
from arena.claims.kl_share import ShareRises
from arena.claims.papers.settings import ARLARENA, STRESS, STRESS_ENVS, TOLERANT

CLAIM = Claim(
    name="negative-kl-share",
    statement="Before a collapse the share of KL in sequences of negative advantage and ratio below 1 rises.",
    source=f"{ARLARENA}, collapse diagnosis (a figure; no number is printed)",
    how=(
        "In the cells of CISPO and soft SAPO that collapsed under stress: the share of KL to the reference "
        "in the five steps before the collapse's onset, less that in all earlier steps. It has to rise, and"
        " by more than in GSPO's cell of the same environment and seed over the same steps: shares may rise"
        " for all that trains."
    ),
    parts=(
        ShareRises("the share rises before the onset", STRESS, TOLERANT, STRESS_ENVS),
        ShareRises(
            "it rises more than gspo's at the same steps", STRESS, TOLERANT, STRESS_ENVS, control="gspo"
        ),
    ),
)

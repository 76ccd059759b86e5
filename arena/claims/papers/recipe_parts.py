"""The three parts of the standard recipe, each taken out."""

from arena.claims.base import Claim
from arena.claims.contrast import FINAL, Arm, Contrast
from arena.claims.papers.settings import ARLARENA, STRESS, STRESS_ENVS

#: The standard recipe under stress: that tier has no KL, so it is given back.
_KL = "kl.coef=0.01"
_STANDARD = Arm(("grpo",), (_KL,))

#: A tiny model that was cloned from nothing says nothing, so there is less cloning in the place of none: a tenth.
_WITHOUT = {
    "behaviour cloning (a tenth of it)": (_KL, "bc.episodes=400", "bc.steps=90"),
    "the format penalty": (_KL, "format.penalty=0.0"),
    "the KL term": (),
}

CLAIM = Claim(
    name="recipe-parts",
    statement="Behaviour cloning, the format penalty and the KL term each add stability.",
    source=f"{ARLARENA}, section 3",
    how=(
        "Final success of GRPO under stress with the standard recipe (KL 0.01 given back) against the same "
        "less one part: what is left at the end, whether it was never gained or lost. All three have to "
        "matter."
    ),
    parts=tuple(
        Contrast(
            f"grpo ends above grpo without {part}",
            STRESS,
            _STANDARD,
            Arm(("grpo",), changes),
            STRESS_ENVS,
            FINAL,
        )
        for part, changes in _WITHOUT.items()
    ),
)

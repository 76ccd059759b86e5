"""ActFocus's diagnosis."""

from arena.claims.base import Claim
from arena.claims.energy_correlation import EnergyCorrelation
from arena.claims.papers.settings import ACTFOCUS, ACTFOCUS_ENVS, CPU
from arena.claims.published import number

CLAIM = Claim(
    name="action-energy",
    statement=(
        "The energy of action tokens correlates with the variance of the reward, that of thought tokens does not."
    ),
    source=ACTFOCUS,
    how=(
        "Spearman's correlation over the tasks of GRPO's first five steps, within a step, mean over environments: that "
        "of action tokens has to be above 0, that of thought tokens within 0.2 of it, by two one-sided tests. The "
        "smallest correlation of interest is 0.1."
    ),
    parts=(
        EnergyCorrelation("action energy correlates", CPU, "grpo", ACTFOCUS_ENVS, "energy_action"),
        EnergyCorrelation("thought energy does not", CPU, "grpo", ACTFOCUS_ENVS, "energy_think", none=True),
    ),
    published=tuple(
        number(
            f"{tokens} tokens",
            "actfocus",
            "value",
            setting="pooled",
            metric=f"correlation of {tokens}-token energy and reward variance",
        )
        for tokens in ("action", "reasoning")
    ),
)

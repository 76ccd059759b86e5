"""Single-rollout SAPO against PPO with turn-level GAE."""

from arena.claims.base import Claim
from arena.claims.contrast import FINAL, SECONDS, STATE, Arm, Contrast
from arena.claims.papers.settings import CPU, SAPO_SR, SAPO_SR_ENVS
from arena.claims.published import number

_ARMS = (Arm(("sapo-sr",)), Arm(("ppo-turn",)))

CLAIM = Claim(
    name="single-rollout",
    statement="Single-rollout SAPO matches PPO with turn-level GAE in success, with less time and memory.",
    source=SAPO_SR,
    how=(
        "Final success within 5 points of ppo-turn's, by two one-sided tests; less time of rollout, scoring"
        " and update; and less memory, of which the part that no batch changes is measured: weights, critic"
        " and optimiser state as kept on disk (cells record no peak memory). Times are of one machine under"
        " one load."
    ),
    parts=(
        Contrast("sapo-sr ends where ppo-turn does", CPU, *_ARMS, SAPO_SR_ENVS, FINAL, "same"),
        Contrast("sapo-sr takes less time a step", CPU, *_ARMS, SAPO_SR_ENVS, SECONDS, "less"),
        Contrast("sapo-sr holds less state", CPU, *_ARMS, SAPO_SR_ENVS, STATE, "less"),
    ),
    published=tuple(
        number(
            f"ALFWorld {model}, change of time per iteration",
            "sapo_single_rollout",
            "value",
            unit="%",
            model=model,
            metric="iteration time change %",
        )
        for model in ("1.5B", "7B")
    ),
)

"""More updates on the same rollout, at the same number of episodes and updates in all."""

from arena.claims.base import Claim
from arena.claims.contrast import FINAL, Arm, Contrast
from arena.claims.papers.settings import ARLARENA, STRESS, STRESS_ENVS
from arena.claims.published import number

#: Half and twice the tier's rollout and mini-batches, over twice and half its steps: the episodes of a mini-batch, and
#: the episodes, updates, learning rates and evaluations of the whole run are the same.
FRESH = ("rollout.groups=16", "optim.minibatches=4", "steps=80", "optim.warmup=80", "eval.every=4")
STALE = ("rollout.groups=64", "optim.minibatches=16", "steps=20", "optim.warmup=20", "eval.every=1")

CLAIM = Claim(
    name="staleness",
    statement="Staleness hurts: the more updates a rollout is used for, the lower the success.",
    source=f"{ARLARENA}, Table 5",
    how=(
        "GRPO under stress with 4 updates a rollout against 16. Groups grow with mini-batches and steps "
        "shrink, so that both see the same number of episodes in the same number of updates of the same "
        "size; they are matched by these, not by steps."
    ),
    parts=(
        Contrast(
            "grpo with 4 updates a rollout ends above grpo with 16",
            STRESS,
            Arm(("grpo",), FRESH),
            Arm(("grpo",), STALE),
            STRESS_ENVS,
            FINAL,
        ),
    ),
    published=tuple(
        number(
            f"ALFWorld success, {level} staleness",
            "arlarena_table5_staleness",
            level,
            unit="%",
            task="ALFWorld",
            metric="success",
        )
        for level in ("low", "medium", "high")
    ),
)

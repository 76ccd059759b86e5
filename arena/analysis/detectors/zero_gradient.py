"""No gradient although rewards differ.

Two places where a signal is lost. A group whose returns differ has advantages other than 0, under every rule that
compares within groups. And where a token that is not certain has weight and an advantage in a step's first mini-batch,
the ratio is 1 and nothing is clipped, so the gradient is not 0. An exact 0 there means that the loss is detached,
masked away or multiplied by 0. Honest zeros are left out: certain tokens (their gradient is 1 - p), masked ones, and
equal tokens at equal places whose advantages cancel.
"""

from __future__ import annotations

from arena.analysis.detectors.base import CellRecords, Detector, Status, Verdict
from arena.analysis.detectors.parts import WITHIN_GROUP, advantage_rule

#: Of returns, relative to their size: far above the 1e-9 below which the rules take returns for equal.
SPREAD = 1e-6
#: What a token's log-probability must be below, and |sum of weight x advantage| above: far above where float32
#: gradients vanish.
UNCERTAIN, PUSH = -1e-3, 1e-3

_GROUPS = f"""
    WITH groups AS (
        SELECT step, max(abs(advantage)) AS a FROM episodes WHERE advantage IS NOT NULL GROUP BY step, group_id
        HAVING max(reward) - min(reward) > {SPREAD} * greatest(1, max(abs(reward)))
    )
    SELECT step, count(*) FILTER (a = 0) AS lost FROM groups GROUP BY step ORDER BY step
"""
_PUSHES = f"""
    WITH pushes AS (
        SELECT step, sum(weight * advantage) AS push FROM tokens
        WHERE epoch = 0 AND minibatch = 0 AND old_logprob < {UNCERTAIN}
            AND NOT (masked OR clipped_low OR clipped_high)
        GROUP BY step, turn, position, token_id
    )
    SELECT step, max(abs(push)) AS push FROM pushes GROUP BY step ORDER BY step
"""


def judge(records: CellRecords) -> Verdict:
    """The steps that lost their signal, with their gradient norm."""
    norm, groups, pushes = (
        records.column("grad_norm"),
        records.query("episodes", _GROUPS),
        records.query("tokens", _PUSHES),
    )
    assert norm is not None and records.recipe is not None and groups is not None and pushes is not None
    push, lost = pushes.set_index("step").push, groups.set_index("step").lost
    within = advantage_rule(records.recipe) in WITHIN_GROUP
    unequal = set(lost.index[lost > 0]) if within else set()
    pushed = set(push.index[push > PUSH])
    judged = pushed | (set(lost.index) if within else set())
    if not judged:
        return Verdict(Status.DEGENERATE, "no step has a reward spread or an advantage to learn from")
    still = pushed & set(norm.index[norm == 0])
    faults = norm[norm.index.isin(unequal | still)]
    if faults.empty:
        return Verdict(Status.OK, f"a gradient in each of {len(judged)} steps with something to learn from")
    return Verdict.of(
        Status.CRITICAL,
        f"of {len(judged)} steps with something to learn from, {len(unequal)} have groups of unequal return without "
        f"advantage, {len(still)} a gradient of exactly 0",
        faults,
    )


DETECTOR = Detector(
    name="zero-gradient",
    title="No gradient although rewards differ",
    kind="check",
    why="The run goes on and costs what it costs, and nothing is learned.",
    needs=(
        "recipe",
        "steps.grad_norm",
        "episodes.reward",
        "episodes.advantage",
        "tokens.advantage",
        "tokens.weight",
        "tokens.old_logprob",
        "tokens.masked",
        "tokens.clipped_low",
        "tokens.clipped_high",
    ),
    advice="Look for a detached log-probability, a mask or weight of 0, and at the group ids.",
    source="our own; arena/algorithms/normalise.py",
    judge=judge,
)

"""Whether later prompts of an episode extend the earlier ones.

Where the model is shown what was said before, each prompt must begin with the one before it: a turn left out or cut, or
one shown twice, makes the policy act on what did not happen, and a cache of its prefix useless. In layout trajectory
the records hold what each turn added, so that turns must be without gap and none may begin with the first prompt again.
With a history (`env.history`) each turn's whole prompt is recorded, and begins with the one before while all earlier
turns fit; the full observation style's heading of the latest observation changes, which is allowed for. In layout turn
without history a prompt shows the current state alone, and the property does not apply.
"""

from __future__ import annotations

from arena.analysis.detectors.base import CellRecords, Detector, Status, Verdict

_TRAJECTORY = """
    WITH ordered AS (
        SELECT step, turn, prompt, lag(turn) OVER w AS before, first_value(prompt) OVER w AS opening
        FROM turns WINDOW w AS (PARTITION BY step, episode_id ORDER BY turn)
    )
    SELECT step, count(*) FILTER (turn > 0) AS judged, count(*) FILTER (
        turn > 0 AND (before IS DISTINCT FROM turn - 1 OR starts_with(prompt, opening))
    ) AS broken
    FROM ordered GROUP BY step ORDER BY step
"""
_HISTORY = """
    WITH shown AS (
        SELECT step, episode_id, turn, replace(prompt, 'Current observation:', 'Earlier observation:') AS prompt
        FROM turns WHERE turn <= {history}
    ),
    ordered AS (
        SELECT step, turn, prompt, lag(prompt) OVER (PARTITION BY step, episode_id ORDER BY turn) AS before
        FROM shown
    )
    SELECT step, count(*) FILTER (turn > 0) AS judged, count(*) FILTER (
        turn > 0 AND NOT coalesce(starts_with(prompt, before), false)
    ) AS broken
    FROM ordered GROUP BY step ORDER BY step
"""


def judge(records: CellRecords) -> Verdict:
    """The steps with turns whose prompt does not extend the one before, with their number."""
    recipe = records.recipe
    assert recipe is not None
    trajectory = recipe.rollout.layout == "trajectory"
    if not trajectory and recipe.env.history == 0:
        return Verdict(Status.DEGENERATE, "layout turn without history: every turn has a prompt of its own")
    frame = records.query("turns", _TRAJECTORY if trajectory else _HISTORY.format(history=recipe.env.history))
    assert frame is not None
    counts = frame.set_index("step")
    judged = counts.judged.sum()
    if not judged:
        return Verdict(Status.DEGENERATE, "no episode has a second turn")
    faults = counts.broken[counts.broken > 0]
    if faults.empty:
        return Verdict(Status.OK, f"each of {judged} later prompts extends the one before")
    return Verdict.of(
        Status.CRITICAL, f"{faults.sum()} of {judged} later prompts do not extend the one before", faults
    )


DETECTOR = Detector(
    name="prompt-prefix",
    title="A later prompt does not extend the earlier one",
    kind="check",
    why="The policy then acts on a history that did not happen, and is scored on another one than it was trained on.",
    needs=("recipe", "turns.prompt"),
    advice="Print two consecutive prompts of an episode in the first such step.",
    source="docs/architecture.md, rollout.layout",
    judge=judge,
)

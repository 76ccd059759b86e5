"""Several actions in one turn, joined by `||`: RAGEN's variant of Sokoban and FrozenLake.

The actions are carried out in order until the episode ends, and their rewards are summed. More than the environment
allows are not read. One that is malformed makes the whole turn malformed, so that no part of it changes anything.

Departure: RAGEN drops malformed actions and carries out the others.
"""

from __future__ import annotations

from collections.abc import Container

from arena.envs.base import whole_number

SEPARATOR = "||"
_MOST = 10


def checked(actions_per_turn: int) -> int:
    """The option if it is a number of actions. Raises ValueError."""
    return whole_number("actions_per_turn", actions_per_turn, 1, _MOST)


def understood(text: str, known: Container[str], most: int) -> tuple[str, ...]:
    """The actions of a turn, at most `most`; none if the text is malformed."""
    if most == 1:
        action = text.strip().lower()
        return (action,) if action in known else ()
    actions = tuple(part.strip().lower() for part in text.split(SEPARATOR, most)[:most])
    return actions if all(action in known for action in actions) else ()


def action_share(most: int, thought: int) -> float:
    """Share of the action block in the response of an expert whose thoughts have that many words."""
    block = 2 * most + 1
    return block / (block + thought + 3)


def rules(text: str, most: int) -> str:
    """The rules of an environment as they are with so many actions per turn."""
    if most == 1:
        return text
    text = text.replace("exactly one of", f"one to {most} of")
    text = text.replace("<action>your action</action>", "<action>first action || second action</action>")
    return f"{text}\nThe actions of a turn are carried out in order. If one of them is none of those above, none is."

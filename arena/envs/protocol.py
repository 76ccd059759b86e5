"""The response format `<think>..</think><action>..</action>`: parsing, validity and token roles.

Strictly valid: exactly one of each tag, in this order, nothing else but white space, action not empty. Not
strictly valid but with an action block: the action is executed and the turn is penalised. No action block: no
effect in the environment, and the penalty (ARLArena section 3; verl-agent's projection functions).

Departures: verl-agent takes the text between the first opening and the first closing action tag, wherever
they are; here an action quoted in a closed thought is not executed, an action block contains no further tag,
and of several blocks the last counts.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

TAGS = ("<think>", "</think>", "<action>", "</action>")
_TAG = re.compile("|".join(map(re.escape, TAGS)))
#: Text without a tag. Matching it from every opening tag takes linear time in all, whatever the response.
_PLAIN = rf"(?:(?!{_TAG.pattern}).)*"
_STRICT = re.compile(rf"\s*<think>{_PLAIN}</think>\s*<action>{_PLAIN}</action>\s*", re.DOTALL)
_ACTION_BLOCK = re.compile(rf"<action>(?P<action>{_PLAIN})</action>", re.DOTALL)
#: A thought runs to its closing tag, else to the first action tag (a forgotten `</think>`), else to the end.
_THINK_BLOCK = re.compile(r"<think>(?:.*?</think>|.*?(?=<action>)|.*)", re.DOTALL)

Span = tuple[int, int]


@dataclass(frozen=True)
class Parsed:
    """A parsed response. Spans are character ranges [start, end) and include the block's tags."""

    action: str | None
    valid: bool
    think_spans: tuple[Span, ...]
    action_span: Span | None
    tag_spans: tuple[Span, ...]


def format_response(thought: str, action: str) -> str:
    """The strictly valid response of an expert."""
    return f"<think>{thought}</think><action>{action}</action>"


def parse_response(text: str) -> Parsed:
    """Parse a response's text. Never raises: any text is some response.

    The action is taken from the last complete action block outside every thought, so that an action quoted
    while thinking is not executed.
    """
    thoughts = tuple(m.span() for m in _THINK_BLOCK.finditer(text))
    blocks = [m for m in _ACTION_BLOCK.finditer(text) if not any(_overlap(m.span(), t) for t in thoughts)]
    block = blocks[-1] if blocks else None
    action = (block["action"].strip() or None) if block else None
    return Parsed(
        action=action,
        valid=action is not None and _STRICT.fullmatch(text) is not None,
        think_spans=thoughts,
        action_span=block.span() if block else None,
        tag_spans=tuple(m.span() for m in _TAG.finditer(text)),
    )


def token_roles(parsed: Parsed, spans: Sequence[Span]) -> tuple[list[str], list[bool]]:
    """Role and tag flag of each token from its character range in the response.

    A token that overlaps the action block is an action token, else one that overlaps a thought is a thought
    token, else other. An empty range (an end token) is other: the caller knows which token ended the
    response. Spans are character ranges [start, end), tags included; both lists have one item per span.
    """
    roles, tags = [], []
    for span in spans:
        if _overlap(span, parsed.action_span):
            roles.append("action")
        elif any(_overlap(span, thought) for thought in parsed.think_spans):
            roles.append("think")
        else:
            roles.append("other")
        tags.append(any(_overlap(span, tag) for tag in parsed.tag_spans))
    return roles, tags


def _overlap(a: Span, b: Span | None) -> bool:
    return b is not None and max(a[0], b[0]) < min(a[1], b[1])

"""The response format `<think>..</think><action>..</action>`: parsing, validity and token roles.

Strictly valid: exactly one of each tag, in this order, nothing else but white space, action not empty. Not
strictly valid but with an action block: the action is executed and the turn is penalised. No action block: no
effect in the environment, and the penalty (ARLArena section 3; verl-agent's projection functions).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

TAGS = ("<think>", "</think>", "<action>", "</action>")
_STRICT = re.compile(r"\s*<think>(?P<thought>.*?)</think>\s*<action>(?P<action>.*?)</action>\s*", re.DOTALL)
_ACTION_BLOCK = re.compile(r"<action>(?P<action>.*?)</action>", re.DOTALL)
_THINK_BLOCK = re.compile(r"<think>.*?(?:</think>|\Z)", re.DOTALL)
_TAG = re.compile("|".join(map(re.escape, TAGS)))

Span = tuple[int, int]


@dataclass(frozen=True)
class Parsed:
    """A parsed response. Spans are character ranges [start, end) and include the block's tags."""

    action: str | None
    valid: bool
    think_span: Span | None
    action_span: Span | None
    tag_spans: tuple[Span, ...]


def format_response(thought: str, action: str) -> str:
    """The strictly valid response of an expert."""
    return f"<think>{thought}</think><action>{action}</action>"


def parse_response(text: str) -> Parsed:
    """Parse a response's text. Never raises: any text is some response.

    The action is taken from the last complete action block outside the thought, so that an action quoted while
    thinking is not executed.
    """
    strict = _STRICT.fullmatch(text)
    once = all(text.count(tag) == 1 for tag in TAGS)
    think = _THINK_BLOCK.search(text)
    think_span = think.span() if think else None
    blocks = [m for m in _ACTION_BLOCK.finditer(text) if not (think_span and think_span[0] <= m.start() < think_span[1])]
    block = blocks[-1] if blocks else None
    action = block["action"].strip() if block else None
    return Parsed(
        action=action or None,
        valid=bool(strict and once and action),
        think_span=think_span,
        action_span=block.span() if block else None,
        tag_spans=tuple(m.span() for m in _TAG.finditer(text)),
    )


def token_roles(parsed: Parsed, spans: Sequence[Span]) -> tuple[list[str], list[bool]]:
    """Role and tag flag of each token from its character range in the response.

    A token that overlaps the action block is an action token, else one that overlaps the thought is a thought
    token, else other. An empty range (an end token) is other: the caller knows which token ended the response.
    """
    roles, tags = [], []
    for span in spans:
        if _overlap(span, parsed.action_span):
            roles.append("action")
        elif _overlap(span, parsed.think_span):
            roles.append("think")
        else:
            roles.append("other")
        tags.append(any(_overlap(span, tag) for tag in parsed.tag_spans))
    return roles, tags


def _overlap(a: Span, b: Span | None) -> bool:
    return b is not None and max(a[0], b[0]) < min(a[1], b[1])

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
#: One that is not closed runs to the next tag or the end.
_ACTION_BLOCK = re.compile(rf"<action>(?P<action>{_PLAIN})(?P<end></action>)?", re.DOTALL)
#: A thought runs to its closing tag, else to the first action tag (a forgotten `</think>`), else to the end.
_THINK_BLOCK = re.compile(r"<think>(?:.*?</think>|.*?(?=<action>)|.*)", re.DOTALL)

Span = tuple[int, int]


@dataclass(frozen=True)
class Parsed:
    """A parsed response. Spans are character ranges [start, end) and include the block's tags.

    Action spans are those of every action block outside the thoughts, of blocks that are not executed and of blocks
    that are not closed too: once the thought is closed, whether a token is part of an action does not depend on how
    the response goes on. (An action within a thought that is not closed yet is quoted if it is closed later.)
    """

    action: str | None
    valid: bool
    think_spans: tuple[Span, ...]
    action_spans: tuple[Span, ...]
    tag_spans: tuple[Span, ...]


def format_response(thought: str, action: str) -> str:
    """The strictly valid response of an expert. The spaces belong to the words after them: see the tokenizer."""
    return f"<think> {thought}</think><action> {action}</action>"


def parse_response(text: str) -> Parsed:
    """Parse a response's text. Never raises: any text is some response.

    The action is taken from the last complete action block outside every thought, so that an action quoted
    while thinking is not executed.
    """
    thoughts = tuple(m.span() for m in _THINK_BLOCK.finditer(text))
    in_thought = _painted(len(text), [(span, 1) for span in thoughts])
    blocks = [m for m in _ACTION_BLOCK.finditer(text) if not any(in_thought[m.start() : m.end()])]
    complete = [m for m in blocks if m["end"]]
    action = (complete[-1]["action"].strip() or None) if complete else None
    return Parsed(
        action=action,
        valid=action is not None and _STRICT.fullmatch(text) is not None,
        think_spans=thoughts,
        action_spans=tuple(m.span() for m in blocks),
        tag_spans=tuple(m.span() for m in _TAG.finditer(text)),
    )


def token_roles(parsed: Parsed, spans: Sequence[Span]) -> tuple[list[str], list[bool]]:
    """Role and tag flag of each token from its character range in the response.

    A token that overlaps an action block is an action token, else one that overlaps a thought is a thought
    token, else other. An empty range (an end token) is other: the caller knows which token ended the
    response. Spans are character ranges [start, end), tags included; both lists have one item per span.
    """
    length = max((end for _, end in spans), default=0)
    thoughts = [(span, 1) for span in parsed.think_spans]
    role = _painted(length, [*thoughts, *((span, 2) for span in parsed.action_spans)])
    tag = _painted(length, [(span, 1) for span in parsed.tag_spans])
    names = ("other", "think", "action")
    return [names[max(role[a:b], default=0)] for a, b in spans], [any(tag[a:b]) for a, b in spans]


def _painted(length: int, spans: Sequence[tuple[Span, int]]) -> bytearray:
    """One number per character: that of the last span it is in, or 0."""
    marks = bytearray(length)
    for (start, end), number in spans:
        marks[start:end] = bytes([number]) * (min(end, length) - start)
    return marks

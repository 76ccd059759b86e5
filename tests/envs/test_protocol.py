"""The response format: what is valid, what is executed, and which token plays which role."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arena.envs.protocol import TAGS, format_response, parse_response, token_roles

GOOD = [
    ("<think>a b</think><action>up</action>", "up"),
    ("<think></think><action>up</action>", "up"),
    ("  <think>a</think>\n\n<action> up </action>\n", "up"),
    ("<think>a\nb < c > d</think><action>UP</action>", "UP"),
    ("<think>up down</think><action>go to cabinet 1</action>", "go to cabinet 1"),
    ("<think>a</think><action><b>up</b></action>", "<b>up</b>"),
    ("<think>a</think><action>search[<thing>]</action>", "search[<thing>]"),
]


@pytest.mark.parametrize(("text", "action"), GOOD)
def test_strictly_valid_responses_are_valid_and_executed(text, action):
    parsed = parse_response(text)
    assert parsed.valid
    assert parsed.action == action


EXECUTED_BUT_INVALID = [
    ("<action>up</action>", "up"),
    ("<think>a<action>up</action>", "up"),  # the closing tag of the thought is forgotten
    ("a</think><action>up</action>", "up"),
    ("so <think>a</think><action>up</action>", "up"),
    ("<think>a</think> so <action>up</action>", "up"),
    ("<think>a</think><action>up</action>.", "up"),
    ("<action>up</action><think>a</think>", "up"),
    ("<think>a</think><action>up</action><action>down</action>", "down"),
    ("<think>a</think><think>b</think><action>up</action>", "up"),
    ("<think>a<think>b</think><action>up</action>", "up"),
    ("<think>a</think></think><action>up</action>", "up"),
    ("<think>a</think><action><action>up</action>", "up"),
    ("<think>a</think><action>up</action></action>", "up"),
    ("<think>try <action>up</action> or not</think><action>down</action>", "down"),
    ("<think>a</think><action>up</action><action>down", "up"),
    ("<think>a</think><action>up</action><action> </action>", None),
    ("<think>a<action>up</action><action>down</action>", "down"),
]


@pytest.mark.parametrize(("text", "action"), EXECUTED_BUT_INVALID)
def test_an_action_block_is_executed_though_the_response_is_invalid(text, action):
    parsed = parse_response(text)
    assert not parsed.valid
    assert parsed.action == action


NOT_EXECUTED = [
    "",
    " ",
    "up",
    "<think>a</think>",
    "<think>a</think>up",
    "<think>a</think><action>up",
    "<think>a</think>up</action>",
    "<think>a</think><action></action>",
    "<think>a</think><action> \n </action>",
    "<think>try <action>up</action> perhaps</think>",  # quoted while thinking
    "<think>a</think><think><action>up</action></think>",
    "<think>a<action>b</think></action>",  # crossing blocks
    "<think>a</think><action>up<think>b</think></action>",
    "<THINK>a</THINK><ACTION>up</ACTION>",
    "<think>a</think>< action >up</ action >",
    "</action>up<action>",
    "\0\ud800",
]


@pytest.mark.parametrize("text", NOT_EXECUTED)
def test_without_a_complete_action_block_nothing_is_executed(text):
    parsed = parse_response(text)
    assert not parsed.valid
    assert parsed.action is None


@given(st.lists(st.sampled_from([*TAGS, "up", " ", "x", "\n", "<", "é"]), max_size=30).map("".join))
def test_any_text_is_some_response(text):
    parsed = parse_response(text)
    assert parsed.valid <= (parsed.action is not None)
    assert parsed.valid <= all(text.count(tag) == 1 for tag in TAGS)
    assert [text[a:b] in TAGS for a, b in parsed.tag_spans] == [True] * len(parsed.tag_spans)
    for start, end in parsed.action_spans:
        assert text[start:end].startswith("<action>")
        assert text[start:end].endswith("</action>") or end == len(text) or text[end:].startswith(TAGS)
        assert all(b <= start or end <= a for a, b in parsed.think_spans)


words = st.text(st.characters(blacklist_characters="<", blacklist_categories=["Cs"]), max_size=20)


@given(words, words.filter(str.strip))
def test_parsing_undoes_formatting(thought, action):
    text = format_response(thought, action)
    parsed = parse_response(text)
    assert parsed.valid
    assert parsed.action == action.strip()
    assert [text[a:b] for a, b in parsed.think_spans] == [f"<think> {thought}</think>"]


@pytest.mark.parametrize(
    "piece", ["<think>", "<action>", "</think>", "<think><action>", "</think><action>", " "]
)
def test_a_long_hostile_response_is_parsed_in_time(piece):
    text = "<think>" + piece * 2000
    start = time.perf_counter()
    assert parse_response(text).action is None
    assert time.perf_counter() - start < 2


def _roles(text, tokens):
    assert "".join(tokens) == text
    ends = [sum(map(len, tokens[: i + 1])) for i in range(len(tokens))]
    spans = [(end - len(token), end) for end, token in zip(ends, tokens, strict=True)]
    return token_roles(parse_response(text), spans)


def test_roles_of_tokens_that_respect_the_tags():
    tokens = ["<think>", "near", " wall", "</think>", "<action>", "up", "</action>", ""]
    roles, tags = _roles("".join(tokens), tokens)
    assert roles == ["think"] * 4 + ["action"] * 3 + ["other"]
    assert tags == [True, False, False, True, True, False, True, False]


def test_a_token_that_straddles_tags_belongs_to_the_action_block_it_touches():
    tokens = ["<thi", "nk>ne", "ar</", "think><act", "ion>", "u", "p</action", ">\n"]
    roles, tags = _roles("".join(tokens), tokens)
    assert roles == ["think"] * 3 + ["action"] * 5
    assert tags == [True, True, True, True, True, False, True, True]


def test_roles_outside_the_blocks():
    tokens = ["so ", "<think>", "a", "</think>", " ", "<action>", "up", "</action>", " bye"]
    roles, _ = _roles("".join(tokens), tokens)
    assert roles == ["other", *["think"] * 3, "other", *["action"] * 3, "other"]


def test_an_action_quoted_in_a_thought_is_thought():
    tokens = ["<think>", "<action>", "up", "</action>", "</think>", "<action>", "down", "</action>"]
    roles, tags = _roles("".join(tokens), tokens)
    assert roles == ["think"] * 5 + ["action"] * 3
    assert tags == [True, True, False, True, True, True, False, True]


def test_roles_of_an_unfinished_response():
    tokens = ["<think>", "a", "</think>", "<action>", "up"]
    roles, tags = _roles("".join(tokens), tokens)
    assert roles == ["think"] * 3 + ["action"] * 2
    assert tags == [True, False, True, True, False]
    assert _roles("<think>a", ["<think>", "a"])[0] == ["think", "think"]
    tokens = ["<think>", "a", "<action>", "up", "</action>"]
    assert _roles("".join(tokens), tokens)[0] == ["think"] * 2 + ["action"] * 3


def test_after_the_thought_a_role_does_not_depend_on_what_follows():
    tokens = [
        "<think>",
        "a",
        "</think>",
        "<action>",
        "up",
        "</action>",
        "<action>",
        "down",
        "<think>",
        "b",
        "</action>",
    ]
    for length in range(4, len(tokens) + 1):
        roles, _ = _roles("".join(tokens[:length]), tokens[:length])
        assert roles == [*["think"] * 3, *["action"] * 5, *["think"] * 3][:length]


def test_each_of_several_thoughts_is_a_thought():
    tokens = ["<think>", "a", "</think>", "x", "<think>", "b", "</think>", "<action>", "up", "</action>"]
    roles, _ = _roles("".join(tokens), tokens)
    assert roles == ["think"] * 3 + ["other"] + ["think"] * 3 + ["action"] * 3


def test_no_tokens_have_no_roles():
    assert token_roles(parse_response("anything"), []) == ([], [])

"""Text to ids and back; which characters each sampled id stands for, for tokenizers of several kinds."""

import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from arena.envs.protocol import TAGS, parse_response, token_roles
from arena.policy.tokenizer import EOS, PAD, RESERVED, UNK, TextCodec, build_tokenizer
from arena.training.bc import shared_words
from tests.policy.conftest import WORDS

CODEC = TextCodec(build_tokenizer(WORDS))
PIECES = st.one_of(
    st.sampled_from([*WORDS, *TAGS, " ", *(f" {word}" for word in WORDS)]),
    st.text(string.printable, max_size=6),
)


@settings(deadline=None)
@given(st.lists(PIECES, max_size=12).map("".join))
def test_round_trip(text):
    ids = CODEC.encode(text)
    assert CODEC.text_and_spans(ids)[0] == text


@settings(deadline=None)
@given(st.lists(st.integers(0, len(CODEC.tokenizer) - 1), max_size=12))
def test_spans_of_any_ids_tile_the_text(ids):
    text, spans = CODEC.text_and_spans(ids)
    assert "".join(text[start:end] for start, end in spans) == text
    assert [end for _, end in spans[:-1]] == [start for start, _ in spans[1:]]
    for token, (start, end) in zip(ids, spans, strict=True):
        assert text[start:end] == (
            "" if token == CODEC.eos_id else CODEC.tokenizer.convert_ids_to_tokens(token)
        )


def test_words_and_tags_are_one_token_each():
    text = "<think> player goal</think><action> up</action>"
    pieces = ["<think>", " player", " goal", "</think>", "<action>", " up", "</action>"]
    assert CODEC.tokenizer.convert_ids_to_tokens(CODEC.encode(text)) == pieces
    _, spans = CODEC.text_and_spans(CODEC.encode(text))
    assert [text[start:end] for start, end in spans] == pieces


def test_unknown_characters_are_unk_and_unknown_words_are_spelled():
    assert CODEC.tokenizer.convert_ids_to_tokens(CODEC.encode("ü")) == [UNK]
    # The longest known piece first.
    assert CODEC.tokenizer.convert_ids_to_tokens(CODEC.encode(" upx up")) == [" up", "x", " up"]


def test_special_tokens_and_vocabulary():
    tokenizer = CODEC.tokenizer
    assert [tokenizer.convert_ids_to_tokens(i) for i in range(7)] == [PAD, EOS, UNK, *TAGS]
    assert (CODEC.pad_id, CODEC.eos_id) == (0, 1)
    pieces = {PAD, EOS, UNK, *TAGS, *string.printable, *(f" {word}" for word in WORDS), *RESERVED}
    assert set(tokenizer.get_vocab()) == pieces
    assert len(tokenizer) == len(pieces)


def test_the_vocabulary_does_not_depend_on_the_order_of_words():
    first = build_tokenizer(WORDS).get_vocab()
    assert build_tokenizer([*reversed(WORDS), *WORDS]).get_vocab() == first


def test_environment_texts_need_no_unknown_token():
    codec = TextCodec(build_tokenizer(shared_words()))
    unknown = codec.tokenizer.unk_token_id
    for word in shared_words():
        assert len(codec.encode(f" {word}")) == 1
        assert unknown not in codec.encode(f" {word}")


def test_the_end_token_has_no_text():
    text, spans = CODEC.text_and_spans([*CODEC.encode(" up"), CODEC.eos_id])
    assert (text, spans) == (" up", [(0, 3), (3, 3)])


RESPONSE = "<think> a</think><action>up</action>"


def byte_codec(merges) -> TextCodec:
    """A byte-level BPE as of large models, whose merges may straddle tags. Ids 0 and 1 are pad and eos."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    pieces = ["<pad>", "<eos>", *alphabet, *("".join(pair) for pair in merges)]
    tokenizer = Tokenizer(models.BPE({piece: i for i, piece in enumerate(pieces)}, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken("<pad>", special=True), AddedToken("<eos>", special=True)])
    return TextCodec(
        PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>", eos_token="<eos>")
    )


#: Tokens "k><a" (end of the thought and start of the action), "<t" and "n>".
STRADDLING = [("k", ">"), ("<", "a"), ("k>", "<a"), ("<", "t"), ("n", ">")]


def roles_of(codec, ids):
    text, spans = codec.text_and_spans(ids)
    roles, tags = token_roles(parse_response(text), spans)
    return text, [text[start:end] for start, end in spans], roles, tags


def test_a_token_that_straddles_thought_and_action_is_an_action_token():
    codec = byte_codec(STRADDLING)
    text, pieces, roles, tags = roles_of(codec, codec.encode(RESPONSE))
    assert text == RESPONSE
    expected = [
        "<t",
        *"hin",
        "k>",
        *" a",
        "<",
        "/",
        *"thin",
        "k><a",
        *"ctio",
        "n>",
        *"up",
        "<",
        *"/actio",
        "n>",
    ]
    assert pieces == expected
    straddling = pieces.index("k><a")
    assert roles[:straddling] == ["think"] * straddling
    assert roles[straddling:] == ["action"] * (len(pieces) - straddling)
    body = {" ": pieces.index(" "), "a": pieces.index("a"), "u": pieces.index("u"), "p": pieces.index("p")}
    assert [i for i, tag in enumerate(tags) if not tag] == sorted(body.values())


def test_a_token_that_straddles_a_tag_and_its_text_is_a_tag_token():
    codec = byte_codec([("n", ">"), ("n>", "u")])
    _, pieces, roles, tags = roles_of(codec, codec.encode(RESPONSE))
    at = pieces.index("n>u")
    assert (roles[at], tags[at]) == ("action", True)
    assert (pieces[at + 1], roles[at + 1], tags[at + 1]) == ("p", "action", False)


def test_ids_that_split_a_character_are_read_by_prefix():
    """Bytes of one character have no text of their own: joined pieces are not the text."""
    codec = byte_codec(STRADDLING)
    response = "<think> √</think><action>up</action>"
    ids = codec.encode(response)
    assert "".join(codec.tokenizer.decode([i]) for i in ids) != response
    text, pieces, roles, _ = roles_of(codec, [*ids, codec.eos_id])
    assert text == response
    # The character belongs to the first of its three bytes.
    at = pieces.index("√")
    assert pieces[at : at + 3] == ["√", "", ""]
    assert "".join(pieces) == response
    assert roles[at] == "think"
    assert [(p, r) for p, r in zip(pieces, roles, strict=True) if p == "k><a"] == [("k><a", "action")]
    assert pieces[-1] == ""


def test_pieces_that_lose_white_space_alone_are_read_by_prefix():
    vocabulary = {"<unk>": 0, "<eos>": 1, "▁go": 2, "▁up": 3}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    codec = TextCodec(
        PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<eos>", pad_token="<unk>")
    )
    assert codec.tokenizer.decode([3]) == "up"
    assert codec.text_and_spans([2, 3, 1]) == ("go up", [(0, 2), (2, 5), (5, 5)])


@pytest.mark.parametrize("ids", [[], [1], [1, 1]])
def test_empty_responses(ids):
    assert CODEC.text_and_spans(ids) == ("", [(0, 0)] * len(ids))


def test_ids_are_read_after_an_end_token_too():
    up = CODEC.encode(" up")
    assert CODEC.text_and_spans([*up, CODEC.eos_id, *up]) == (" up up", [(0, 3), (3, 3), (3, 6)])

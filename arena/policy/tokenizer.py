"""The CPU tier's tokenizer, and text of sampled ids without re-encoding.

Deterministic and closed under concatenation: every token stands for one literal string, so the text of a
response is the joined text of its ids and character ranges are exact. A word of the environments is one token
together with the space before it, which keeps the vocabulary small; tags are one token each, printable ASCII is
always encodable.
"""

from __future__ import annotations

import string
from collections.abc import Iterable, Sequence

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

from arena.envs.protocol import TAGS, Span

PAD, EOS, UNK = "<pad>", "<eos>", "<unk>"
#: The last two entries: no text encodes to them and nothing samples them; a method may read their logits as a value.
RESERVED = ("<w+>", "<w->")
_PRETOKEN = r"</?(?:think|action)>| ?[A-Za-z_]+| ?[0-9]+| ?[^A-Za-z0-9_\s]|\s"


def build_tokenizer(words: Iterable[str]) -> PreTrainedTokenizerFast:
    """A word-level tokenizer over `words`, the tags and printable ASCII; pad, eos, unk and what is reserved beside."""
    pieces = [
        PAD,
        EOS,
        UNK,
        *TAGS,
        *string.printable,
        *(f" {word}" for word in sorted(set(words))),
        *RESERVED,
    ]
    vocabulary = {piece: index for index, piece in enumerate(dict.fromkeys(pieces))}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token=UNK, continuing_subword_prefix=""))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(_PRETOKEN), "isolated")
    tokenizer.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=PAD,
        eos_token=EOS,
        unk_token=UNK,
        clean_up_tokenization_spaces=False,
        padding_side="left",
    )


class TextCodec:
    """Text to ids for prompts, ids to text and character ranges for sampled responses."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self.tokenizer = tokenizer
        self.eos_id: int = tokenizer.eos_token_id
        self.pad_id: int = tokenizer.pad_token_id
        self._pieces: dict[int, str] = {}
        self._encoded: dict[str, list[int]] = {}

    def encode(self, text: str) -> list[int]:
        """Ids of a prompt or of an expert's response, without special tokens."""
        if text not in self._encoded:
            if len(self._encoded) > 100_000:
                self._encoded.clear()
            self._encoded[text] = self.tokenizer.encode(text, add_special_tokens=False)
        return self._encoded[text]

    def text_and_spans(self, ids: Sequence[int]) -> tuple[str, list[Span]]:
        """The text of sampled ids and each id's character range. The end token has no text: an empty range."""
        pieces = [self._piece(i) for i in ids]
        text = "".join(pieces)
        visible = [i for i in ids if i != self.eos_id]
        if text != self._decode(visible):
            return self._spans_by_prefix(ids)
        spans, start = [], 0
        for piece in pieces:
            spans.append((start, start + len(piece)))
            start += len(piece)
        return text, spans

    def _spans_by_prefix(self, ids: Sequence[int]) -> tuple[str, list[Span]]:
        """For tokenizers whose tokens do not stand for literal strings (bytes, merged white space)."""
        ends, text = [], ""
        for k in range(1, len(ids) + 1):
            text = self._decode([i for i in ids[:k] if i != self.eos_id])
            ends.append(len(text))
        return text, list(zip([0, *ends[:-1]], ends, strict=True))

    def _piece(self, token_id: int) -> str:
        if token_id == self.eos_id:
            return ""
        if token_id not in self._pieces:
            self._pieces[token_id] = self._decode([token_id])
        return self._pieces[token_id]

    def _decode(self, ids: Sequence[int]) -> str:
        ids = list(ids)
        return str(self.tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False))

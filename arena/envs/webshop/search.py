"""BM25 search over a catalogue.

`bm25s` scores; parameters are those of the original's Lucene index through Pyserini (k1 0.9, b 0.4). Departures: words
are lowered and lose a plural s, where the original stems (Porter) and drops stop words.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

#: Results of a search, at most.
MOST_RESULTS = 50
_WORD = re.compile(r"[a-z0-9]+")
_CACHED_QUERIES = 20_000


class SearchEngine:
    """Ranks documents by number; remembers the answers, because the episodes of a group ask the same."""

    def __init__(self, documents: Sequence[str]) -> None:
        import bm25s  # Takes half a second to import.

        self._engine = bm25s.BM25(k1=0.9, b=0.4, method="lucene")
        self._engine.index([words(text) for text in documents], show_progress=False)
        self._answers: dict[tuple[str, ...], tuple[int, ...]] = {}

    def __call__(self, query: str) -> tuple[int, ...]:
        """Documents with at least one word of the query, best first, equal scores in the catalogue's order."""
        asked = tuple(word for word in words(query) if word in self._engine.vocab_dict)
        if asked not in self._answers:
            if len(self._answers) >= _CACHED_QUERIES:
                self._answers.clear()
            self._answers[asked] = self._search(list(asked))
        return self._answers[asked]

    def _search(self, asked: list[str]) -> tuple[int, ...]:
        if not asked:
            return ()
        scores = self._engine.get_scores(asked)
        best = np.argsort(-scores, kind="stable")[:MOST_RESULTS]
        return tuple(int(i) for i in best if scores[i] > 0)


def words(text: str) -> list[str]:
    """The words of a text as they are indexed."""
    found = _WORD.findall(text.lower())
    return [
        word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word
        for word in found
    ]

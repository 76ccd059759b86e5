"""Responses repeat themselves.

seq-rep-4 of Welleck et al.: the share of a response's sequences of four words that it has had before, mean over the
step's responses of four words and more.

Constants: two steps in a row of healthy GRPO cells of the CPU tier stay below 0.046. A tenth and a third are
repetition that a reader sees, a warning and critical; twice and four times the start, because some texts repeat by
nature: how many times is a convention.
"""

from __future__ import annotations

from arena.analysis.detectors.base import CellRecords, Detector, Status, Verdict
from arena.analysis.detectors.causal import Bound, Rule

#: Words in a row that count as repeated.
WORDS = 4

RULE = Rule(
    what="share of a response's four-word sequences that it has said before",
    side="above",
    warn=Bound(factor=2, limit=0.1),
    critical=Bound(factor=4, limit=0.3),
)

#: Mean over a step's responses of four words and more; each distinct text is taken apart once.
SQL = f"""
    WITH texts AS (
        SELECT step, string_split_regex(trim(response), '\\s+') AS words, count(*) AS n
        FROM turns WHERE response IS NOT NULL GROUP BY step, response
    ),
    counted AS (
        SELECT step, n, len(words) - {WORDS - 1} AS total,
            len(list_distinct([words[i:i + {WORDS - 1}] for i in range(1, len(words) - {WORDS - 2})])) AS distinct_ones
        FROM texts WHERE len(words) >= {WORDS}
    )
    SELECT step, sum(n * (1 - distinct_ones / total)) / sum(n) AS repeated FROM counted GROUP BY step ORDER BY step
"""


def judge(records: CellRecords) -> Verdict:
    """On the share by step; DEGENERATE where no response has four words."""
    repeated = records.query("turns", SQL)
    assert repeated is not None
    if repeated.empty:
        return Verdict(Status.DEGENERATE, f"no response has {WORDS} words")
    return RULE.verdict(repeated.set_index("step").repeated)


DETECTOR = Detector(
    name="repetition",
    title="Responses repeat themselves",
    kind="statistical",
    why="A policy that loops says nothing about the state it is in.",
    needs=("turns.response",),
    advice="Look at responses; lower the learning rate, raise kl.coef.",
    source="share of repeated n-grams (seq-rep-4), Welleck et al. 2020 (arXiv 1908.04319)",
    judge=judge,
)

"""The token microscope: turns around an alarm as text whose tokens are coloured, with their numbers.

Which turns is decided by `arena.analysis.microscope`. Colours come in levels from -4 to 4, the same for every channel:
blue above the middle, vermillion below, stronger further out, so that a channel is a middle and four edges.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from arena.analysis.microscope import Moment, token_texts, turns_at
from arena.records.reader import Cell
from arena.report.document import Lens, Level, Microscope, RowGroup, Slide, SlideTurn, Table, Token
from arena.report.style import BLUE, VERMILLION, tint
from arena.report.wording import MISSING, NBSP, count, number

#: Tokens of a turn that are shown, around its most extreme one. Each takes about 300 bytes of HTML.
SHOWN = 200

#: Tokens of a turn whose numbers are written out below it.
EXTREMES = 5

#: Level -> its hue, and how much of it is mixed into the paper. At the strongest, ink still has a contrast of 5 to 1.
LEVELS = {
    sign * level: (hue, share)
    for sign, hue in ((-1, VERMILLION), (1, BLUE))
    for level, share in enumerate((0.16, 0.34, 0.52, 0.70), start=1)
}


@dataclass(frozen=True)
class Channel:
    """A column of `tokens` as colours: level k where |value - middle| is at least the k-th edge, signed.

    `upward`: no value is below the middle.
    """

    key: str
    column: str
    title: str
    middle: float
    edges: tuple[float, float, float, float]
    meaning: str
    upward: bool = False

    def level(self, value: float) -> int:
        """From -4 to 4; 0 for what is missing."""
        if math.isnan(value):
            return 0
        return int(math.copysign(bisect_right(self.edges, abs(value - self.middle)), value - self.middle))

    def legend(self, values: Iterable[float]) -> tuple[Level, ...]:
        """The levels that `values` take, each with the values it stands for, from low to high."""
        taken = sorted({self.level(value) for value in values})
        return tuple(Level(level, self._range(level), colour(level)) for level in taken)

    def _range(self, level: int) -> str:
        ends = (0.0, *self.edges, math.inf)
        inner, outer = ends[abs(level)], ends[abs(level) + 1]
        if level == 0 and self.upward:
            return f"below {_shown(self.middle + outer)}"
        if level == 0:
            return f"{_shown(self.middle - outer)} to {_shown(self.middle + outer)}"
        near, far = (self.middle + math.copysign(end, level) for end in (inner, outer))
        if math.isinf(far):
            return f"{'above' if level > 0 else 'below'} {_shown(near)}"
        return " to ".join(_shown(end) for end in sorted((near, far)))


def channels(tokens: pd.DataFrame) -> tuple[Channel, ...]:
    """What tokens can be coloured by; the scale of energy, whose zero means nothing, spans that of `tokens`.

    Log ratio: 0.2 is about the end of the band [0.8, 1.2]; a sequence-level clip lies below 0.01. Advantage: a
    group-normalised one is at most 2.5 in a group of eight. Weight: ActFocus has 0.1 for thought, 1 to 1.5 for action.
    """
    low, high = (float(f(tokens.energy)) if tokens.energy.notna().any() else 0.0 for f in (min, max))
    fifth = (high - low) / 5 or 1.0
    return (
        Channel(
            "r", "log_ratio", "log ratio", 0.0, (0.01, 0.05, 0.2, 1.0), "log π − log π_old in this update"
        ),
        Channel(
            "e",
            "energy",
            "energy",
            low,
            (fifth, 2 * fifth, 3 * fifth, 4 * fifth),
            "of the frozen reference before the token; low is confident; fifths of the range shown here",
            upward=True,
        ),
        Channel("a", "advantage", "advantage", 0.0, (0.1, 0.5, 1.0, 2.0), "as the loss used it"),
        Channel(
            "w", "weight", "weight", 1.0, (0.01, 0.1, 0.25, 0.5), "in the loss; 1 without token weighting"
        ),
    )


def microscope(
    env: str,
    moments: Sequence[Moment],
    cells: Mapping[tuple[str, str, int], Cell],
    reasons: Mapping[tuple[str, str, int], str],
) -> Microscope | None:
    """The turns of one environment's `moments`; None if no tokens of theirs were recorded.

    `cells`, and `reasons` for the steps of those with an alarm, by environment, method and seed.
    """
    turns = {m: turns_at(cells[m.env, m.algo, m.seed], m.step) for m in moments if m.env == env}
    turns = {m: rows for m, rows in turns.items() if len(rows)}
    if not turns:
        return None
    shown = pd.concat([rows[["log_ratio", "energy", "advantage", "weight"]] for rows in turns.values()])
    by = channels(shown)
    return Microscope(
        id=f"{env}-tokens",
        title="Tokens under the microscope",
        caption=(
            "For at most two methods a step before a cell's collapse: the first at which a detector was critical, or "
            "else warned, or, without an alarm, where the collapse began. Without a collapse the step with its "
            "largest share of tokens with A < 0 and ratio below 0.8 (KL to the behaviour policy where that is equal). "
            "Of that step the three turns with the largest mean |log ratio|, each in the update where it was largest. "
            "In the HTML: underlined where the clip or a sequence mask removed the token's gradient; point at a token "
            "for its numbers, or open the table below its turn."
        ),
        lenses=tuple(Lens(c.key, c.title, c.meaning, c.legend(shown[c.column])) for c in by),
        slides=tuple(
            _slide(m, rows, cells[m.env, m.algo, m.seed], by, reasons.get((m.env, m.algo, m.seed)))
            for m, rows in turns.items()
        ),
    )


def _slide(
    moment: Moment, rows: pd.DataFrame, cell: Cell, by: Sequence[Channel], reason: str | None
) -> Slide:
    turns = tuple(_turn(turn, cell, by) for _, turn in rows.groupby("place"))
    title = f"{moment.algo}, seed {moment.seed}, step {moment.step}"
    return Slide(title, reason or "no collapse; its furthest step", turns)


def _turn(rows: pd.DataFrame, cell: Cell, by: Sequence[Channel]) -> SlideTurn:
    first, total = rows.iloc[0], len(rows)
    size = rows.log_ratio.abs().to_numpy()
    start = max(0, min(int(size.argmax()) - SHOWN // 2, total - SHOWN))
    rows = rows.iloc[start : start + SHOWN].reset_index(drop=True)
    texts = [_visible(text) for text in token_texts(cell, rows.token_id.tolist())]
    numbers = [tuple(_shown(float(row[c.column])) for c in by) for _, row in rows.iterrows()]
    gradients = [_gradient(row) for _, row in rows.iterrows()]
    levels = [[c.level(float(row[c.column])) for c in by] for _, row in rows.iterrows()]
    part = f", of which {start + 1} to {start + len(rows)} are shown" if len(rows) < total else ""
    name = f"Episode {first.episode_id}, turn {first.turn}"
    moved = (
        f"mean |log ratio| {number(first.moved)} in epoch {first.epoch}, mini-batch {first.minibatch}; "
        f"{count(total)} tokens{part}"
    )
    tokens = tuple(
        Token(
            text,
            " ".join(
                [f"{c.key}{n}" for c, n in zip(by, level, strict=True) if n] + ["x"] * (gradient != "kept")
            ),
            " · ".join(
                [f"{c.title} {n}" for c, n in zip(by, values, strict=True)] + [role, f"gradient {gradient}"]
            ),
            colour(level[0]),
        )
        for text, level, values, role, gradient in zip(
            texts, levels, numbers, rows.role, gradients, strict=True
        )
    )
    table = Table(
        f"{cell.algo}, seed {cell.seed}, step {first.step}: {name[0].lower()}{name[1:]}, every token shown.",
        ("Position", "Token", "Role", *(c.title.capitalize() for c in by), "Gradient"),
        (
            RowGroup(
                "",
                tuple(
                    (str(position), _quoted(text), role, *values, gradient)
                    for position, text, role, values, gradient in zip(
                        rows.position, texts, rows.role, numbers, gradients, strict=True
                    )
                ),
            ),
        ),
    )
    furthest = sorted(range(len(rows)), key=lambda k: -abs(float(rows.log_ratio[k])))[:EXTREMES]
    extremes = "; ".join(
        f"{_quoted(texts[k])} at {rows.position[k]}: {numbers[k][0]}" for k in sorted(furthest)
    )
    return SlideTurn(name, moved, tokens, f"Largest |log ratio|: {extremes}.", table)


def _gradient(row: pd.Series) -> str:
    for column, word in (
        ("masked", "masked"),
        ("clipped_low", "clipped low"),
        ("clipped_high", "clipped high"),
    ):
        if not pd.isna(row[column]) and row[column]:
            return word
    return "kept"


def colour(level: int) -> str:
    """A level as colour on white paper, "" for none."""
    if level == 0:
        return ""
    hue, share = LEVELS[level]
    return tint(hue, 1 - share)


def _shown(value: float) -> str:
    """Five significant digits."""
    return MISSING if math.isnan(value) else f"{value:.5g}".replace("-", "−")


def _visible(text: str) -> str:
    """With signs for line breaks, which are kept, and for other control characters."""
    signs = {n: chr(0x2400 + n) for n in range(32)} | {10: "↵\n", 127: "␡"}
    return text.translate(signs)


def _quoted(text: str) -> str:
    """In quotes that do not break from it at its spaces."""
    return f"“{text.strip(chr(10))}”".replace(" ", NBSP)

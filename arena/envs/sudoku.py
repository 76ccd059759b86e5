"""Sudoku: fill the grid so that every row, column and box holds every value once.

Rules and rewards are RAGEN v2's: a turn puts a value into a cell that the puzzle left empty; +1 for the solution's
value, +0.5 for another one that breaks no rule, -0.1 for a text that is no such action and for a value that its row,
column or box already holds (nothing is placed then), +10 when the grid is solved. Puzzles have one solution: a
search proves it.

Departures: a cell may be filled again, as in RAGEN, but is paid for what it is worth more or less than before, so
that a return cannot be farmed by filling cells again and again; the observation says only which rule a refused value
breaks (`feedback`), where the original also says which values are right.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import chain
from typing import Any, ClassVar, Literal

import numpy as np

from arena.envs.base import TextEnv, fraction, one_of
from arena.errors import UsageError

EMPTY = "_"
#: Names of the rows in the compact style: there an action is row, column, value, as in `b 3 1`.
LETTERS = "abcdefghi"
#: Cells that a puzzle leaves empty unless told otherwise (RAGEN's "easy"), and most for which puzzles with one
#: solution are drawn in well under a second.
_EMPTY, _MOST = {4: 6, 9: 45}, {4: 11, 9: 54}
_RIGHT, _WRONG, _REFUSED, _SOLVED = 1.0, 0.5, -0.1, 10.0
#: What an action met, as the compact style says it; the first three are the units of a cell.
_UNITS = ("row", "column", "box")
_FINE, _GIVEN, _UNCLEAR = "fine", "given", "unclear"
_CORRECT, _OTHER, _MAY = "right", "wrong", "may"
_RULES = """\
You are solving a Sudoku. Fill every empty cell (_) with a number from 1 to {size}, so that every row, every column and
every {box}x{box} box holds every number exactly once. There is one solution.

Each turn you place one number. Rows and columns are counted from 1, from the top and from the left. A number that its
row, column or box already holds is not placed. You can replace a number that you placed, not one that was given.

First think about which numbers a cell can still hold. Then choose one cell and number. Answer in this format and write
nothing else:
<think>your reasoning</think><action>place NUMBER at row ROW column COLUMN</action>"""

Values = Sequence[int]


class Board:
    """What all grids of a size share: cells (row * size + column), their units and how actions name them."""

    def __init__(self, size: int) -> None:
        self.size, self.box = size, round(size**0.5)
        cells = range(size * size)
        #: Row, column and box of every cell, as tuples of cells.
        self.units = tuple(
            tuple(self._unit(of, cell) for of in (self._row, self._column, self._box)) for cell in cells
        )
        #: The other cells of a cell's units.
        self.peers = tuple(tuple({p for unit in self.units[c] for p in unit} - {c}) for c in cells)
        #: Every text that names an action -> (cell, value).
        self.actions = {
            text: (cell, value)
            for cell in cells
            for value in range(1, size + 1)
            for text in (self.long(cell, value), self.short(cell, value), *self._ragen(cell, value))
        }

    def long(self, cell: int, value: int) -> str:
        """An action in words."""
        row, column = divmod(cell, self.size)
        return f"place {value} at row {row + 1} column {column + 1}"

    def short(self, cell: int, value: int) -> str:
        """An action of the compact style."""
        row, column = divmod(cell, self.size)
        return f"{LETTERS[row]} {column + 1} {value}"

    def candidates(self, values: Values, cell: int) -> list[int]:
        """The values that no other cell of the cell's units holds."""
        seen = {values[p] for p in self.peers[cell]}
        return [value for value in range(1, self.size + 1) if value not in seen]

    def hidden(self, values: Values, cell: int, value: int) -> bool:
        """Whether some unit of the cell has no other empty cell for the value."""
        return any(
            all(values[c] or c == cell or any(values[p] == value for p in self.peers[c]) for c in unit)
            for unit in self.units[cell]
        )

    def solutions(
        self, values: Values, limit: int, order: Callable[[list[int]], list[int]] = list
    ) -> list[list[int]]:
        """Up to `limit` solutions: depth first, always at the cell with the fewest candidates, in the order given."""
        grid, found = list(values), []

        def search() -> bool:
            cell, options = -1, list(range(self.size + 1))
            for c, value in enumerate(grid):
                if not value:
                    own = self.candidates(grid, c)
                    if len(own) < len(options):
                        cell, options = c, own
                        if len(own) < 2:
                            break
            if cell < 0:
                found.append(list(grid))
                return len(found) >= limit
            for value in order(options):
                grid[cell] = value
                if search():
                    return True
            grid[cell] = 0
            return False

        search()
        return found

    def text(self, values: Values) -> str:
        """A grid as text, one line per row."""
        symbols = [str(v) if v else EMPTY for v in values]
        return "\n".join("".join(symbols[i : i + self.size]) for i in range(0, len(symbols), self.size))

    def parse(self, text: str) -> list[int]:
        """A grid from its text. Raises ValueError if it does not fit the size."""
        rows = text.replace(" ", "").strip().split("\n")
        allowed = f"{EMPTY}{'123456789'[: self.size]}"
        if [len(row) for row in rows] != [self.size] * self.size or set("".join(rows)) - set(allowed):
            raise ValueError(
                f"a puzzle of size {self.size} has {self.size} rows of {self.size} of the symbols {allowed}, "
                f"given:\n{text}"
            )
        return [0 if symbol == EMPTY else int(symbol) for symbol in "".join(rows)]

    def _unit(self, of: Callable[[int], int], cell: int) -> tuple[int, ...]:
        return tuple(c for c in range(self.size**2) if of(c) == of(cell))

    def _row(self, cell: int) -> int:
        return cell // self.size

    def _column(self, cell: int) -> int:
        return cell % self.size

    def _box(self, cell: int) -> int:
        return cell // self.size // self.box * self.box + cell % self.size // self.box

    def _ragen(self, cell: int, value: int) -> tuple[str, str]:
        row, column = divmod(cell, self.size)
        return f"{row + 1},{column + 1},{value}", f"{row + 1} {column + 1} {value}"


@cache
def board_of(size: int) -> Board:
    """The board of a size, made once."""
    return Board(size)


@dataclass(frozen=True)
class Puzzle:
    """Givens (0: empty) and the one solution."""

    board: Board
    givens: tuple[int, ...]
    solution: tuple[int, ...]

    @cached_property
    def open(self) -> tuple[int, ...]:
        """The cells that are not given."""
        return tuple(cell for cell, value in enumerate(self.givens) if not value)

    @cached_property
    def short_actions(self) -> tuple[str, ...]:
        """Every value in every cell that is not given, in the compact style."""
        return tuple(self.board.short(c, v) for c in self.open for v in range(1, self.board.size + 1))

    @cached_property
    def long_actions(self) -> tuple[str, ...]:
        """The same in words."""
        return tuple(self.board.long(c, v) for c in self.open for v in range(1, self.board.size + 1))

    @classmethod
    def of(cls, board: Board, values: Values) -> Puzzle:
        """The puzzle with these givens. Raises ValueError unless it has exactly one solution."""
        clash = any(v and any(values[p] == v for p in board.peers[c]) for c, v in enumerate(values))
        found = [] if clash else board.solutions(values, 2)
        if len(found) != 1:
            number = "more than one solution" if found else "no solution"
            raise ValueError(
                f"a puzzle has exactly one solution, this one has {number}:\n{board.text(values)}"
            )
        return cls(board, tuple(values), tuple(found[0]))


class Sudoku(TextEnv):
    """Fill the grid.

    Args (options): `size` is the side of the grid (4 or 9), `empty` the number of cells to fill (default 6 of 16, 45
    of 81), `feedback` what the observation says about the last action: `none`, `rules` (which rule a refused value
    breaks) or `full` (also whether a placed value is the solution's, and which values a cell may hold). `expert_rows`
    is the share of turns at which the expert looks at the row of an empty cell alone.

    `reset(options={"puzzle": text})` starts from a hand-made puzzle, one line per row.
    """

    name: ClassVar[str] = "sudoku"
    summary: ClassVar[str] = (
        "Fill a grid so that rows, columns and boxes hold every number once; wrong ones block later ones."
    )
    vocabulary: ClassVar[tuple[str, ...]] = (
        *(name, EMPTY, *"123456789", *LETTERS, *_UNITS),
        *("at", "none", "only", _FINE, _GIVEN, _UNCLEAR, _CORRECT, _OTHER, _MAY),
    )
    #: What the observation says about the last action is no part of the state.
    fully_observed: ClassVar[bool] = False
    #: An action is three words: row, column and value.
    largest_action_share: float = 0.15

    def __init__(
        self,
        *,
        max_turns: int = 15,
        observation: Literal["compact", "full"] = "compact",
        size: int = 4,
        empty: int | None = None,
        feedback: Literal["none", "rules", "full"] = "rules",
        expert_rows: float = 0.0,
    ) -> None:
        super().__init__(max_turns=max_turns, observation=observation)
        if size not in _EMPTY or isinstance(size, bool | float):
            raise ValueError(f"size must be 4 or 9, given {size!r}")
        empty = _EMPTY[size] if empty is None else empty
        if not isinstance(empty, int) or isinstance(empty, bool) or not 1 <= empty <= _MOST[size]:
            raise ValueError(
                f"empty must be a whole number from 1 to {_MOST[size]} for size {size}, given {empty!r}"
            )
        self.feedback = one_of("feedback", feedback, ("none", "rules", "full"))
        self.expert_rows = fraction("expert_rows", expert_rows)
        if max_turns < empty:
            raise ValueError(f"{empty} empty cells need at least {empty} turns, max_turns is {max_turns}")
        self.size, self.empty = size, empty
        self.board = board_of(size)
        self._puzzle: Puzzle | None = None
        self._values: list[int] = []
        self._left, self._turns, self._ended = 0, 0, True
        #: What the last action met, and the cell that it meant, if any.
        self._met, self._meant = _FINE, -1

    @property
    def instruction(self) -> str:
        if self.observation_style == "compact":
            return self.name
        return _RULES.format(size=self.size, box=self.board.box)

    @property
    def largest_return(self) -> float:
        """Every empty cell filled at once with the solution's value."""
        return _SOLVED + _RIGHT * self.empty

    @property
    def expert_success(self) -> float:
        """1 or 0: an expert that looks at rows alone may run out of turns."""
        if not self.expert_rows:
            return 1.0
        other = copy.copy(self)
        other._begin()
        while not other._ended:
            other.step(other.expert_action())
        return float(other._left == 0)

    @property
    def puzzle(self) -> Puzzle:
        if self._puzzle is None:
            raise RuntimeError("call reset first")
        return self._puzzle

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        if unknown := set(options or ()) - {"puzzle"}:
            raise ValueError(f"reset takes the option 'puzzle', given {sorted(unknown)}")
        if options:
            self._puzzle = Puzzle.of(self.board, self.board.parse(options["puzzle"]))
        else:
            task = self.task_seed(seed)
            self._puzzle = self.task_of(task, (self.size, self.empty), self._sample)
        self._begin()
        return self._observation(), self._info(admissible=True)

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        if self._ended:
            raise RuntimeError("the episode has ended: call reset")
        cell, value = self.board.actions.get(action.strip().lower(), (-1, 0))
        reward = self._place(cell, value)
        # No rule is ever broken, so a full grid is the solution.
        solved = self._left == 0
        self._turns += 1
        truncated = not solved and self._turns >= self.max_turns
        self._ended = solved or truncated
        admissible = self._met not in (_GIVEN, _UNCLEAR)
        return self._observation(), reward + _SOLVED * solved, solved, truncated, self._info(admissible)

    def expert_action(self) -> str:
        """Put right a wrong value; where none can be, give one another value that makes way for that; else fill a cell:
        one with a single candidate, one that is a value's only place in a unit, any. In a dead end, where wrong values
        block each other, the right value of the first, which is refused. In the share `expert_rows` of turns, the first
        value that the row of an empty cell lacks, whatever column and box hold."""
        name = self.board.short if self.observation_style == "compact" else self.board.long
        cell, value = self._chosen()
        if not self._values[cell] and self._looks_at_the_row():
            row = [self._values[c] for c in self.board.units[cell][0]]
            value = next(v for v in range(1, self.size + 1) if v not in row)
        return name(cell, value)

    def thought(self) -> str:
        """Facts of the cell that the expert has chosen, 26 words at size 4.

        Its row and column; what its row, column and box hold; where each value stands already (the first of row,
        column, box), or `none`; `only` for one of several such values that no other cell of a unit can hold.
        """
        (cell, _), values, board = self._chosen(), self._values, self.board
        row, column = divmod(cell, self.size)
        words = ["at", LETTERS[row], str(column + 1)]
        for unit, cells in zip(_UNITS, board.units[cell], strict=True):
            words += [unit, *[str(values[c]) if values[c] else EMPTY for c in cells]]
        several = len(board.candidates(values, cell)) > 1
        for value in range(1, self.size + 1):
            holder = self._holder(cell, value)
            if holder is None:
                right = several and value == self.puzzle.solution[cell] and board.hidden(values, cell, value)
                holder = "only" if right else "none"
            words += [str(value), holder]
        return " ".join(words)

    def admissible_actions(self) -> tuple[str, ...]:
        """Every value in every cell that is not given; a value that breaks a rule is understood, and not placed."""
        puzzle = self.puzzle
        return puzzle.short_actions if self.observation_style == "compact" else puzzle.long_actions

    def _begin(self) -> None:
        self._values, self._left = list(self.puzzle.givens), len(self.puzzle.open)
        self._turns, self._ended = 0, self._left == 0
        self._met, self._meant = _FINE, -1

    def _sample(self, rng: np.random.Generator) -> tuple[Puzzle, str]:
        puzzle = random_puzzle(rng, self.size, self.empty)
        return puzzle, self.board.text(puzzle.givens)

    def _place(self, cell: int, value: int) -> float:
        """Place a value if the rules allow it, and note what it met. Its reward, without that for solving."""
        puzzle, values = self.puzzle, self._values
        self._meant = cell
        if cell < 0 or puzzle.givens[cell]:
            self._met = _UNCLEAR if cell < 0 else _GIVEN
            return _REFUSED
        before = values[cell]
        met = _UNITS[0] if before == value else self._holder(cell, value)
        if met is not None:
            self._met = met
            return _REFUSED
        values[cell] = value
        self._left -= not before
        right = puzzle.solution[cell]
        self._met = _FINE if self.feedback != "full" else _CORRECT if value == right else _OTHER
        return _worth(value, right) - _worth(before, right)

    def _holder(self, cell: int, value: int) -> str | None:
        """The first unit of the cell in which another cell holds the value."""
        values, units = self._values, self.board.units[cell]
        for unit, cells in zip(_UNITS, units, strict=True):
            for other in cells:
                if values[other] == value and other != cell:
                    return unit
        return None

    def _chosen(self) -> tuple[int, int]:
        """The cell that the expert turns to, and the value it places."""
        board, values, right = self.board, self._values, self.puzzle.solution
        todo = [cell for cell in self.puzzle.open if values[cell] != right[cell]]
        wrong = [cell for cell in todo if values[cell]]
        possible = [cell for cell in todo if self._holder(cell, right[cell]) is None]
        mended = next((cell for cell in possible if values[cell]), None)
        if mended is None and wrong and (way := self._detour(wrong)):
            return way
        single = (cell for cell in possible if len(board.candidates(values, cell)) == 1)
        hidden = (cell for cell in possible if board.hidden(values, cell, right[cell]))
        first = chain(single, hidden, possible, wrong, (0,))
        cell = next(first) if mended is None else mended
        return cell, right[cell]

    def _looks_at_the_row(self) -> bool:
        """Whether the expert does so in this turn; always the same for the same grid and turn."""
        return random.Random(f"{self.board.text(self._values)} {self._turns}").random() < self.expert_rows

    def _detour(self, wrong: list[int]) -> tuple[int, int] | None:
        """A wrong value's cell and another value for it that makes way for putting right one of the others."""
        board, right = self.board, self.puzzle.solution
        for cell in wrong:
            for value in board.candidates(self._values, cell):
                after = [*self._values]
                after[cell] = value
                if any(right[c] in board.candidates(after, c) for c in wrong):
                    return cell, value
        return None

    def _observation(self) -> str:
        size, symbols = self.size, [str(v) if v else EMPTY for v in self._values]
        rows = [symbols[i : i + size] for i in range(0, size * size, size)]
        if self.observation_style == "full":
            return self._drawn(rows) + self._remark()
        words = [word for letter, row in zip(LETTERS, rows, strict=False) for word in (letter, *row)]
        if self.feedback != "none":
            words.append(self._met)
        if self.feedback == "full" and self._met in _UNITS:
            words += [_MAY, *map(str, self.board.candidates(self._values, self._meant))]
        return " ".join(words)

    def _drawn(self, rows: list[list[str]]) -> str:
        """The grid with lines between the boxes."""
        box, size = self.board.box, self.size
        lines = [" | ".join(" ".join(row[i : i + box]) for i in range(0, size, box)) for row in rows]
        rule = "-+-".join(["-" * (2 * box - 1)] * box)
        return f"\n{rule}\n".join("\n".join(lines[i : i + box]) for i in range(0, size, box))

    def _remark(self) -> str:
        """What is said about the last action in the full style, on a line of its own."""
        if self.feedback == "none" or self._met == _FINE:
            return ""
        said = {
            _GIVEN: "That number is given and stays.",
            _UNCLEAR: "That is no action.",
            _CORRECT: "That number is right.",
            _OTHER: "That number breaks no rule, but it is not the solution's.",
        }
        text = said.get(self._met, f"Not placed: its {self._met} already holds that number.")
        if self.feedback == "full" and self._met in _UNITS:
            text += (
                f" The cell may hold {', '.join(map(str, self.board.candidates(self._values, self._meant)))}."
            )
        return f"\n\n{text}"

    def _info(self, admissible: bool) -> dict[str, Any]:
        return {
            "success": self._left == 0,
            "admissible": admissible,
            "admissible_actions": self.admissible_actions(),
            "anchor": self.board.text(self._values),
        }


def _worth(value: int, right: int) -> float:
    """What a cell is worth that holds `value` (0: empty)."""
    return 0.0 if not value else _RIGHT if value == right else _WRONG


def random_puzzle(rng: np.random.Generator, size: int, empty: int) -> Puzzle:
    """A puzzle with one solution and exactly `empty` empty cells.

    A grid is filled at random, then cells are emptied in random order where no other solution comes up. Raises
    RuntimeError when 1,000 grids give no such puzzle.
    """
    board = board_of(size)
    # A Mersenne twister seeded from `rng`: its single draws cost a tenth of numpy's.
    draw = random.Random(int(rng.integers(1 << 62))).random

    def shuffled(items: Sequence[int]) -> list[int]:
        return sorted(items, key=lambda _: draw())

    for _ in range(1000):
        (solution,) = board.solutions([0] * size**2, 1, shuffled)
        values, left = list(solution), empty
        for cell in shuffled(range(size**2)):
            if _only(board, values, cell):
                values[cell], left = 0, left - 1
                if left == 0:
                    return Puzzle(board, tuple(values), tuple(solution))
    raise UsageError(f"no puzzle of size {size} with {empty} empty cells and one solution")


def _only(board: Board, values: Values, cell: int) -> bool:
    """Whether a puzzle with one solution keeps it alone when this given cell is emptied."""
    others = [value for value in board.candidates(values, cell) if value != values[cell]]
    return not any(board.solutions([*values[:cell], value, *values[cell + 1 :]], 1) for value in others)

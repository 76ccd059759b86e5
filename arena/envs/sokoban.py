"""Sokoban: push every box onto a target.

Rules and rewards are gym-sokoban's (Schrader 2018, `sokoban_env.py`): -0.1 for every step, +1 for a box
pushed onto a target, -1 for one pushed off, +10 when all boxes are on targets. Rooms follow its recipe
(`room_utils.py`): a random walk that carves floor with small masks, then reverse play from the solved state.

Departures: a start is drawn from an exhaustive reverse play, so the optimal number of moves is known and
bounded by `min_solution` and `max_solution` (the original keeps the hardest state of a bounded search); no
box starts on a target; the action set is the four directions (the original also has "no operation" and
push/move variants); several actions per turn are an option, as in RAGEN (see `several`).
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, ClassVar, Literal

import numpy as np

from arena.envs import several
from arena.envs.base import TextEnv, whole_number
from arena.errors import UsageError

WALL, FLOOR, TARGET, BOX, PLAYER, BOX_ON_TARGET, PLAYER_ON_TARGET = "#_OXP√S"
#: Stands left and right of every row of the compact observation: a tiny model finds the cell above or below
#: by a fixed distance, and does not take the end of one row for a neighbour of the start of the next.
SIDE = "|"
ACTIONS = ("up", "down", "left", "right")
_WORDS = (
    *("player", "box", "target", "reach", "gap", "near", "beyond"),
    *("north", "south", "east", "west", "none", "wall", "floor"),
)
_RULES = """\
You are playing Sokoban. Push every box onto a target in as few steps as you can.

Symbols: # wall, _ floor, O target, X box, P you, √ box on a target, S you on a target.

Each turn you move one cell: up, down, left or right. Moving into a box pushes it one cell further, if the
cell behind it is free. You cannot pull a box, push two boxes at once or walk through walls. A box in a corner
that is not a target can never be moved again.

First think about the positions of yourself, the boxes and the targets. Then choose exactly one of the actions
up, down, left, right. Answer in this format and write nothing else:
<think>your reasoning</think><action>your action</action>"""

#: gym-sokoban's masks: the cells around the walker, as (row, column) offsets, that become floor.
_MASKS = (
    ((0, -1), (0, 0), (0, 1)),
    ((-1, 0), (0, 0), (1, 0)),
    ((0, -1), (0, 0), (1, 0)),
    ((0, -1), (0, 0), (1, -1), (1, 0)),
    ((0, 0), (0, 1), (1, 0)),
)
#: gym-sokoban's chance that the walker turns, and its steps per unit of (height + width).
_TURN_CHANCE, _WALK_FACTOR = 0.35, 1.7

#: States an expert's table may hold (about 100 bytes each). A state beyond it counts as unsolvable; the
#: states of a generated start's optimal solutions are always inside.
_TABLE_STATES = 60_000


class Distances:
    """Moves from a state to the nearest solved one, by breadth-first reverse play from every solved state.

    A state is one integer: the boxes' cells as a bit set above seven bits for the player's cell. A cell is
    row * width + column. Levels are computed on demand; `level(n)` lists the states n moves from solved.
    """

    def __init__(self, floor: frozenset[int], targets: int, width: int) -> None:
        self._floor = floor
        self._deltas = (-width, width, -1, 1)
        self._levels = [[targets << 7 | cell for cell in sorted(floor) if not targets >> cell & 1]]
        self._known = dict.fromkeys(self._levels[0], 0)

    def level(self, number: int) -> list[int]:
        """The states `number` moves from solved; empty when there are none."""
        while len(self._levels) <= number and self._grow():
            pass
        return self._levels[number] if number < len(self._levels) else []

    def __getitem__(self, state: int) -> int | None:
        """Moves to the nearest solved state; None if there is none (or it lies beyond the table's bound)."""
        while state not in self._known and self._grow():
            pass
        return self._known.get(state)

    def _grow(self) -> bool:
        """Add one level. False when every state that can be solved is known or the table is full."""
        known, floor = self._known, self._floor
        if len(known) > _TABLE_STATES:
            return False
        number, level = len(self._levels), []
        for state in self._levels[-1]:
            boxes, player = state >> 7, state & 127
            for delta in self._deltas:
                before = player - delta
                if before not in floor or boxes >> before & 1:
                    continue
                walked = state - player + before
                if walked not in known:
                    known[walked] = number
                    level.append(walked)
                pushed = player + delta
                if boxes >> pushed & 1:
                    pulled = (boxes ^ (1 << pushed) ^ (1 << player)) << 7 | before
                    if pulled not in known:
                        known[pulled] = number
                        level.append(pulled)
        if level:
            self._levels.append(level)
        return bool(level)


class Room:
    """Floor cells, targets as a bit set, the start (boxes as a bit set, player) and all states' distances."""

    def __init__(self, floor: frozenset[int], targets: int, boxes: int, player: int, width: int) -> None:
        self.floor, self.targets, self.boxes, self.player, self.width = floor, targets, boxes, player, width
        self.distances = Distances(floor, targets, width)
        every = range(width * width)
        self.cells = tuple((FLOOR if c in floor else WALL) if not targets >> c & 1 else TARGET for c in every)
        self.interior = tuple(
            c for c in every if 0 < c % width < width - 1 and width < c < width * (width - 1)
        )

    @classmethod
    def parse(cls, text: str, size: int, boxes: int) -> Room:
        """A room from its text, one line per row. Raises ValueError if it does not fit `size` and `boxes`."""
        rows = text.replace(" ", "").strip().split("\n")
        if len(rows) != size or any(len(row) != size for row in rows):
            raise ValueError(f"a room of size {size} has {size} rows of {size} symbols, given:\n{text}")
        cells = "".join(rows)
        if unknown := set(cells) - set("#_OXP√S"):
            raise ValueError(f"a room is written in the symbols # _ O X P √ S, given {sorted(unknown)}")
        border = rows[0] + rows[-1] + "".join(row[0] + row[-1] for row in rows)
        if set(border) != {WALL}:
            raise ValueError(f"a room is closed by walls, given:\n{text}")
        where = {s: [c for c, symbol in enumerate(cells) if symbol in s] for s in ("PS", "X√", "O√S")}
        if [len(found) for found in where.values()] != [1, boxes, boxes]:
            raise ValueError(f"a room has one player, {boxes} boxes and {boxes} targets, given:\n{text}")
        floor = frozenset(c for c, symbol in enumerate(cells) if symbol != WALL)
        return cls(floor, _bits(where["O√S"]), _bits(where["X√"]), where["PS"][0], size)

    def symbols(self, boxes: int, player: int) -> list[str]:
        """The symbol of every cell in a state."""
        cells = list(self.cells)
        for cell in self.box_cells(boxes):
            cells[cell] = BOX_ON_TARGET if cells[cell] == TARGET else BOX
        cells[player] = PLAYER_ON_TARGET if cells[player] == TARGET else PLAYER
        return cells

    def text(self, boxes: int, player: int) -> str:
        """A state as text, one line per row."""
        cells, width = "".join(self.symbols(boxes, player)), self.width
        return "\n".join([cells[i : i + width] for i in range(0, len(cells), width)])

    @staticmethod
    def box_cells(boxes: int) -> list[int]:
        """The cells of a bit set, in ascending order."""
        cells = []
        while boxes:
            low = boxes & -boxes
            cells.append(low.bit_length() - 1)
            boxes ^= low
        return cells


class Sokoban(TextEnv):
    """Push every box onto a target.

    Args (options): `size` is the side of the room with its walls (5 to 10), `boxes` their number (1 to 4),
    `min_solution` and `max_solution` bound the optimal number of moves (`max_solution` defaults to 10 for a
    6x6 room with one box, and 4 more for each further row or box; never more than can be made in `max_turns`).
    `actions_per_turn` is how many actions a turn may have, joined by `||`.

    `reset(options={"room": text})` starts from a hand-made room, one line per row, which may be unsolvable.
    """

    name: ClassVar[str] = "sokoban"
    summary: ClassVar[str] = "Push boxes onto targets in a small room; one wrong push can make it unsolvable."
    vocabulary: ClassVar[tuple[str, ...]] = (
        *(name, SIDE, WALL, FLOOR, TARGET, BOX, PLAYER, BOX_ON_TARGET, PLAYER_ON_TARGET),
        *(*_WORDS, *"0123456789", *ACTIONS),
    )

    def __init__(
        self,
        *,
        max_turns: int = 15,
        observation: Literal["compact", "full"] = "compact",
        size: int = 6,
        boxes: int = 1,
        min_solution: int = 3,
        max_solution: int | None = None,
        actions_per_turn: int = 1,
    ) -> None:
        super().__init__(max_turns=max_turns, observation=observation)
        self.actions_per_turn = several.checked(actions_per_turn)
        self.size = whole_number("size", size, 5, 10)
        self.boxes = whole_number("boxes", boxes, 1, min(4, size - 3))
        longest = 10 + 4 * (size - 6) + 4 * (boxes - 1) if max_solution is None else max_solution
        self.max_solution = min(whole_number("max_solution", longest, 1, 200), max_turns * actions_per_turn)
        self.min_solution = whole_number("min_solution", min_solution, 1, self.max_solution)
        if actions_per_turn > 1:  # else the class's own bound holds
            share = several.action_share(actions_per_turn, 26)
            self.largest_action_share = share
        self._deltas = {"up": -size, "down": size, "left": -1, "right": 1}
        self._room: Room | None = None
        self._player, self._boxes, self._turns, self._ended = 0, 0, 0, True

    @property
    def instruction(self) -> str:
        compact = self.observation_style == "compact"
        return self.name if compact else several.rules(_RULES, self.actions_per_turn)

    @property
    def largest_return(self) -> float:
        """All boxes on their targets, before what the moves cost."""
        return 10.0 + self.boxes

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        if unknown := set(options or ()) - {"room"}:
            raise ValueError(f"reset takes the option 'room', given {sorted(unknown)}")
        if options:
            self._room = Room.parse(options["room"], self.size, self.boxes)
        else:
            self._room = self._room_of(self.task_seed(seed))
        self._player, self._boxes, self._turns = self._room.player, self._room.boxes, 0
        self._ended = self._boxes == self._room.targets
        return self._observation(), self._info(admissible=True)

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        if self._ended:
            raise RuntimeError("the episode has ended: call reset")
        moves = several.understood(action, self._deltas, self.actions_per_turn)
        reward, solved, targets = 0.0, False, self.room.targets
        for move in moves:
            reward += -0.1 + self._move(self._deltas[move])
            solved = self._boxes == targets
            if solved:
                break
        if not moves:
            reward = -0.1
        self._turns += 1
        truncated = not solved and self._turns >= self.max_turns
        self._ended = solved or truncated
        return (
            self._observation(),
            reward + 10 * solved,
            solved,
            truncated,
            self._info(admissible=bool(moves)),
        )

    def expert_action(self) -> str:
        """The first directions of a shortest solution, as many as a turn may have; `up` where there is none."""
        moves, before = [], (self._boxes, self._player)
        while len(moves) < self.actions_per_turn and (moved := self._towards_solution()):
            action, (self._boxes, self._player) = moved
            moves.append(action)
        self._boxes, self._player = before
        return f" {several.SEPARATOR} ".join(moves) or ACTIONS[0]

    def _towards_solution(self) -> tuple[str, tuple[int, int]] | None:
        """The first direction that leads nearer to a solution, and boxes and player after it; None where none does."""
        distances = self.room.distances
        distance = distances[self._boxes << 7 | self._player]
        if not distance:
            return None
        for action, delta in self._deltas.items():
            moved = self._after(delta)
            if moved and distances[moved[0] << 7 | moved[1]] == distance - 1:
                return action, moved
        raise AssertionError("a state with a distance has a neighbour that is nearer")

    def thought(self) -> str:
        """Facts of the state. Coordinates are row and column, neighbours are listed north, east, south, west.

        `reach` is the way from player to box, `gap` from box to target, `near` what surrounds the player,
        `beyond` what surrounds the box. A box is paired with the target it is on, else with the nearest free
        one. Coordinates come first: a tiny model computes the ways from them. Longer than 26 words for more
        than one box.
        """
        kinds, width, player = self._kinds(), self.size, self._player
        around = (-width, 1, width, -1)
        boxes = Room.box_cells(self._boxes)
        words = ["player", *_position(player, width)]
        for box in boxes:
            words += ["box", *_position(box, width)]
            words += ["reach", *_compass(_offset(player, box, width))]
            words += ["gap", *_compass(_offset(box, self._target_of(box), width))]
        words += ["near", *[kinds[player + d] for d in around]]
        for box in boxes:
            words += ["beyond", *[kinds[box + d] for d in around]]
        return " ".join(words)

    def admissible_actions(self) -> tuple[str, ...]:
        return ACTIONS

    @property
    def solution_length(self) -> int | None:
        """Moves of a shortest solution from the current state; None if it cannot be solved."""
        return self.room.distances[self._boxes << 7 | self._player]

    @property
    def room(self) -> Room:
        if self._room is None:
            raise RuntimeError("call reset first")
        return self._room

    def _room_of(self, seed: int) -> Room:
        return self.task_of(seed, (self.size, self.boxes, self.min_solution, self.max_solution), self._sample)

    def _sample(self, rng: np.random.Generator) -> tuple[Room, str]:
        room = random_room(rng, self.size, self.boxes, self.min_solution, self.max_solution)
        return room, room.text(room.boxes, room.player)

    def _after(self, delta: int) -> tuple[int, int] | None:
        """Boxes and player after a move; None if it is blocked."""
        floor, boxes, player = self.room.floor, self._boxes, self._player + delta
        if player not in floor:
            return None
        if not boxes >> player & 1:
            return boxes, player
        pushed = player + delta
        if pushed not in floor or boxes >> pushed & 1:
            return None
        return boxes ^ (1 << player) ^ (1 << pushed), player

    def _move(self, delta: int) -> int:
        """Move if possible; the change in the number of boxes on targets."""
        moved = self._after(delta)
        if moved is None:
            return 0
        targets, before = self.room.targets, self._boxes
        self._boxes, self._player = moved
        if before == self._boxes:
            return 0
        return (self._boxes & targets).bit_count() - (before & targets).bit_count()

    def _observation(self) -> str:
        room = self.room
        if self.observation_style == "full":
            return room.text(self._boxes, self._player)
        cells = room.symbols(self._boxes, self._player)
        inside = [cells[c] for c in room.interior]
        side = self.size - 2
        rows = [" ".join(inside[i : i + side]) for i in range(0, side * side, side)]
        return f"{SIDE} {f' {SIDE} '.join(rows)} {SIDE}"

    def _info(self, admissible: bool) -> dict[str, Any]:
        return {
            "success": self._boxes == self.room.targets,
            "admissible": admissible,
            "admissible_actions": ACTIONS,
            "anchor": self.room.text(self._boxes, self._player),
        }

    def _kinds(self) -> list[str]:
        """What is in every cell, in words: what a step onto it meets first."""
        names = {WALL: "wall", FLOOR: "floor", TARGET: "target"}
        kinds = [names[cell] for cell in self.room.cells]
        for box in Room.box_cells(self._boxes):
            kinds[box] = "box"
        kinds[self._player] = "player"
        return kinds

    def _target_of(self, box: int) -> int:
        targets = self.room.targets
        if targets >> box & 1:
            return box
        free = Room.box_cells(targets & ~self._boxes)
        return min(free, key=lambda target: sum(map(abs, _offset(box, target, self.size))))


def random_room(rng: np.random.Generator, size: int, boxes: int, shortest: int, longest: int) -> Room:
    """A room whose optimal solution has between `shortest` and `longest` moves.

    The length is drawn uniformly from those that the carved room offers, then the start uniformly from the
    states of that length with no box on a target. Raises UsageError when 10,000 carved rooms offer none.
    """
    # A Mersenne twister seeded from `rng`: its single draws cost a tenth of numpy's.
    draw = random.Random(int(rng.integers(1 << 62))).random
    for _ in range(10_000):
        floor = _carve(draw, size)
        cells = sorted(floor)
        if len(cells) < 2 * boxes + 1:
            continue
        targets = 0
        for _ in range(boxes):
            targets |= 1 << cells.pop(int(draw() * len(cells)))
        distances = Distances(floor, targets, size)
        found = []
        for length in range(shortest, longest + 1):
            states = [state for state in distances.level(length) if not state >> 7 & targets]
            if states:
                found.append(states)
        if found:
            states = found[int(draw() * len(found))]
            start = states[int(draw() * len(states))]
            room = Room(floor, targets, start >> 7, start & 127, size)
            room.distances = distances
            return room
    raise UsageError(f"no room of size {size} with {boxes} boxes is solved in {shortest} to {longest} moves")


def _carve(draw: Callable[[], float], size: int) -> frozenset[int]:
    """Floor cells of a room: gym-sokoban's random walk (`room_topology_generation`)."""
    directions = ((1, 0), (0, 1), (-1, 0), (0, -1))
    last = size - 2
    down, right = directions[int(draw() * 4)]
    row, column = 1 + int(draw() * last), 1 + int(draw() * last)
    floor = set()
    for _ in range(int(_WALK_FACTOR * 2 * size)):
        if draw() < _TURN_CHANCE:
            down, right = directions[int(draw() * 4)]
        row, column = min(max(row + down, 1), last), min(max(column + right, 1), last)
        for below, beside in _MASKS[int(draw() * len(_MASKS))]:
            r, c = row + below, column + beside
            if 1 <= r <= last and 1 <= c <= last:
                floor.add(r * size + c)
    return frozenset(floor)


def _bits(cells: list[int]) -> int:
    return sum(1 << cell for cell in cells)


def _position(cell: int, width: int) -> tuple[str, str]:
    return str(cell // width), str(cell % width)


def _offset(start: int, end: int, width: int) -> tuple[int, int]:
    return end // width - start // width, end % width - start % width


def _compass(offset: tuple[int, int]) -> tuple[str, str, str, str]:
    """An offset in words, e.g. south 1 west 2; `none 0` where an axis has none."""
    rows, columns = offset
    vertical = "south" if rows > 0 else "north" if rows else "none"
    horizontal = "east" if columns > 0 else "west" if columns else "none"
    return vertical, str(abs(rows)), horizontal, str(abs(columns))

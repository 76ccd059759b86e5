"""FrozenLake: cross a frozen lake to the goal without falling into a hole.

Maps and dynamics are Gymnasium's (`toy_text/frozen_lake.py`): start top left, goal bottom right, each other
cell ice with probability `p_frozen`, maps without a safe path drawn again; a hole ends the episode with
reward 0, the goal with reward 1. On slippery ice a move goes the intended way with `success_rate`, else to
one of its two sides.

Departures: the player's cell is shown in the grid, as RAGEN does; a malformed action is a turn without
movement; several actions per turn are an option (see `several`).
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np

from arena.envs import several
from arena.envs.base import TextEnv, fraction, whole_number
from arena.errors import UsageError
from arena.seeding import stream_seed

ICE, HOLE, GOAL, PLAYER, PLAYER_IN_HOLE, PLAYER_AT_GOAL = "_HGPX√"
ACTIONS = ("up", "down", "left", "right")
#: Gymnasium's order, in which the neighbours of an action are the sides that a slip goes to.
_CIRCLE = ("left", "down", "right", "up")
_STEPS = {"left": (0, -1), "down": (1, 0), "right": (0, 1), "up": (-1, 0)}
_WORDS = (
    *("player", "goal", "gap", "near", "beyond", "corner"),
    *("north", "south", "east", "west", "none", "ice", "hole", "edge"),
)
#: Neighbours in the order of the thought, as (rows, columns).
_NEAR = ((-1, 0), (0, 1), (1, 0), (0, -1))
_BEYOND = ((-2, 0), (0, 2), (2, 0), (0, -2))
_CORNER = ((-1, 1), (1, 1), (1, -1), (-1, -1))
_RULES = """\
You are crossing a frozen lake. Reach the goal without falling into a hole.

Symbols: P you, _ ice, H hole, G goal, X you in a hole, √ you at the goal.

Each turn you move one cell: up, down, left or right. Moving off the edge leaves you where you are. Falling
into a hole ends the game without a reward.{slippery}

First think about where you, the goal and the holes are. Then choose exactly one of the actions up, down,
left, right. Answer in this format and write nothing else:
<think>your reasoning</think><action>your action</action>"""
_SLIPPERY = """ The ice is slippery: a move goes the way you intend with
probability {intended:.2f}, and to either side of it with probability {side:.2f}."""


class Lake:
    """A map: its rows in the letters of `ICE`, `HOLE` and `GOAL`, and what the expert needs to know about it.

    A cell is row * size + column.
    """

    def __init__(self, rows: tuple[str, ...]) -> None:
        self.rows, self.size = rows, len(rows)
        self.cells = tuple("".join(rows))
        size = self.size
        #: Cell after each action, as {action: (cell, ...)}.
        self.moved = {
            action: tuple(
                min(max(c // size + down, 0), size - 1) * size + min(max(c % size + right, 0), size - 1)
                for c in range(size * size)
            )
            for action, (down, right) in _STEPS.items()
        }

    @classmethod
    def parse(cls, text: str, size: int) -> Lake:
        """A map from its text, one line per row. Raises ValueError if it does not fit `size`."""
        rows = tuple(text.replace(" ", "").strip().split("\n"))
        if len(rows) != size or any(len(row) != size for row in rows):
            raise ValueError(f"a map of size {size} has {size} rows of {size} symbols, given:\n{text}")
        if (
            set(text.replace(" ", "")) - set("_HG\n")
            or rows[0][0] != ICE
            or "".join(rows).find(GOAL) != size**2 - 1
        ):
            raise ValueError(
                f"a map has _ H and one G, starts top left on ice and has G bottom right, given:\n{text}"
            )
        return cls(rows)

    @cached_property
    def distances(self) -> dict[int, int]:
        """Moves to the goal over ice, for every cell from which it can be reached."""
        known, frontier = {self.size**2 - 1: 0}, [self.size**2 - 1]
        for cell in frontier:
            for moved in self.moved.values():
                # A move along one axis is undone by the opposite one, so predecessors are successors.
                before = moved[cell]
                if before not in known and self.cells[before] == ICE:
                    known[before] = known[cell] + 1
                    frontier.append(before)
        return known

    @cached_property
    def without_holes(self) -> Lake:
        """The same lake with ice in the place of its holes."""
        return Lake(tuple(row.replace(HOLE, ICE) for row in self.rows))

    def slips(self, action: str, cell: int) -> tuple[int, int, int]:
        """Cells after a slip to one side, the intended move and a slip to the other, in Gymnasium's order."""
        at = _CIRCLE.index(action)
        return (
            self.moved[_CIRCLE[at - 1]][cell],
            self.moved[action][cell],
            self.moved[_CIRCLE[(at + 1) % 4]][cell],
        )

    def chances(self, turns: int, success_rate: float) -> list[list[float]]:
        """Best chance to reach the goal, as [turns left][cell]: value iteration over a finite horizon."""
        side = (1 - success_rate) / 2
        cells = range(self.size**2)
        values = [[float(cell == GOAL) for cell in self.cells]]
        slips = {cell: [self.slips(a, cell) for a in ACTIONS] for cell in cells if self.cells[cell] == ICE}
        for _ in range(turns):
            last = values[-1]
            values.append(
                [
                    max(side * (last[a] + last[c]) + success_rate * last[b] for a, b, c in slips[cell])
                    if cell in slips
                    else last[cell]
                    for cell in cells
                ]
            )
        return values


class FrozenLake(TextEnv):
    """Cross the ice to the goal.

    Args (options): `size` is the side of the map (3 to 9), `p_frozen` the chance that a cell is ice,
    `slippery` whether moves slip, `success_rate` the chance of the intended move on slippery ice, `actions_per_turn`
    how many actions a turn may have, joined by `||`. `harmless_holes` is the share of lakes whose holes are shown but
    walked over as ice, which the expert does: for demonstrations of one who often does not mind them.

    On slippery ice the slips are drawn from `np_random`: two episodes of one seed with the same actions meet
    the same slips, unless `reset(options={"dynamics": seed})` seeds the slips apart from the task.
    `reset(options={"map": text})` starts on a hand-made map, one line per row.
    """

    name: ClassVar[str] = "frozen_lake"
    summary: ClassVar[str] = "Cross a frozen lake to the goal; a hole ends the episode."
    vocabulary: ClassVar[tuple[str, ...]] = (
        *(name, ICE, HOLE, GOAL, PLAYER, PLAYER_IN_HOLE, PLAYER_AT_GOAL),
        *(*_WORDS, *"0123456789", *ACTIONS),
    )

    def __init__(
        self,
        *,
        max_turns: int = 15,
        observation: Literal["compact", "full"] = "compact",
        size: int = 4,
        p_frozen: float = 0.8,
        slippery: bool = False,
        success_rate: float = 1 / 3,
        actions_per_turn: int = 1,
        harmless_holes: float = 0.0,
    ) -> None:
        super().__init__(max_turns=max_turns, observation=observation)
        whole_number("size", size, 3, 9)
        self.actions_per_turn = several.checked(actions_per_turn)
        #: Moves that an episode has at most.
        self.max_moves = max_turns * actions_per_turn
        if actions_per_turn > 1:  # else the class's own bound holds
            share = several.action_share(actions_per_turn, 26)
            self.largest_action_share = share
        if not 0.2 <= p_frozen <= 0.95:
            raise ValueError(
                f"p_frozen must be from 0.2 to 0.95 (else maps are too rare or too few), given {p_frozen!r}"
            )
        if not isinstance(slippery, bool):
            raise ValueError(f"slippery must be true or false, given {slippery!r}")
        self.harmless_holes = fraction("harmless_holes", harmless_holes)
        if not 0 < success_rate <= 1:
            raise ValueError(f"success_rate must be above 0 and at most 1, given {success_rate!r}")
        if self.max_moves < 2 * (size - 1):
            needed = -(2 * (1 - size) // actions_per_turn)
            raise ValueError(f"a map of size {size} needs at least {needed} turns, max_turns is {max_turns}")
        self.size, self.p_frozen = size, p_frozen
        self.slippery, self.success_rate = slippery, success_rate
        self.deterministic = not slippery
        self._lake: Lake | None = None
        self._chances: list[list[float]] | None = None
        self._player, self._turns, self._ended = 0, 0, True

    @property
    def instruction(self) -> str:
        if self.observation_style == "compact":
            return self.name
        rate = self.success_rate
        slippery = _SLIPPERY.format(intended=rate, side=(1 - rate) / 2) if self.slippery else ""
        return several.rules(_RULES.format(slippery=slippery), self.actions_per_turn)

    @property
    def largest_return(self) -> float:
        """The goal's reward."""
        return 1.0

    @property
    def lake(self) -> Lake:
        if self._lake is None:
            raise RuntimeError("call reset first")
        return self._lake

    @property
    def ground(self) -> Lake:
        """What is walked on: the lake, without its holes where they do no harm, which is the same for every episode of
        a map."""
        if not self.harmless_holes:
            return self.lake
        draw = np.random.default_rng(stream_seed("harmless", self.name, *self.lake.rows)).random()
        return self.lake.without_holes if draw < self.harmless_holes else self.lake

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        options = options or {}
        if unknown := set(options) - {"map", "dynamics"}:
            raise ValueError(f"reset takes the options 'map' and 'dynamics', given {sorted(unknown)}")
        if "map" in options:
            self._lake = Lake.parse(options["map"], self.size)
        else:
            task = self.task_seed(seed)
            self._lake = self.task_of(task, (self.size, self.p_frozen, self.max_moves), self._sample)
        if "dynamics" in options:
            self.np_random = np.random.default_rng(options["dynamics"])
        self._chances = None
        self._player, self._turns, self._ended = 0, 0, False
        return self._observation(), self._info(admissible=True)

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        if self._ended:
            raise RuntimeError("the episode has ended: call reset")
        moves = several.understood(action, _STEPS, self.actions_per_turn)
        cells, cell = self.ground.cells, ICE
        for move in moves:
            self._player = self._landing(move)
            cell = cells[self._player]
            if cell != ICE:
                break
        self._turns += 1
        terminated = cell != ICE
        truncated = not terminated and self._turns >= self.max_turns
        self._ended = terminated or truncated
        return (
            self._observation(),
            float(cell == GOAL),
            terminated,
            truncated,
            self._info(admissible=bool(moves)),
        )

    def expert_action(self) -> str:
        """The first directions of a shortest safe path, as many as a turn may have; on slippery ice the one with the
        best chance to arrive in time."""
        if not self.slippery:
            moves, cell = [self._nearer(self._player)], self._player
            while (
                len(moves) < self.actions_per_turn
                and self.ground.cells[self.ground.moved[moves[-1]][cell]] == ICE
            ):
                cell = self.ground.moved[moves[-1]][cell]
                moves.append(self._nearer(cell))
            return f" {several.SEPARATOR} ".join(moves)
        left = max(0, self.max_turns - self._turns - 1)
        after = self._best_chances()[left]
        return max(ACTIONS, key=lambda action: self._expected(after, self.lake.slips(action, self._player)))

    def _nearer(self, cell: int) -> str:
        """The first direction from the cell that starts a shortest safe path."""
        lake = self.ground
        near = {action: lake.distances.get(lake.moved[action][cell]) for action in ACTIONS}
        reachable = {action: distance for action, distance in near.items() if distance is not None}
        return min(reachable, key=lambda action: reachable[action], default=ACTIONS[0])

    @property
    def expert_success(self) -> float:
        """Chance that the expert reaches the goal from the start within `max_turns`."""
        if self.slippery:
            return self._best_chances()[self.max_turns][0]
        return float(self.ground.distances.get(0, self.max_moves + 1) <= self.max_moves)

    def thought(self) -> str:
        """Facts of the state, always 26 words. Coordinates are row and column from 1.

        `gap` is the way to the goal; `near` and `beyond` are the cells one and two away to the north, east,
        south and west, `corner` the cells to the north-east, south-east, south-west and north-west.
        """
        size = self.size
        row, column = divmod(self._player, size)
        words = ["player", str(row + 1), str(column + 1), "goal", str(size), str(size), "gap"]
        words += ["south" if row < size - 1 else "none", str(size - 1 - row)]
        words += ["east" if column < size - 1 else "none", str(size - 1 - column)]
        for label, offsets in (("near", _NEAR), ("beyond", _BEYOND), ("corner", _CORNER)):
            words += [label, *[self._kind(row + down, column + right) for down, right in offsets]]
        return " ".join(words)

    def admissible_actions(self) -> tuple[str, ...]:
        return ACTIONS

    def _sample(self, rng: np.random.Generator) -> tuple[Lake, str]:
        rows = random_map(rng, self.size, self.p_frozen, self.max_moves)
        return Lake(rows), "\n".join(rows)

    def _landing(self, action: str) -> int:
        """The cell that an action leads to."""
        if not self.slippery:
            return self.lake.moved[action][self._player]
        one, intended, other = self.lake.slips(action, self._player)
        side, draw = (1 - self.success_rate) / 2, self.np_random.random()
        if draw < side:
            return one
        return intended if draw < side + self.success_rate else other

    def _best_chances(self) -> list[list[float]]:
        if self._chances is None:
            self._chances = self.ground.chances(self.max_turns, self.success_rate)
        return self._chances

    def _expected(self, values: list[float], cells: tuple[int, int, int]) -> float:
        one, intended, other = cells
        return (1 - self.success_rate) / 2 * (values[one] + values[other]) + self.success_rate * values[
            intended
        ]

    def _kind(self, row: int, column: int) -> str:
        if not (0 <= row < self.size and 0 <= column < self.size):
            return "edge"
        return {ICE: "ice", HOLE: "hole", GOAL: "goal"}[self.lake.cells[row * self.size + column]]

    def _symbols(self) -> list[str]:
        cells = list(self.lake.cells)
        cells[self._player] = {ICE: PLAYER, HOLE: PLAYER_IN_HOLE, GOAL: PLAYER_AT_GOAL}[cells[self._player]]
        return cells

    def _text(self) -> str:
        cells, size = "".join(self._symbols()), self.size
        return "\n".join([cells[i : i + size] for i in range(0, size * size, size)])

    def _observation(self) -> str:
        return self._text() if self.observation_style == "full" else " ".join(self._symbols())

    def _info(self, admissible: bool) -> dict[str, Any]:
        return {
            "success": self.lake.cells[self._player] == GOAL,
            "admissible": admissible,
            "admissible_actions": ACTIONS,
            "anchor": self._text(),
        }


def random_map(rng: np.random.Generator, size: int, p_frozen: float, max_moves: int) -> tuple[str, ...]:
    """A map whose goal can be reached in `max_moves` moves: Gymnasium's `generate_random_map`, draw for draw.

    Raises UsageError when 10,000 draws have none.
    """
    for _ in range(10_000):
        cells = [ICE if draw < p_frozen else HOLE for draw in rng.random(size * size).tolist()]
        cells[0], cells[-1] = ICE, GOAL
        rows = tuple("".join(cells[i : i + size]) for i in range(0, size * size, size))
        if Lake(rows).distances.get(0, max_moves + 1) <= max_moves:
            return rows
    raise UsageError(f"no map of size {size} with p_frozen {p_frozen} can be crossed in {max_moves} moves")

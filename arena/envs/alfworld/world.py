"""The rules of the ALFRED domain as ALFWorld 0.4.2 runs them: a game, its state, and the text of every command.

`World` answers a command with the text that TextWorld's PDDL engine derives from `alfred.twl2`, and lists the
commands that the engine calls admissible, oddities included: `look` in the middle of the room sees nothing, only
what is held can be examined (the domain means what lies in the open too, but a comma makes a type that nothing has), a
lamp says "turn on" however often it is used, an object inside a closed receptacle can be sliced.

Left out: what no text, command or goal reads (`isOn`, `checked`, costs) and the actions that the domain has commented
out (objects that carry objects).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

NOTHING_HAPPENS = "Nothing happens."
_WELCOME = "-= Welcome to TextWorld, ALFRED! =-"
_HELP = "Available commands:\n" + "".join(
    f"  {command}: {' ' * (1 if command.startswith('move') else 32 - len(command))}{meaning}\n"
    for command, meaning in (
        ("look", "look around your current location"),
        ("inventory", "check your current inventory"),
        ("go to (receptacle)", "move to a receptacle"),
        ("open (receptacle)", "open a receptacle"),
        ("close (receptacle)", "close a receptacle"),
        ("take (object) from (receptacle)", "take an object from a receptacle"),
        ("move (object) to (receptacle)", "place an object in or on a receptacle"),
        ("examine (something)", "examine a receptacle or an object"),
        ("use (object)", "use an object"),
        ("heat (object) with (receptacle)", "heat an object using a receptacle"),
        ("clean (object) with (receptacle)", "clean an object using a receptacle"),
        ("cool (object) with (receptacle)", "cool an object using a receptacle"),
        ("slice (object) with (object)", "slice an object using a sharp object"),
    )
)
#: The receptacle kind in which each treatment is done; the goal's state is named by the same key.
APPLIANCES = {"clean": "sinkbasin", "heat": "microwave", "cool": "fridge"}
KNIVES = ("knife", "butterknife")

PLACE, LIGHT, CLEAN, HEAT, COOL, TWO = TASK_TYPES = (
    "pick_and_place_simple",
    "look_at_obj_in_light",
    "pick_clean_then_place_in_recep",
    "pick_heat_then_place_in_recep",
    "pick_cool_then_place_in_recep",
    "pick_two_obj_and_place",
)
TREATMENT = {CLEAN: "clean", HEAT: "heat", COOL: "cool"}


@dataclass(frozen=True)
class Receptacle:
    """`id` is its name in the PDDL problem, `name` what texts say, `location` a number."""

    id: str
    name: str
    kind: str
    location: int
    openable: bool


@dataclass(frozen=True)
class Thing:
    """An object. `can` holds what it allows: take, clean, heat, cool, use, slice; `vessel` marks one that could hold
    others (`inside`), which nothing can put in or take out."""

    id: str
    name: str
    kind: str
    can: frozenset[str]
    vessel: bool = False
    inside: tuple[int, ...] = ()


@dataclass(frozen=True)
class Task:
    """What is to be done: one of TASK_TYPES, the object's kind, and the kind of the receptacle (or lamp) it is for."""

    type: str
    object: str
    target: str

    @property
    def treatment(self) -> str | None:
        return TREATMENT.get(self.type)


class Start(NamedTuple):
    """The first state: the agent's location, each receptacle's content, what is open, states of things by name, and
    the locations (thing, location) at which a thing can be sliced."""

    at: int
    contents: tuple[frozenset[int], ...]
    opened: frozenset[int]
    states: tuple[tuple[str, frozenset[int]], ...]
    spots: frozenset[tuple[int, int]]


@dataclass(frozen=True)
class Game:
    """A household and a task. Receptacles and things are in the order of their ids, which is the order of all texts.

    `source` is the content of the game file that it was read from, if it was.
    """

    task: Task
    sentence: str
    receptacles: tuple[Receptacle, ...]
    things: tuple[Thing, ...]
    can_contain: frozenset[tuple[str, str]]
    start: Start
    source: Mapping[str, Any] | None = field(default=None, compare=False)

    @cached_property
    def at_location(self) -> dict[int, tuple[int, ...]]:
        found: dict[int, tuple[int, ...]] = {}
        for index, receptacle in enumerate(self.receptacles):
            found[receptacle.location] = (*found.get(receptacle.location, ()), index)
        return found

    @cached_property
    def tidy(self) -> bool:
        """Every receptacle has a location of its own and every thing is where its receptacle is: where things are says
        all there is to say."""
        return len(self.at_location) == len(self.receptacles) and self.start.spots == {
            (thing, receptacle.location)
            for receptacle, things in zip(self.receptacles, self.start.contents, strict=True)
            for thing in things
        }

    @cached_property
    def everywhere(self) -> dict[int, dict[str, Command]]:
        """The commands that depend on the agent's location alone, filled on demand."""
        return {}

    def commands_at(self, location: int) -> dict[str, Command]:
        if location not in self.everywhere:
            fixed = {verb: Command(verb) for verb in ("help", "inventory", "look")}
            for index, receptacle in enumerate(self.receptacles):
                if receptacle.location != location:
                    fixed[f"go to {receptacle.name}"] = Command("go", receptacle=index)
                else:
                    fixed[f"examine {receptacle.name}"] = Command("examine", receptacle=index)
            self.everywhere[location] = fixed
        return self.everywhere[location]


class Command(NamedTuple):
    """A command's meaning: a verb, and the indices of a thing and a receptacle."""

    verb: str
    thing: int = -1
    receptacle: int = -1


class World:
    """A game being played.

    `at` is the agent's location, `held` the thing in its hand (-1: none), `contents` the things of each receptacle,
    `opened` the open receptacles, `states` the things that are clean, heat(ed), cool, use(d) (a lamp that was switched)
    and slice(d).
    """

    def __init__(self, game: Game) -> None:
        start = game.start
        self.game = game
        self.at, self.held = start.at, -1
        self.contents = [set(things) for things in start.contents]
        self.opened = set(start.opened)
        self.states: dict[str, set[int]] = {verb: set() for verb in ("clean", "heat", "cool", "use", "slice")}
        for verb, things in start.states:
            self.states[verb] |= things
        self._spots = set(start.spots)
        #: Where a thing was taken from and not put back to: what `look` calls "next to" the receptacle.
        self._left: set[tuple[int, int]] = set()
        self._commands: dict[str, Command] | None = None

    # What is asked

    @property
    def here(self) -> tuple[int, ...]:
        """The receptacles at the agent's location."""
        return self.game.at_location.get(self.at, ())

    def visible(self, receptacle: int) -> bool:
        """Whether the receptacle shows its content to who stands there."""
        return receptacle in self.opened or not self.game.receptacles[receptacle].openable

    @property
    def won(self) -> bool:
        game, task = self.game, self.game.task
        things = game.things
        if task.type == LIGHT:
            return (
                self.held >= 0
                and things[self.held].kind == task.object
                and any(
                    things[lamp].kind == task.target and "use" in things[lamp].can
                    for receptacle in self.here
                    for lamp in self.contents[receptacle] & self.states["use"]
                )
            )
        needed = 2 if task.type == TWO else 1
        treatment = task.treatment
        for receptacle, content in zip(game.receptacles, self.contents, strict=True):
            if receptacle.kind != task.target or len(content) < needed:
                continue
            if treatment:
                content = {i for i in content & self.states[treatment] if treatment in things[i].can}
            if sum(things[i].kind == task.object for i in content) >= needed:
                return True
        return False

    def commands(self) -> dict[str, Command]:
        """The admissible commands. The same until the next `step`."""
        if self._commands is None:
            self._commands = self._find_commands()
        return self._commands

    @property
    def key(self) -> str:
        """The state as text: equal exactly when the states of a game are."""
        contents = ";".join([",".join(map(str, sorted(content))) for content in self.contents])
        marks = [*self.states.values(), self.opened]
        states = ";".join([",".join(map(str, sorted(mark))) if mark else "" for mark in marks])
        key = f"{self.at}|{self.held}|{contents}|{states}"
        return key if self.game.tidy else f"{key}|{sorted(self._spots)}|{sorted(self._left)}"

    @property
    def intro(self) -> str:
        """The text of the first turn."""
        if self.here:
            seen = self._facing()
        else:
            names = _listed([f"a {receptacle.name}" for receptacle in self.game.receptacles])
            seen = f"You are in the middle of a room. Looking quickly around you, you see {names}."
        return f"{_WELCOME}\n\n{seen}\n\nYour task is to: {self.game.sentence}."

    # What is done

    def step(self, command: str) -> str:
        """Play a command; its text. A command that is not admissible does nothing."""
        move = self.commands().get(command)
        if move is None:
            return NOTHING_HAPPENS
        self._commands = None
        verb, thing, place = move
        game = self.game
        name = game.things[thing].name if thing >= 0 else ""
        where = game.receptacles[place].name if place >= 0 else ""
        if verb == "go":
            self.at = game.receptacles[place].location
            return f"You arrive at {where}. {self._shown(place)}"
        if verb == "open":
            self.opened.add(place)
            return f"You open the {where}. {self._shown(place)}"
        if verb == "close":
            self.opened.discard(place)
            return f"You close the {where}."
        if verb == "take":
            self.contents[place].discard(thing)
            self._spots.discard((thing, self.at))
            self._left.add((thing, place))
            self.held = thing
            return f"You pick up the {name} from the {where}."
        if verb == "move":
            self.contents[place].add(thing)
            self._spots.add((thing, self.at))
            self._left.discard((thing, place))
            self.held = -1
            return f"You move the {name} to the {where}."
        if verb in APPLIANCES:
            self.states[verb].add(thing)
            if verb != "clean":
                self.states["cool" if verb == "heat" else "heat"].discard(thing)
            return f"You {verb} the {name} using the {where}."
        if verb == "use":
            self.states["use"].add(thing)
            return f"You turn on the {name}."
        if verb == "slice":
            self.states["slice"].add(thing)
            return f"You sliced the {name} with the {game.things[self.held].name}."
        if verb == "examine":
            return self._shown(place) if place >= 0 else self._examined(thing)
        if verb == "inventory":
            if self.held < 0:
                return "You are not carrying anything."
            return f"You are carrying: a {game.things[self.held].name}."
        if verb == "look":
            # The middle of the room has no receptacle, and that is what the original looks for there.
            if not self.here:
                return "You are in the middle of a room. Looking quickly around you, you see nothing."
            return self._facing()
        return _HELP

    def _find_commands(self) -> dict[str, Command]:
        game, held = self.game, self.held
        found = dict(game.commands_at(self.at))
        things = game.things
        for place in self.here:
            receptacle = game.receptacles[place]
            name = receptacle.name
            visible = True
            if receptacle.openable:
                visible = place in self.opened
                found[f"close {name}" if visible else f"open {name}"] = Command(
                    "close" if visible else "open", receptacle=place
                )
            for i in self.contents[place]:
                thing = things[i]
                if visible and held < 0 and "take" in thing.can:
                    found[f"take {thing.name} from {name}"] = Command("take", i, place)
                if "use" in thing.can:
                    found[f"use {thing.name}"] = Command("use", i, place)
            if held >= 0:
                thing = things[held]
                if visible and (receptacle.kind, thing.kind) in game.can_contain:
                    found[f"move {thing.name} to {name}"] = Command("move", held, place)
                for verb, kind in APPLIANCES.items():
                    if kind == receptacle.kind and verb in thing.can:
                        found[f"{verb} {thing.name} with {name}"] = Command(verb, held, place)
        if held >= 0:
            knife = things[held]
            found[f"examine {knife.name}"] = Command("examine", held)
            if knife.kind in KNIVES:
                for i, thing in enumerate(things):
                    if "slice" in thing.can and (i, self.at) in self._spots:
                        found[f"slice {thing.name} with {knife.name}"] = Command("slice", i)
        return found

    def _shown(self, place: int) -> str:
        """What examining a receptacle says."""
        receptacle = self.game.receptacles[place]
        if not self.visible(place):
            return f"The {receptacle.name} is closed."
        content = _listed([f"a {self.game.things[i].name}" for i in sorted(self.contents[place])])
        if receptacle.openable:
            return f"The {receptacle.name} is open. In it, you see {content}."
        return f"On the {receptacle.name}, you see {content}."

    def _examined(self, index: int) -> str:
        """What examining an object says; the first line that fits."""
        thing, states = self.game.things[index], self.states
        name = thing.name
        clean, hot, cool = (index in states[verb] for verb in ("clean", "heat", "cool"))
        sliced = index in states["slice"]
        if thing.vessel:
            content = _listed([f"a {self.game.things[i].name}" for i in thing.inside])
            return f"This is a normal {name}. In it, you see {content}."
        if clean or hot or cool:
            # What is cool and nothing else is "cold".
            temperature = "hot" if hot else "" if not cool else "cool" if clean or sliced else "cold"
            state = " and ".join(filter(None, (temperature, "clean" if clean else "")))
            return f"This is a {state} {'sliced ' if sliced else ''}{name}."
        if "use" in thing.can and index in states["use"]:
            return f"This {name} is on."
        if sliced:
            return f"This is a sliced {name}."
        return f"There's nothing special about {name}."

    def _facing(self) -> str:
        names = _listed([self.game.receptacles[place].name for place in self.here])
        beside = [
            f"a {self.game.things[i].name}"
            for i, location in sorted(self._spots)
            if location == self.at
            for place in self.here
            if (i, place) in self._left
        ]
        return f"You are facing the {names}. Next to it, you see {_listed(beside)}."


def _listed(names: list[str]) -> str:
    """A list as the grammar writes it: "a, b, and c", of two "a, and b"."""
    if not names:
        return "nothing"
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])}, and {names[-1]}"

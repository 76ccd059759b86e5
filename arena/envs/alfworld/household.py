"""Households by seed: which kinds of receptacles and objects there are, what may lie where, and a game drawn from them.

A part of what ALFRED allows (`alfworld.gen.constants`): 16 kinds of receptacles and 29 of objects, those that all six
tasks need. A game has one room of the kinds that ALFRED plays the task in, the receptacles that the task needs and
others of that room, the objects of the task, and others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from arena.envs.alfworld.world import (
    LIGHT,
    TASK_TYPES,
    TREATMENT,
    TWO,
    Game,
    Receptacle,
    Start,
    Task,
    Thing,
)

_Item = TypeVar("_Item")

#: What each kind of room holds, and how many of a kind at most.
ROOMS: dict[str, dict[str, int]] = {
    "kitchen": {
        "CounterTop": 2,
        "DiningTable": 1,
        "Cabinet": 4,
        "Drawer": 3,
        "Shelf": 2,
        "Fridge": 1,
        "Microwave": 1,
        "SinkBasin": 1,
        "GarbageCan": 1,
    },
    "living room": {
        "Sofa": 1,
        "CoffeeTable": 1,
        "SideTable": 2,
        "Shelf": 4,
        "Drawer": 4,
        "Cabinet": 3,
        "Dresser": 1,
        "GarbageCan": 1,
    },
    "bedroom": {"Bed": 1, "Desk": 2, "Dresser": 1, "SideTable": 2, "Shelf": 4, "Drawer": 5, "GarbageCan": 1},
    "bathroom": {"Toilet": 1, "SinkBasin": 2, "CounterTop": 2, "Cabinet": 5, "Drawer": 5, "GarbageCan": 1},
}
ROOMS_OF_TASK = {
    TASK_TYPES[0]: ("kitchen", "living room", "bedroom", "bathroom"),
    TASK_TYPES[1]: ("living room", "bedroom"),
    TASK_TYPES[2]: ("kitchen", "bathroom"),
    TASK_TYPES[3]: ("kitchen",),
    TASK_TYPES[4]: ("kitchen",),
    TASK_TYPES[5]: ("kitchen", "living room", "bedroom", "bathroom"),
}
OPENABLE = frozenset({"Cabinet", "Drawer", "Fridge", "Microwave"})
LAMP = "DeskLamp"
_TABLES = ("CounterTop", "DiningTable", "CoffeeTable", "SideTable")
_DESKS = ("Desk", "Dresser")


@dataclass(frozen=True)
class Kind:
    """A kind of object: the rooms it is drawn in, what can be done with it, and where it may lie."""

    rooms: tuple[str, ...]
    can: frozenset[str]
    places: frozenset[str]
    vessel: bool = False


def _kind(rooms: str, can: str, places: Sequence[str], vessel: bool = False) -> Kind:
    full = {"k": "kitchen", "l": "living room", "d": "bedroom", "b": "bathroom"}
    abilities = frozenset(can.split()) | {"take"}
    return Kind(tuple(full[letter] for letter in rooms), abilities, frozenset(places), vessel)


_FOOD = (*_TABLES, "Fridge", "GarbageCan")
_COOKED = (*_FOOD, "Microwave")
_DISH = (*_TABLES, "Fridge", "Microwave", "SinkBasin", "Cabinet", "Shelf")
_CUTLERY = (*_TABLES, "Drawer", "SinkBasin")
_SMALL = (*_TABLES, *_DESKS, "Drawer", "Shelf")
_BATH = (*_TABLES, "Toilet", "Cabinet", "Drawer", "Shelf", "GarbageCan")

OBJECTS: dict[str, Kind] = {
    "Apple": _kind("k", "clean heat cool slice", (*_COOKED, "SinkBasin")),
    "Bread": _kind("k", "heat cool slice", _COOKED),
    "Egg": _kind("k", "clean heat cool slice", (*_COOKED, "SinkBasin")),
    "Lettuce": _kind("k", "clean cool slice", (*_FOOD, "SinkBasin")),
    "Potato": _kind("k", "clean heat cool slice", (*_COOKED, "SinkBasin")),
    "Tomato": _kind("k", "clean heat cool slice", (*_COOKED, "SinkBasin")),
    "Bowl": _kind("k", "clean cool", (*_DISH, *_DESKS), vessel=True),
    "Cup": _kind("k", "clean heat cool", (*_DISH, *_DESKS), vessel=True),
    "Mug": _kind("kd", "clean heat cool", (*_DISH, *_DESKS), vessel=True),
    "Plate": _kind("k", "clean heat cool", (*_DISH, *_DESKS), vessel=True),
    "Pan": _kind("k", "clean cool", (*_TABLES, "Fridge", "SinkBasin", "Cabinet"), vessel=True),
    "Fork": _kind("k", "clean", _CUTLERY),
    "Knife": _kind("k", "clean", _CUTLERY),
    "Spoon": _kind("k", "clean", _CUTLERY),
    "SaltShaker": _kind("k", "", (*_TABLES, "Drawer", "Cabinet", "Shelf")),
    "Book": _kind("ld", "", (*_SMALL, "Cabinet", "Sofa", "Bed")),
    "CD": _kind("d", "", (*_SMALL, "Cabinet", "GarbageCan")),
    "CellPhone": _kind("d", "", (*_SMALL, "Sofa", "Bed")),
    "CreditCard": _kind("ld", "", (*_SMALL, "Sofa")),
    "KeyChain": _kind("ld", "", (*_SMALL, "Sofa")),
    "Laptop": _kind("ld", "", (*_TABLES, *_DESKS, "Sofa", "Bed")),
    "Pen": _kind("d", "", (*_SMALL, "GarbageCan")),
    "Pillow": _kind("ld", "", ("Sofa", "Bed")),
    "RemoteControl": _kind("l", "", (*_SMALL, "Sofa")),
    "Watch": _kind("l", "", _SMALL),
    "Cloth": _kind("b", "clean", (*_BATH, *_DESKS, "SinkBasin", "Sofa")),
    "SoapBar": _kind("b", "clean", (*_BATH, "SinkBasin")),
    "SprayBottle": _kind("b", "", (*_BATH, *_DESKS)),
    "ToiletPaper": _kind("b", "", (*_BATH, *_DESKS)),
}
#: Where a lamp stands. ALFRED's table names no place for it: its scenes have them there.
LAMP_PLACES = frozenset({"Desk", "Dresser", "SideTable", "CoffeeTable", "Shelf"})
_SENTENCES = {
    TASK_TYPES[0]: ("put a {object} in {target}", "put some {object} on {target}"),
    TASK_TYPES[1]: ("look at {object} under the {target}", "examine the {object} with the {target}"),
    TASK_TYPES[2]: ("put a clean {object} in {target}", "clean some {object} and put it in {target}"),
    TASK_TYPES[3]: ("put a hot {object} in {target}", "heat some {object} and put it in {target}"),
    TASK_TYPES[4]: ("put a cool {object} in {target}", "cool some {object} and put it in {target}"),
    TASK_TYPES[5]: ("put two {object} in {target}", "find two {object} and put them in {target}"),
}
#: What a kind's appliances are called in the problem.
_APPLIANCE = {"clean": "SinkBasin", "heat": "Microwave", "cool": "Fridge"}


def draw_game(rng: np.random.Generator, task_type: str, receptacles: int, objects: int) -> Game | None:
    """A household for a task of `task_type` with that many receptacles and objects; None where a draw fits nothing."""
    room = _one(rng, ROOMS_OF_TASK[task_type])
    treatment = TREATMENT.get(task_type)
    candidates = [
        kind
        for kind, about in OBJECTS.items()
        if room in about.rooms and (treatment is None or treatment in about.can)
    ]
    wanted = _one(rng, candidates)
    needed = [_APPLIANCE[treatment]] if treatment else []
    if task_type == LIGHT:
        target = LAMP
        needed.append(_one(rng, sorted(LAMP_PLACES & ROOMS[room].keys())))
    else:
        places = sorted(OBJECTS[wanted].places & ROOMS[room].keys() - set(needed))
        target = _one(rng, places)
        needed.append(target)
    kinds = _draw_receptacles(rng, room, needed, receptacles)
    # Objects of the task lie where the task is not done yet: not in the target, not in the appliance.
    avoided = {target, *needed} if task_type != LIGHT else set()
    spots = [i for i, kind in enumerate(kinds) if kind in OBJECTS[wanted].places - avoided]
    if not spots:
        return None
    placed = [(wanted, _one(rng, spots)) for _ in range(2 if task_type == TWO else 1)]
    if task_type == LIGHT:
        placed.append((LAMP, _one(rng, [i for i, kind in enumerate(kinds) if kind in LAMP_PLACES])))
    others = [kind for kind, about in OBJECTS.items() if room in about.rooms and kind != wanted]
    while len(placed) < objects:
        kind = _one(rng, others)
        spots = [i for i, place in enumerate(kinds) if place in OBJECTS[kind].places]
        if spots:
            placed.append((kind, _one(rng, spots)))
    task = Task(task_type, wanted.lower(), target.lower())
    sentence = _one(rng, _SENTENCES[task_type]).format(object=task.object, target=task.target)
    return build_game(task, sentence, kinds, placed)


def build_game(task: Task, sentence: str, kinds: Sequence[str], placed: Sequence[tuple[str, int]]) -> Game:
    """A game from the kinds of its receptacles and its objects, each with the index of its receptacle in `kinds`.

    Ids and numbers are given so that TextWorld lists and ALFWorld names them as this game does: in the order of ids,
    the numbers of a kind descending.
    """
    order = sorted(range(len(kinds)), key=lambda i: (_id(kinds[i]), i))
    receptacle_ids = _numbered([kinds[i] for i in order])
    where = {old: new for new, old in enumerate(order)}
    receptacles = tuple(
        Receptacle(id, name, kind.lower(), number, kind in OPENABLE)
        for number, (id, name, kind) in enumerate(receptacle_ids)
    )
    things_order = sorted(placed, key=lambda item: (_id(item[0]), where[item[1]]))
    things, contents = [], [set() for _ in kinds]
    for number, (id, name, kind) in enumerate(_numbered([kind for kind, _ in things_order])):
        if kind == LAMP:
            things.append(Thing(id, name, kind.lower(), frozenset({"use"})))
        else:
            things.append(Thing(id, name, kind.lower(), OBJECTS[kind].can, OBJECTS[kind].vessel))
        contents[where[things_order[number][1]]].add(number)
    present = {kind for kind, _ in placed} - {LAMP}
    return Game(
        task=task,
        sentence=sentence,
        receptacles=receptacles,
        things=tuple(things),
        can_contain=frozenset(
            (place.lower(), kind.lower()) for kind in present for place in OBJECTS[kind].places & set(kinds)
        ),
        start=Start(
            # A location of its own, the middle of the room.
            at=len(receptacles),
            contents=tuple(frozenset(content) for content in contents),
            opened=frozenset(),
            states=(),
            spots=frozenset((thing, place) for place, content in enumerate(contents) for thing in content),
        ),
    )


def _draw_receptacles(rng: np.random.Generator, room: str, needed: Sequence[str], number: int) -> list[str]:
    """Kinds of receptacles: those needed, the others at random, no kind more often than the room has it."""
    kinds = list(needed)
    rest = [kind for kind, most in ROOMS[room].items() for _ in range(most)]
    for kind in kinds:
        rest.remove(kind)
    rng.shuffle(rest)
    return kinds + rest[: max(0, number - len(kinds))]


def _one(rng: np.random.Generator, items: Sequence[_Item]) -> _Item:
    return items[int(rng.integers(len(items)))]


def _id(kind: str) -> str:
    """The name in the problem without its number, in ALFRED's mangled form: the sink's basin is a part of the sink."""
    return "sink_bar_{}_bar_sinkbasin" if kind == "SinkBasin" else f"{kind.lower()}_bar_{{}}"


def _numbered(kinds: Sequence[str]) -> list[tuple[str, str, str]]:
    """Id, name and kind of each item; items of a kind stand together."""
    totals = {kind: kinds.count(kind) for kind in kinds}
    seen: dict[str, int] = {}
    numbered = []
    for kind in kinds:
        seen[kind] = seen.get(kind, 0) + 1
        # The first id of a kind gets its highest number.
        number = totals[kind] - seen[kind] + 1
        numbered.append((_id(kind).format(f"{seen[kind]:02d}"), f"{kind.lower()} {number}", kind))
    return numbered

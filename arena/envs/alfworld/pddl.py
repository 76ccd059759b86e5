"""A game as a PDDL problem of the ALFRED domain, and a problem as a game.

`problem` writes what `world` plays for the original engine; `parse_problem` reads generated problems and ALFWorld's.
Goals are ALFRED's formulas (`alfworld.gen.goal_library`), read by the facts that they name.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from arena.envs.alfworld.world import (
    CLEAN,
    COOL,
    HEAT,
    LIGHT,
    PLACE,
    TREATMENT,
    TWO,
    Game,
    Receptacle,
    Start,
    Task,
    Thing,
)

#: What may be done with a thing, and its state afterwards, as predicates.
_ABILITIES = {
    "take": "pickupable",
    "clean": "cleanable",
    "heat": "heatable",
    "cool": "coolable",
    "use": "toggleable",
    "slice": "sliceable",
}
_STATES = {"clean": "isClean", "heat": "isHot", "cool": "isCool", "use": "isToggled", "slice": "isSliced"}
_GOAL_STATES = {"isclean": CLEAN, "ishot": HEAT, "iscool": COOL}


def problem(game: Game) -> str:
    """The PDDL problem of a game."""
    start = game.start
    places, things = game.receptacles, game.things
    locations = sorted({place.location for place in places} | {start.at} | {spot for _, spot in start.spots})
    kinds = sorted({thing.kind for thing in things} | {kind for _, kind in game.can_contain})
    place_kinds = sorted({place.kind for place in places} | {game.task.target})
    objects = [
        "agent1 - agent",
        *(f"{_spot(location)} - location" for location in locations),
        *(f"{thing.id} - object" for thing in things),
        *(f"{place.id} - receptacle" for place in places),
        *(f"{kind}Type - otype" for kind in kinds),
        *(f"{kind}Type - rtype" for kind in place_kinds if kind not in kinds),
    ]
    facts = ["(= (total-cost) 0)", f"(atLocation agent1 {_spot(start.at)})"]
    for index, place in enumerate(places):
        facts.append(f"(receptacleType {place.id} {place.kind}Type)")
        facts.append(f"(receptacleAtLocation {place.id} {_spot(place.location)})")
        facts += [f"(openable {place.id})"] * place.openable + [f"(opened {place.id})"] * (
            index in start.opened
        )
        facts += [f"(inReceptacle {things[i].id} {place.id})" for i in sorted(start.contents[index])]
    for thing in things:
        facts.append(f"(objectType {thing.id} {thing.kind}Type)")
        facts += [f"({_ABILITIES[verb]} {thing.id})" for verb in sorted(thing.can)]
        facts += [f"(isReceptacleObject {thing.id})"] * thing.vessel
        facts += [f"(inReceptacleObject {things[i].id} {thing.id})" for i in thing.inside]
    facts += [f"(objectAtLocation {things[i].id} {_spot(location)})" for i, location in sorted(start.spots)]
    facts += [f"({_STATES[verb]} {things[i].id})" for verb, marked in start.states for i in sorted(marked)]
    facts += [f"(canContain {place}Type {kind}Type)" for place, kind in sorted(game.can_contain)]
    facts += [
        f"(= (distance {_spot(one)} {_spot(other)}) 1)"
        for one in locations
        for other in locations
        if one != other
    ]
    listed = "\n    ".join
    return (
        "(define (problem household)\n  (:domain alfred)\n"
        f"  (:objects\n    {listed(objects)})\n  (:init\n    {listed(facts)})\n"
        f"  (:goal {_goal(game.task)})\n  (:metric minimize (total-cost)))\n"
    )


def _spot(location: int) -> str:
    return f"loc_bar_{location:03d}"


def _goal(task: Task) -> str:
    kind, target = f"{task.object}Type", f"{task.target}Type"
    if task.type == LIGHT:
        lit = (
            f"(exists (?ot - object ?r - receptacle ?a - agent ?l - location) (and (objectType ?ot {target})"
            " (toggleable ?ot) (isToggled ?ot) (receptacleAtLocation ?r ?l) (atLocation ?a ?l) (inReceptacle ?ot ?r)))"
        )
        return f"(and {lit} (exists (?o - object ?a - agent) (and (objectType ?o {kind}) (holds ?a ?o))))"
    brought = f"(objectType ?o {kind}) (receptacleType ?r {target}) (inReceptacle ?o ?r)"
    if treatment := TREATMENT.get(task.type):
        brought += f" ({_ABILITIES[treatment]} ?o) ({_STATES[treatment]} ?o)"
    if task.type == TWO:
        other = f"(not (= ?o ?o2)) (objectType ?o2 {kind}) (inReceptacle ?o2 ?r)"
        brought += f" (exists (?o2 - object) (and {other}))"
    return f"(exists (?r - receptacle) (exists (?o - object) (and {brought})))"


def parse_problem(text: str, sentence: str) -> Game:
    """The game of a problem. Raises ValueError where the problem or its goal is none that `world` knows."""
    sections = {part[0]: part[1:] for part in _parse(text)[1:] if isinstance(part, list) and part}
    if missing := {":objects", ":init", ":goal"} - set(sections):
        raise ValueError(f"a problem has {', '.join(sorted(missing))}, which this one lacks")
    types = _typed(sections[":objects"])
    facts: dict[str, list[tuple[str, ...]]] = defaultdict(list)
    for fact in sections[":init"]:
        if fact[0] != "=":
            facts[fact[0]].append(tuple(fact[1:]))
    # Only what occurs in a fact has a name, and only ids of one name share numbers.
    ids = sorted({id for arguments in facts.values() for fact in arguments for id in fact})
    names = display_names(ids)
    place_kind = {id: _kind(kind) for id, kind in facts["receptacletype"]}
    thing_kind = {id: _kind(kind) for id, kind in facts["objecttype"]}
    place_ids = [id for id in ids if types.get(id) == "receptacle"]
    thing_ids = [id for id in ids if types.get(id) == "object"]
    place_at = {fact[0]: fact[1] for fact in facts["receptacleatlocation"]}
    locations = {id: number for number, id in enumerate(i for i in ids if types.get(i) == "location")}
    (agent_at,) = [where for _, where in facts["atlocation"]] or [""]
    marked = {name: {id for (id, *_) in arguments} for name, arguments in facts.items()}
    place_ids = [id for id in place_ids if id in place_at]
    place_index = {id: i for i, id in enumerate(place_ids)}
    thing_index = {id: i for i, id in enumerate(thing_ids)}

    def has(predicate: str, id: str) -> bool:
        return id in marked.get(predicate.lower(), ())

    contents: list[set[int]] = [set() for _ in place_ids]
    for thing, place in facts["inreceptacle"]:
        if place in place_index:
            contents[place_index[place]].add(thing_index[thing])
    inside: dict[str, list[int]] = defaultdict(list)
    for inner, outer in sorted(facts["inreceptacleobject"]):
        inside[outer].append(thing_index[inner])
    things = tuple(
        Thing(
            id,
            names[id],
            thing_kind.get(id, ""),
            frozenset(verb for verb, predicate in _ABILITIES.items() if has(predicate, id)),
            has("isReceptacleObject", id),
            tuple(inside[id]),
        )
        for id in thing_ids
    )
    states = {verb: [i for i, id in enumerate(thing_ids) if has(name, id)] for verb, name in _STATES.items()}
    return Game(
        task=_task(sections[":goal"][0]),
        sentence=sentence,
        receptacles=tuple(
            Receptacle(id, names[id], place_kind.get(id, ""), locations[place_at[id]], has("openable", id))
            for id in place_ids
        ),
        things=things,
        can_contain=frozenset((_kind(place), _kind(thing)) for place, thing in facts["cancontain"]),
        start=Start(
            at=locations[agent_at],
            contents=tuple(map(frozenset, contents)),
            opened=frozenset(i for i, id in enumerate(place_ids) if has("opened", id)),
            states=tuple((verb, frozenset(marks)) for verb, marks in states.items() if marks),
            spots=frozenset(
                (thing_index[thing], locations[spot])
                for thing, spot in facts["objectatlocation"]
                if thing in thing_index
            ),
        ),
    )


def display_names(ids: list[str]) -> dict[str, str]:
    """The name of each id: what stands before the first bar, and a number: ALFWorld's demangler gives the first id of a
    name its highest number."""
    groups: dict[str, list[str]] = defaultdict(list)
    names = {}
    for id in sorted(ids):
        head, bar, _ = id.partition("_bar_")
        if bar:
            groups[f"{head}basin" if "basin" in id else head].append(id)
        else:
            names[id] = f"{id} "
    for name, members in groups.items():
        names |= {id: f"{name} {len(members) - rank}" for rank, id in enumerate(members)}
    return names


def _task(goal: list[Any]) -> Task:
    facts = [(atom[0], atom[1:]) for atom in _atoms(goal)]
    objects = [_kind(arguments[1]) for name, arguments in facts if name == "objecttype"]
    places = [_kind(arguments[1]) for name, arguments in facts if name == "receptacletype"]
    named = {name for name, _ in facts}
    known = {"objecttype", "receptacletype", "inreceptacle", "=", "cleanable", "heatable", "coolable"}
    known |= {"toggleable", "istoggled", "holds", "receptacleatlocation", "atlocation", *_GOAL_STATES}
    if unknown := named - known:
        raise ValueError(f"a goal of {', '.join(sorted(unknown))} is none of the six tasks")
    if "istoggled" in named:
        lamp, thing = objects
        return Task(LIGHT, thing, lamp)
    if "=" in named:
        return Task(TWO, objects[0], places[0])
    states = named & _GOAL_STATES.keys()
    return Task(_GOAL_STATES[states.pop()] if states else PLACE, objects[0], places[0])


def _atoms(formula: list[Any]) -> Iterator[list[Any]]:
    if formula[0] == "exists":
        yield from _atoms(formula[2])
    elif formula[0] in ("and", "not"):
        for part in formula[1:]:
            yield from _atoms(part)
    else:
        yield formula


def _kind(type_name: str) -> str:
    return type_name.removesuffix("type")


def _typed(items: list[str]) -> dict[str, str]:
    """`a b - t c - u` as a mapping."""
    types, names = {}, []
    items_left = iter(items)
    for item in items_left:
        if item == "-":
            types |= dict.fromkeys(names, next(items_left))
            names = []
        else:
            names.append(item)
    return types


def _parse(text: str) -> list[Any]:
    """Nested lists of the words of a PDDL text, in small letters as the planner reads them."""
    stack: list[list[Any]] = [[]]
    for token in re.findall(r"[()]|[^\s()]+", re.sub(r";[^\n]*", "", text).lower()):
        if token == "(":
            stack.append([])
        elif token == ")":
            if len(stack) < 2:
                raise ValueError("a problem has as many opening as closing brackets")
            done = stack.pop()
            stack[-1].append(done)
        else:
            stack[-1].append(token)
    if len(stack) != 1 or len(stack[0]) != 1:
        raise ValueError("a problem is one expression in brackets")
    return stack[0][0]

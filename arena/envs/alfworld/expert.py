"""An agent that knows only what it has seen: it searches in a fixed order, then does what the task needs.

It serves games of both engines and of any state. What has been seen is a set of receptacles: nobody else moves things,
so what a receptacle held when it was last seen is what it holds.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from arena.envs.alfworld.world import APPLIANCES, LIGHT, TWO, Game, World


@dataclass(frozen=True)
class Intent:
    """What the agent is after: `need` (a kind, or "room" for what it holds in vain), the receptacle `place` for it
    (-1: nothing left to try), whether that is where the thing was `known` to be, and the command to give now."""

    need: str
    place: int
    known: bool
    command: str


class Agent:
    """The search and plan of one game."""

    def __init__(self, game: Game) -> None:
        self.game = game
        self.seen: set[int] = set()

    @cached_property
    def order(self) -> tuple[int, ...]:
        """The order of search: what lies open first, then what must be opened."""
        return tuple(
            sorted(range(len(self.game.receptacles)), key=lambda i: self.game.receptacles[i].openable)
        )

    def look(self, world: World) -> None:
        """Note what the agent sees where it is."""
        self.seen.update(place for place in world.here if world.visible(place))

    def useful(self, world: World) -> list[tuple[int, int]]:
        """Things of use that were seen, each with its receptacle: lamps, and objects of the task's kind that are not
        where they belong."""
        game, task = self.game, self.game.task
        settled = self.settled(world)
        kinds = (task.object, task.target) if task.type == LIGHT else (task.object,)
        return [
            (thing, place)
            for place in self.order
            if place in self.seen
            for thing in sorted(world.contents[place])
            if game.things[thing].kind in kinds and thing not in settled
        ]

    def target(self, world: World) -> int:
        """The receptacle to bring things to: of the right kind, the one that has most of the task's objects."""
        task = self.game.task
        places = [i for i in self.order if self.game.receptacles[i].kind == task.target]
        return max(places, key=lambda i: self._brought(world, i), default=-1)

    def settled(self, world: World) -> set[int]:
        """Things to leave where they are: of a pair, the first one brought."""
        if self.game.task.type != TWO:
            return set()
        place = self.target(world)
        return set() if place < 0 or place not in self.seen else world.contents[place]

    def intent(self, world: World) -> Intent:
        """What to do now."""
        game, task, held = self.game, self.game.task, world.held
        if held >= 0 and game.things[held].kind != task.object:
            place = self._room_for(world, held)
            return self._at(world, "room", place, True, self._moving(held, place))
        if held < 0:
            return self._fetch(world, task.object)
        treatment = task.treatment
        if treatment and held not in world.states[treatment]:
            kind = APPLIANCES[treatment]
            place = next((i for i in self.order if game.receptacles[i].kind == kind), -1)
            command = f"{treatment} {game.things[held].name} with {self._name(place)}"
            return self._at(world, kind, place, True, command, inside=False)
        if task.type == LIGHT:
            return self._fetch(world, task.target)
        place = self.target(world)
        return self._at(world, task.target, place, True, self._moving(held, place))

    def _fetch(self, world: World, kind: str) -> Intent:
        """Find a thing of a kind: take it, or switch it if it is the lamp."""
        found = [
            (thing, place) for thing, place in self.useful(world) if self.game.things[thing].kind == kind
        ]
        if found:
            thing, place = min(found, key=lambda item: item[1] not in world.here)
            lamp = "use" in self.game.things[thing].can
            name = self.game.things[thing].name
            command = f"use {name}" if lamp else f"take {name} from {self._name(place)}"
            return self._at(world, kind, place, True, command, inside=not lamp)
        place = next((i for i in self.order if i not in self.seen), -1)
        return self._at(world, kind, place, False, "look")

    def _at(
        self, world: World, need: str, place: int, known: bool, command: str, inside: bool = True
    ) -> Intent:
        """Give a command at a receptacle, going there and, for what is `inside`, opening it first."""
        if place < 0:
            return Intent(need, place, known, "look")
        if place not in world.here:
            command = f"go to {self._name(place)}"
        elif inside and not world.visible(place):
            command = f"open {self._name(place)}"
        return Intent(need, place, known, command)

    def _room_for(self, world: World, held: int) -> int:
        """Where to put down what is held: here if it may lie here, else the first place that takes it."""
        game = self.game
        kind = game.things[held].kind
        places = [i for i in self.order if (game.receptacles[i].kind, kind) in game.can_contain]
        return min(places, key=lambda i: i not in world.here, default=-1)

    def _moving(self, held: int, place: int) -> str:
        return f"move {self.game.things[held].name} to {self._name(place)}"

    def _brought(self, world: World, place: int) -> int:
        if place not in self.seen:
            return 0
        return sum(self.game.things[i].kind == self.game.task.object for i in world.contents[place])

    def _name(self, place: int) -> str:
        return self.game.receptacles[place].name if place >= 0 else ""


def solution(game: Game, longest: int) -> tuple[str, ...] | None:
    """The commands with which the agent solves a game from its start; None if it takes more than `longest`."""
    world, agent = World(game), Agent(game)
    agent.look(world)
    commands: list[str] = []
    while not world.won and len(commands) < longest:
        commands.append(agent.intent(world).command)
        world.step(commands[-1])
        agent.look(world)
    return tuple(commands) if world.won else None

"""ALFWorld: household tasks in text, on a simulator of its rules or on the original engine.

Rules, texts and commands are ALFWorld 0.4.2's (Shridhar et al. 2021), reward 10 on success and 0 else as in verl-agent.
Games are drawn by seed (`household`), or read from the original's files. Two engines play them: `native` (`world`) and
`textworld` (`textworld_engine`, the packages `alfworld` and `textworld`), step by step alike (`conformance`).

Departures: the `compact` style shows what a player could note down (task, place, hand, what is seen, what is not) in
place of the original's sentences, and takes commands in a short form beside the original ones.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, ClassVar, Literal

import numpy as np

from arena.envs.alfworld.expert import Agent, solution
from arena.envs.alfworld.games import draw_recorded, game_paths
from arena.envs.alfworld.household import LAMP, OBJECTS, ROOMS, draw_game
from arena.envs.alfworld.textworld_engine import TextworldEngine, engine_parts, logic, original_game
from arena.envs.alfworld.world import TASK_TYPES, Command, Game, World
from arena.envs.base import TextEnv, one_of, split_of_seed, whole_number
from arena.errors import UsageError
from arena.seeding import stream_seed

SUCCESS_REWARD = 10.0
#: What the compact style calls the goal's state; and a state of what is held.
_GOALS = dict(zip(TASK_TYPES, ("plain", "lit", "clean", "hot", "cool", "two"), strict=True))
_STATES = {"clean": "clean", "heat": "hot", "cool": "cool"}
_VERBS = ("go", "open", "close", "take", "move", "clean", "heat", "cool", "use", "slice", "examine", "look")
_WORDS = (
    *("to", "at", "here", "hold", "found", "new", "seen", "none", "closed", "room"),
    *("need", "known", "there", "yes", "no", "raw", *_GOALS.values()),
)
_RULES = """\
You live in a text world: a room of a house with furniture and things in it. You are given one household task.

Places and things have numbered names, such as "cabinet 2" or "apple 1". You can hold one thing at a time. A closed
place shows what is in it only after you open it. To clean a thing, hold it at a sinkbasin; to heat it, at a microwave;
to cool it, at a fridge; then use the command for it. To look at a thing in light, hold it where a lamp is and use the
lamp. Things go where the task says with "move THING to PLACE".

Each turn you see what your last command did, your task and the commands that are possible now, in the words of
ALFWorld 0.4. First think about what the task still needs and where it may be. Then choose exactly one of the possible
commands. Answer in this format and write nothing else:
<think>your reasoning</think><action>your command</action>"""

#: Draws for a game that the agent solves in time, before the options are called impossible.
_DRAWS = 2_000


class AlfWorld(TextEnv):
    """Do a household task: find things, clean, heat or cool them, bring them where they belong.

    Args (options): `engine` is `native` or `textworld`. For games drawn by seed: `tasks` are the task types to draw
    from (a name or several, see `TASK_TYPES`; default all six), `receptacles` and `objects` how many a household has
    (4 to 15, 2 to 30), `max_solution` bounds the number of commands that the expert needs (default `max_turns`, never
    more). For the original's games: `data` is their directory (environment variables are expanded:
    "$ALFWORLD_DATA"), `eval_games` the split that evaluation seeds draw from.

    `reset(options={"game": Game})` plays a given game.
    """

    name: ClassVar[str] = "alfworld"
    summary: ClassVar[str] = "Household tasks in text: find things, clean, heat or cool them, put them away."
    vocabulary: ClassVar[tuple[str, ...]] = tuple(
        dict.fromkeys(
            (
                *(name, *_WORDS, *_VERBS, "inventory", "help", *"0123456789"),
                *(kind.lower() for kinds in ROOMS.values() for kind in kinds),
                *(kind.lower() for kind in (*OBJECTS, LAMP)),
            )
        )
    )
    fully_observed: ClassVar[bool] = False
    longest_observation: ClassVar[int] = 16_384
    cached_tasks: ClassVar[int] = 256
    #: A command names a thing or a place: two or three words where others have one.
    largest_action_share: float = 0.22

    def __init__(
        self,
        *,
        max_turns: int = 50,
        observation: Literal["compact", "full"] = "compact",
        engine: Literal["native", "textworld"] = "native",
        tasks: str | Sequence[str] = TASK_TYPES,
        receptacles: int = 12,
        objects: int = 12,
        max_solution: int | None = None,
        data: str | None = None,
        eval_games: Literal["valid_seen", "valid_unseen"] = "valid_seen",
    ) -> None:
        super().__init__(max_turns=max_turns, observation=observation)
        self.engine = one_of("engine", engine, ("native", "textworld"))
        self.tasks = (tasks,) if isinstance(tasks, str) else tuple(tasks)
        if not self.tasks or (unknown := [task for task in self.tasks if task not in TASK_TYPES]):
            raise ValueError(
                f"tasks must be some of {', '.join(TASK_TYPES)}, given {unknown if tasks else '()'}"
            )
        self.receptacles = whole_number("receptacles", receptacles, 4, 15)
        self.objects = whole_number("objects", objects, 2, 30)
        longest = max_turns if max_solution is None else max_solution
        self.max_solution = min(whole_number("max_solution", longest, 2, 1000), max_turns)
        self.eval_games = one_of("eval_games", eval_games, ("valid_seen", "valid_unseen"))
        self.data = data
        if data is not None:
            for split in ("train", eval_games):
                game_paths(os.path.expandvars(data), split)
        if engine == "textworld":
            logic()
            engine_parts()
        self._world: World | None = None
        self._agent: Agent | None = None
        self._labels: _Labels | None = None
        self._original: TextworldEngine | None = None
        self._turns, self._ended = 0, True
        self._feedback = ""

    @property
    def instruction(self) -> str:
        return self.name if self.observation_style == "compact" else _RULES

    @property
    def largest_return(self) -> float:
        """The reward of success."""
        return SUCCESS_REWARD

    @property
    def world(self) -> World:
        """The state. With `engine=textworld` it follows the original, which answers."""
        if self._world is None:
            raise RuntimeError("call reset first")
        return self._world

    @property
    def agent(self) -> Agent:
        if self._agent is None:
            raise RuntimeError("call reset first")
        return self._agent

    @property
    def labels(self) -> _Labels:
        if self._labels is None:
            raise RuntimeError("call reset first")
        return self._labels

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        if unknown := set(options or ()) - {"game"}:
            raise ValueError(f"reset takes the option 'game', given {sorted(unknown)}")
        if options:
            game = options["game"]
        else:
            game = self._game_of(self.task_seed(seed))
        if self.engine == "textworld" and (self._world is None or self._world.game is not game):
            self._original = TextworldEngine(original_game(game))
        self._world, self._agent, self._labels = World(game), Agent(game), _Labels(game)
        self._agent.look(self._world)
        self._feedback = self._original.reset() if self._original else self._world.intro
        self._turns, self._ended = 0, self._won
        return self._observation(), self._info(admissible=True)

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        if self._ended:
            raise RuntimeError("the episode has ended: call reset")
        world = self.world
        command = self._understood(action)
        self._feedback = world.step(command)
        if self._original:
            self._feedback = self._original.step(command)
        self.agent.look(world)
        won = self._won
        self._turns += 1
        truncated = not won and self._turns >= self.max_turns
        self._ended = won or truncated
        return (
            self._observation(),
            SUCCESS_REWARD if won else 0.0,
            won,
            truncated,
            self._info(admissible=bool(command)),
        )

    def expert_action(self) -> str:
        """The next command of an agent that knows what it has seen and searches the rest in a fixed order."""
        commands = self.world.commands()
        command = self.agent.intent(self.world).command
        if command not in commands:
            command = "look"
        return command if self.observation_style == "full" else self._short(command, commands[command])

    @property
    def expert_success(self) -> float:
        """1 for generated games; a game that was given or read from a file may take the expert longer."""
        return float(solution(self.world.game, self.max_turns) is not None)

    def thought(self) -> str:
        """The task, the hand, what is needed and where it is known to be (or which new place to try), and the agent's
        place, whether it is closed, and whether it is the one needed."""
        world, labels, task = self.world, self.labels, self.world.game.task
        intent = self.agent.intent(world)
        where = "none" if intent.place < 0 else labels.places[intent.place]
        words = [task.object, _GOALS[task.type], "to", task.target, "hold", self._held(), "need", intent.need]
        words += ["known" if intent.known else "new", where, "at", *self._place(), "there"]
        words.append("yes" if intent.place in world.here else "no")
        return " ".join(words)

    @property
    def _won(self) -> bool:
        return self._original.won if self._original else self.world.won

    def admissible_actions(self) -> tuple[str, ...]:
        if self._original and self.observation_style == "full":
            return self._original.commands
        commands = self.world.commands()
        if self.observation_style == "full":
            return tuple(sorted(commands))
        return tuple(sorted([self._short(command, meaning) for command, meaning in commands.items()]))

    def _understood(self, action: str) -> str:
        """The admissible command that an action means; empty if there is none."""
        text = action.strip()
        # Some letters become ASCII when they are made small: they are not what they look like.
        if not text.isascii() or len(text) > self.longest_action:
            return ""
        text = text.lower()
        commands = self.world.commands()
        if text in (self._original.commands if self._original else commands):
            return text
        return self._meant(text) if self.observation_style == "compact" else ""

    def _meant(self, text: str) -> str:
        """The command of a short form: a verb and a name, or a kind alone, which means the first of that kind that can
        be meant, of places one that has not been seen before one that has."""
        verb, _, said = text.partition(" ")
        game, seen = self.world.game, self.agent.seen
        found: list[tuple[bool, int, str]] = []
        for command, meaning in self.world.commands().items():
            if meaning.verb != verb:
                continue
            if text == self._short(command, meaning):
                return command
            named = game.things[meaning.thing] if meaning.thing >= 0 else None
            rank = meaning.thing
            if named is None and meaning.receptacle >= 0:
                named = game.receptacles[meaning.receptacle]
                rank = self.agent.order.index(meaning.receptacle)
            if named is not None and said in (named.name, named.kind):
                found.append((meaning.thing < 0 and meaning.receptacle in seen, rank, command))
        return min(found)[2] if found else ""

    def _short(self, command: str, meaning: Command) -> str:
        """A command's verb and the thing or place that it is about. Ambiguous ones, at a location of several
        receptacles, stay as they are."""
        verb, thing, place = meaning
        if thing >= 0:
            if len(self.world.here) > 1:
                return command
            return f"{verb} {self.labels.things[thing]}"
        return f"{verb} {self.labels.places[place]}" if place >= 0 else verb

    def _game_of(self, seed: int) -> Game:
        if self.data is not None:
            key = (seed, self.tasks, self.data, self.eval_games)
            return self.remembered(key, lambda: self._recorded(seed))
        return self.task_of(
            seed, (self.tasks, self.receptacles, self.objects, self.max_solution), self._sample
        )

    def _sample(self, rng: np.random.Generator) -> tuple[Game, str]:
        task = self.tasks[int(rng.integers(len(self.tasks)))]
        for _ in range(_DRAWS):
            game = draw_game(rng, task, self.receptacles, self.objects)
            if game is not None and solution(game, self.max_solution):
                return game, _content(game)
        raise UsageError(
            f"no game of {task} with {self.receptacles} receptacles and {self.objects} objects is solved in "
            f"{self.max_solution} turns: raise max_turns or max_solution, or lower receptacles"
        )

    def _recorded(self, seed: int) -> Game:
        split = "train" if split_of_seed(seed) == "train" else self.eval_games
        rng = np.random.default_rng(stream_seed("draw", self.name, seed))
        return draw_recorded(os.path.expandvars(self.data or ""), split, self.tasks, rng)

    def _held(self) -> str:
        """What is held, and of the states a thing can be in the one the task asks for or else any it has."""
        world = self.world
        if world.held < 0:
            return "none"
        states = [word for verb, word in _STATES.items() if world.held in world.states[verb]]
        wanted = _STATES.get(world.game.task.treatment or "")
        state = wanted if wanted in states else states[0] if states else "raw"
        return f"{self.labels.things[world.held]} {state}"

    def _place(self) -> list[str]:
        """The agent's place, and whether it is closed."""
        world = self.world
        words = []
        for place in world.here:
            words += [self.labels.places[place], *([] if world.visible(place) else ["closed"])]
        return words or ["none"]

    def _observation(self) -> str:
        if self.observation_style == "full":
            task = "" if self._turns == 0 else f"Your task is to: {self.world.game.sentence}.\n"
            commands = ", ".join(self.admissible_actions())
            return f"{self._feedback}\n\n{task}Commands that are possible now: {commands}"
        world, agent, labels, task = self.world, self.agent, self.labels, self.world.game.task
        words = [task.object, _GOALS[task.type], "to", task.target, "hold", self._held()]
        words += ["at", *self._place(), "here"]
        shown = [i for place in world.here if world.visible(place) for i in sorted(world.contents[place])]
        words += [labels.things[i] for i in shown] or ["none"]
        words.append("found")
        for thing, place in agent.useful(world):
            words += [labels.things[thing], labels.places[place]]
        words.append("new")
        words += [labels.places[place] for place in agent.order if place not in agent.seen]
        words.append("seen")
        words += [labels.places[place] for place in agent.order if place in agent.seen]
        return " ".join(words)

    def _info(self, admissible: bool) -> dict[str, Any]:
        seen = ",".join(map(str, sorted(self.agent.seen)))
        return {
            "success": self._won,
            "admissible": admissible,
            "admissible_actions": self.admissible_actions(),
            "anchor": f"{self.world.key}|{seen}",
        }


class _Labels:
    """Short names: a kind alone where a game has one of it, else kind and number."""

    def __init__(self, game: Game) -> None:
        self.things = self._of([(thing.kind, thing.name) for thing in game.things])
        self.places = self._of([(receptacle.kind, receptacle.name) for receptacle in game.receptacles])

    @staticmethod
    def _of(names: list[tuple[str, str]]) -> tuple[str, ...]:
        kinds = [kind for kind, _ in names]
        return tuple(kind if kinds.count(kind) == 1 else name for kind, name in names)


def _content(game: Game) -> str:
    """What decides a game's split: the task, the receptacles and which things lie together, whatever the other things
    are."""
    places = [
        f"{receptacle.name}: {sorted(content)}"
        for receptacle, content in zip(game.receptacles, game.start.contents, strict=True)
    ]
    return "\n".join([str(game.task), *places])

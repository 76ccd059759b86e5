"""Do both engines play alike? Walks on generated games, step by step.

    python -m arena.envs.alfworld.conformance --games 200

For every task type and game, one random walk, one of the expert, one of the expert with half of its commands random,
and what is no command between: both engines must give the same text, the same admissible commands (as a set: the
original sorts them, some twice under one text), the same reward and the same end. Exits with 1 at the first difference.
"""

from __future__ import annotations

import argparse
import random
import time
from dataclasses import dataclass

from arena.envs.alfworld.env import AlfWorld
from arena.envs.alfworld.expert import Agent
from arena.envs.alfworld.textworld_engine import TextworldEngine, engine_version, original_game
from arena.envs.alfworld.world import TASK_TYPES, Game, World

#: The share of random commands in each walk of a game.
WALKS = (0.0, 0.5, 1.0)
_WRONG = ("", "go to the moon", "take apple", "look ", "put apple 1 in/on fridge 1")


@dataclass
class DifferenceError(Exception):
    """Where the engines part."""

    commands: tuple[str, ...]
    what: str
    native: object
    original: object

    def __str__(self) -> str:
        return (
            f"after {self.commands}: {self.what} differs\nnative:   {self.native}\noriginal: {self.original}"
        )


def compare(game: Game, seed: int, steps: int, walks: tuple[float, ...] = WALKS) -> int:
    """Walk both engines through a game; the number of steps compared. Raises DifferenceError."""
    engine = TextworldEngine(original_game(game))
    compared = 0
    for number, noise in enumerate(walks):
        rng = random.Random(f"{seed} {number}")
        world, agent = World(game), Agent(game)
        done: list[str] = []
        _same(done, "the text", world.intro, engine.reset())
        while True:
            _same(done, "the commands", set(world.commands()), set(engine.commands))
            _same(done, "the end", world.won, engine.won)
            if world.won or len(done) == steps:
                break
            agent.look(world)
            if rng.random() < 0.05:
                command = rng.choice(_WRONG)
            elif rng.random() < noise:
                command = rng.choice(sorted(world.commands()))
            else:
                command = agent.intent(world).command
            done.append(command)
            # The original strips a command before it looks it up.
            _same(done, "the text", world.step(command.strip()), engine.step(command))
            compared += 1
    return compared


def _same(done: list[str], what: str, native: object, original: object) -> None:
    if native != original:
        if isinstance(native, set) and isinstance(original, set):
            native, original = native - original, original - native
        raise DifferenceError(tuple(done), what, native, original)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--games", type=int, default=200, help="games per task type")
    parser.add_argument("--steps", type=int, default=50, help="longest walk")
    parser.add_argument("--receptacles", type=int, default=12)
    parser.add_argument("--objects", type=int, default=12)
    parser.add_argument(
        "--data", default=None, help="a directory of ALFWorld's games instead of generated ones"
    )
    options = parser.parse_args()
    print(engine_version(), flush=True)
    for task in TASK_TYPES:
        env = AlfWorld(
            tasks=task, receptacles=options.receptacles, objects=options.objects, data=options.data
        )
        start, steps = time.perf_counter(), 0
        for seed in range(options.games):
            env.reset(seed=seed)
            steps += compare(env.world.game, seed, options.steps)
        seconds = time.perf_counter() - start
        print(f"{task}: {options.games} games, {steps} steps alike, {seconds:.0f} s", flush=True)


if __name__ == "__main__":
    main()

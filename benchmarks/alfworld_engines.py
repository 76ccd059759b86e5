"""Steps per second of ALFWorld's two engines on the same games and the same walks; both in one run, on one core.

    pip install ".[alfworld]"
    python benchmarks/alfworld_engines.py

A step is a command, its text, the admissible commands after it and whether the task is done. `environment` is the
whole of `arena.envs.alfworld.AlfWorld` on the native engine, with observation, anchor and expert's notes. Starting a
game is timed apart: the original loads and resets it, the native engine draws it, proves it solvable and resets it.
"""

from __future__ import annotations

import argparse
import os
import random
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")

from arena.envs.alfworld import AlfWorld
from arena.envs.alfworld.textworld_engine import TextworldEngine, engine_version, original_game
from arena.envs.alfworld.world import Game, World


def walk(game: Game, seed: int, steps: int) -> list[str]:
    """A random walk's commands; it ends where the task is done."""
    world, rng, commands = World(game), random.Random(seed), []
    while len(commands) < steps and not world.won:
        commands.append(rng.choice(sorted(world.commands())))
        world.step(commands[-1])
    return commands


def native(game: Game, commands: list[str]) -> None:
    world = World(game)
    for command in commands:
        world.step(command)
        world.commands()
        _ = world.won


def environment(env: AlfWorld, game: Game, commands: list[str]) -> None:
    env.reset(options={"game": game})
    for command in commands:
        env.step(command)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--games", type=int, default=12)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument(
        "--repeat", type=int, default=50, help="walks of the native engine, whose clock needs it"
    )
    options = parser.parse_args()
    env = AlfWorld()
    seconds = dict.fromkeys(("original", "native", "environment", "original start", "native start"), 0.0)
    steps = 0
    for seed in range(options.games):
        start = time.perf_counter()
        env.reset(seed=seed)
        seconds["native start"] += time.perf_counter() - start
        game = env.world.game
        commands = walk(game, seed, options.steps)
        steps += len(commands)
        start = time.perf_counter()
        engine = TextworldEngine(original_game(game))
        engine.reset()
        seconds["original start"] += time.perf_counter() - start
        start = time.perf_counter()
        for command in commands:
            engine.step(command)
        seconds["original"] += time.perf_counter() - start
        for name, run in (
            ("native", lambda: native(game, commands)),  # noqa: B023
            ("environment", lambda: environment(env, game, commands)),  # noqa: B023
        ):
            start = time.perf_counter()
            for _ in range(options.repeat):
                run()
            seconds[name] += (time.perf_counter() - start) / options.repeat
    print(f"{engine_version()}; {options.games} games, {steps} steps")
    for name in ("original", "native", "environment"):
        rate = steps / seconds[name]
        print(f"{name:<12} {rate:>10.0f} steps/s  {seconds['original'] / seconds[name]:>7.0f} x the original")
    for name in ("original", "native"):
        print(f"{name:<12} {1000 * seconds[f'{name} start'] / options.games:>10.1f} ms to start a game")


if __name__ == "__main__":
    main()

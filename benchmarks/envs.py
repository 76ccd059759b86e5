"""Steps per second of every environment on one core, beside the originals that are installed.

    python benchmarks/envs.py [--only sokoban,frozen_lake] [--tier cpu] [--seconds 1] [RUN]

Every registered environment as a tier plays it, walked by its expert and at random; only `reset` and `step` are timed,
not the choice of an action. A task is played by a group of eight, as in training: its first reset makes the task, the
others find it made. With a RUN, also which share of its training steps was spent in environments (parsing included).

Ratios are medians of three rounds in which ours and the peer's walks alternate. Peers return what is cheapest for them:
gym-sokoban its smallest picture, FrozenLake-v1 a number; ours return text, admissible actions and an anchor.
"""

from __future__ import annotations

import argparse
import importlib
import random
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from arena.envs import ENVS, make_env
from arena.errors import UsageError
from arena.recipe import EnvConfig, resolve

GROUP, ROUNDS = 8, 3


class Ours:
    """An environment of Arena's, by one of two walks."""

    def __init__(self, config: EnvConfig, walk: str) -> None:
        self.env, self.expert = make_env(config), walk == "expert"
        self.rng = random.Random(0)

    def reset(self, seed: int) -> None:
        self.env.reset(seed=seed)

    def choose(self) -> str:
        return self.env.expert_action() if self.expert else self.rng.choice(self.env.admissible_actions())

    def step(self, action: str) -> bool:
        _, _, terminated, truncated, _ = self.env.step(action)
        return terminated or truncated


class GymSokoban:
    """gym-sokoban, 6x6 with one box, at most `turns` turns; every reset makes a room."""

    def __init__(self, turns: int) -> None:
        envs = importlib.import_module("gym_sokoban.envs")
        self.env = envs.SokobanEnv(dim_room=(6, 6), max_steps=turns, num_boxes=1)

    def reset(self, seed: int) -> None:
        # Its rooms come from the global generators, whatever the seed.
        self.env.reset(render_mode="tiny_rgb_array")

    def choose(self) -> int:
        return random.randrange(1, 5)

    def step(self, action: int) -> bool:
        return self.env.step(action, observation_mode="tiny_rgb_array")[2]


class GymnasiumLake:
    """Gymnasium's FrozenLake-v1, 4x4 random maps, not slippery; a new map is a new environment."""

    def __init__(self, turns: int) -> None:
        self.module = importlib.import_module("gymnasium.envs.toy_text.frozen_lake")
        self.turns, self.map = turns, -1

    def reset(self, seed: int) -> None:
        if seed != self.map:
            desc = self.module.generate_random_map(4, 0.8, seed)
            self.env, self.map = self.module.FrozenLakeEnv(desc=desc, is_slippery=False), seed
        self.env.reset()
        self.left = self.turns

    def choose(self) -> int:
        return random.randrange(4)

    def step(self, action: int) -> bool:
        self.left -= 1
        return self.env.step(action)[2] or self.left == 0


class TextWorld:
    """A small game of TextWorld's own (three rooms, six objects), compiled once; its commands listed, at random."""

    def __init__(self, turns: int) -> None:
        textworld = importlib.import_module("textworld")
        options = textworld.GameOptions()
        options.seeds, options.nb_rooms, options.nb_objects = 1, 3, 6
        options.path = str(Path(tempfile.mkdtemp()) / "game.z8")
        path, _ = textworld.make(options)
        self.env = textworld.start(path, request_infos=textworld.EnvInfos(admissible_commands=True))
        self.turns = turns

    def reset(self, seed: int) -> None:
        self.state, self.left = self.env.reset(), self.turns

    def choose(self) -> str:
        return random.choice(self.state.admissible_commands)

    def step(self, action: str) -> bool:
        self.left -= 1
        self.state, _, done = self.env.step(action)
        return done or self.left == 0


def _real_alfworld(turns: int) -> Ours:
    config = resolve("cpu", "alfworld", "grpo", 0).env
    options = {**config.options, "engine": "textworld"}
    return Ours(config.model_copy(update={"options": options}), "random")


#: Environment -> (the original, how to make it for so many turns).
PEERS: dict[str, list[tuple[str, Callable[[int], Any]]]] = {
    "sokoban": [("gym-sokoban", GymSokoban)],
    "frozen_lake": [("gymnasium FrozenLake-v1", GymnasiumLake)],
    "alfworld": [
        ("alfworld with engine=textworld", _real_alfworld),
        ("TextWorld, a game of its own", TextWorld),
    ],
}


@dataclass
class Speed:
    """What a walk took."""

    steps: int = 0
    in_steps: float = 0.0
    tasks: int = 0
    in_tasks: float = 0.0
    resets: int = 0
    in_resets: float = 0.0

    @property
    def rate(self) -> float:
        """Steps per second, resets apart."""
        return self.steps / self.in_steps

    @property
    def whole(self) -> float:
        """Steps per second, resets included."""
        return self.steps / (self.in_steps + self.in_tasks + self.in_resets)


def walk(subject: Any, seconds: float) -> Speed:
    """Groups of episodes until the time is over, one group at least. What is made once in a process is made before."""
    subject.reset(1_000_000)
    speed, clock, end = Speed(), time.perf_counter, time.perf_counter() + seconds
    while speed.tasks == 0 or clock() < end:
        for episode in range(GROUP):
            start = clock()
            subject.reset(speed.tasks)
            took = clock() - start
            if episode == 0:
                speed.in_tasks += took
            else:
                speed.resets, speed.in_resets = speed.resets + 1, speed.in_resets + took
            done = False
            while not done:
                action = subject.choose()
                start = clock()
                done = subject.step(action)
                speed.in_steps += clock() - start
                speed.steps += 1
        speed.tasks += 1
    return speed


def line(name: str, walker: str, speed: Speed) -> str:
    """A row of the table."""
    return (
        f"{name:32} {walker:7} {speed.rate:>10,.0f} {speed.whole:>14,.0f} {speed.in_tasks / speed.tasks * 1e3:>11.3f} "
        f"{speed.in_resets / speed.resets * 1e3:>12.3f}"
    )


def compare(name: str, config: EnvConfig, seconds: float) -> Iterator[str]:
    """Rows of an environment's peers, each with the ratio ours to theirs, or why there is none."""
    for peer, make in PEERS.get(name, []):
        try:
            theirs = make(config.max_turns)
        except (ImportError, UsageError) as error:
            yield f"{peer}: left out, {str(error).splitlines()[0]}"
            continue
        pairs = [(walk(Ours(config, "random"), seconds), walk(theirs, seconds)) for _ in range(ROUNDS)]
        yield line(peer, "random", pairs[-1][1])
        alone = statistics.median(ours.rate / other.rate for ours, other in pairs)
        whole = statistics.median(ours.whole / other.whole for ours, other in pairs)
        yield f"  {name} / {peer}: {alone:.1f} times the steps per second, {whole:.1f} times with resets"


def shares(run: Path) -> Iterator[str]:
    """The share of environment time in the training steps of a run's cells."""
    import pyarrow.parquet as pq

    for path in sorted(run.glob("cells/*/*/seed-*/steps.parquet")):
        steps = pq.read_table(path, columns=["seconds_env", "seconds_step"]).to_pandas()
        env, algo, seed = path.parts[-4:-1]
        share = steps.seconds_env.sum() / steps.seconds_step.sum()
        note = "" if share < 0.1 else "  ABOVE 10 %"
        yield f"{env} {algo} {seed}: {share:.1%} of {steps.seconds_step.mean():.2f} s a step{note}"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "run", nargs="?", type=Path, help="folder of a run, for the share of environment time"
    )
    parser.add_argument("--only", default="", help="comma list of environments")
    parser.add_argument("--tier", default="cpu")
    parser.add_argument("--seconds", type=float, default=1.0, help="per walk")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    print(f"{'':32} {'walk':7} {'steps/s':>10} {'with resets':>14} {'new task ms':>11} {'same task ms':>12}")
    for name in given.only.split(",") if given.only else ENVS:
        config = resolve(given.tier, name, "grpo", 0).env
        for walker in ("expert", "random"):
            print(line(name, walker, walk(Ours(config, walker), given.seconds)), flush=True)
        for row in compare(name, config, given.seconds):
            print(row, flush=True)
    if given.run:
        print("\nShare of environments in training steps")
        print("\n".join(shares(given.run)))


if __name__ == "__main__":
    main()

"""Programs, answers and environment steps per second of TIR Math, one process, one thread.

    python benchmarks/tir_math.py

Every program is another one, so that nothing is remembered: what is measured is a fresh sandbox for each. The
environment's steps are the expert's with a third of its actions random, eight episodes per problem, as in training.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from arena.envs.tir_math import TirMath
from arena.envs.tir_math.grading import is_correct
from arena.envs.tir_math.sandbox import Execution, Limits, bwrap_refusal, run_in_bwrap, run_in_monty


def rate(what: Callable[[int], object], count: int) -> float:
    """Calls per second, after one to warm up."""
    what(-1)
    start = time.perf_counter()
    for number in range(count):
        what(number)
    return count / (time.perf_counter() - start)


def in_monty(number: int) -> None:
    program = f"total = 0\nfor i in range(10):\n    total += i * {number}\nprint(total)"
    assert run_in_monty(program, Limits()) == Execution(str(45 * number))


def in_bwrap(number: int) -> None:
    assert run_in_bwrap(f"print({number} * 2)", Limits(seconds=20)) == Execution(str(2 * number))


def episode_steps(problems: int) -> float:
    """Steps per second, resets included."""
    env, rng = TirMath(max_turns=5), np.random.default_rng(0)
    steps, start = 0, time.perf_counter()
    for seed in range(problems):
        for _ in range(8):
            env.reset(seed=seed)
            ended = False
            while not ended:
                choices = env.admissible_actions()
                action = choices[rng.integers(len(choices))] if rng.random() < 1 / 3 else env.expert_action()
                _, _, terminated, truncated, _ = env.step(action)
                steps, ended = steps + 1, terminated or truncated
    return steps / (time.perf_counter() - start)


def main() -> None:
    print(f"programs in monty: {rate(in_monty, 3000):,.0f} per second")
    if reason := bwrap_refusal():
        print(f"programs in bwrap: none, {reason}")
    else:
        print(f"programs in bwrap: {rate(in_bwrap, 20):,.1f} per second")
    print(f"answers, whole numbers: {rate(lambda n: is_correct(str(n), '160'), 20_000):,.0f} per second")
    print(f"answers, math-verify: {rate(lambda n: is_correct(f'{n}.5', '1/7'), 300):,.0f} per second")
    print(f"environment steps: {episode_steps(300):,.0f} per second")


if __name__ == "__main__":
    main()

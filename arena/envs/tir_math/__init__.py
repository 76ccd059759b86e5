"""Tool-integrated mathematics: the environment, its problems, the sandbox and the grader."""

from arena.envs.tir_math.env import TirMath

__all__ = ["TirMath"]

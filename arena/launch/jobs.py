"""What the launcher and its workers say to each other: a job one way, progress and its end the other way."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from arena.recipe import Recipe
from arena.records.layout import START, place
from arena.training import Phase


@dataclass(frozen=True)
class Job:
    """A behaviour-cloned start, or a cell that begins from one, of the run folder `run`."""

    kind: Literal["start", "cell"]
    recipe: Recipe
    run: Path

    @property
    def env(self) -> str:
        """The environment's name."""
        return self.recipe.env.name

    @property
    def algorithm(self) -> str:
        """The algorithm spec; "bc" for a start."""
        return START if self.kind == "start" else self.recipe.algorithm

    @property
    def seed(self) -> int:
        """The cell's seed."""
        return self.recipe.seed

    @property
    def hash(self) -> str:
        """What `status.json` carries when this very job made the folder."""
        return self.recipe.start_hash if self.kind == "start" else self.recipe.hash

    @property
    def steps(self) -> int:
        """Optimiser steps of a start, training steps of a cell."""
        return self.recipe.bc.steps if self.kind == "start" else self.recipe.steps

    @property
    def relative(self) -> Path:
        """The job's folder within its run."""
        return place(self.env, self.algorithm, self.seed)

    @property
    def directory(self) -> Path:
        """The job's folder."""
        return self.run / self.relative

    @property
    def needs(self) -> Path | None:
        """The folder of the start that a cell begins from; None for a start."""
        return None if self.kind == "start" else self.run / place(self.env, START, self.seed)

    @property
    def label(self) -> str:
        """For people: environment, algorithm and seed."""
        return f"{self.env}/{self.algorithm}/seed-{self.seed}"


@dataclass(frozen=True)
class Progress:
    """How far a job is: what `arena.training.Report` is called with."""

    step: int
    steps: int
    success: float | None
    phase: Phase = "steps"


@dataclass(frozen=True)
class Done:
    """The job returned."""


@dataclass(frozen=True)
class Failed:
    """The job raised: one line for tables, the traceback for `error.log`."""

    reason: str
    traceback: str


Message = Progress | Done | Failed

"""A stress test: the tier's recipe, and the same with a higher learning rate and more updates per rollout.

The run folder is that of the tier itself, factors 1 and 1; every other point of the grid is an ordinary run in its
folder `stress/`, begun from the same starts. The updates are raised by `optim.epochs`, not by `optim.minibatches`: the
rollouts and the episodes behind each update stay the same, so a point differs from its neighbour in how far the policy
has moved from the one that sampled, and not in the noise of its gradients. What the cells mean for a method's margin,
and which need not be run: `arena.analysis.margin`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from arena.errors import UsageError
from arena.launch import folder, series
from arena.launch.jobs import Job
from arena.launch.local import LaunchResult, Setup
from arena.launch.manifest import about
from arena.launch.plan import Options, Plan, build, only, run_name, variant
from arena.recipe import Recipe
from arena.records.files import write_json

if TYPE_CHECKING:
    from arena.analysis.margin import Point, StressGrid

LEARNING_RATES = "1,2,4,8"
UPDATES = "1,2,4"


@dataclass(frozen=True)
class Stress:
    """A stress test. `plans` are the runs of the grid's points, in the order they are run; the first is the tier's."""

    options: Options
    grid: StressGrid
    plans: tuple[Plan, ...]

    @property
    def folder(self) -> Path:
        """The run folder that holds all."""
        return self.grid.folder


def build_stress(options: Options, learning_rates: str, updates: str) -> Stress:
    """The stress test of `options`. Raises UsageError for anything unknown or impossible. Writes nothing."""
    from arena.analysis.margin import StressGrid

    rates, counts = parse_learning_rates(learning_rates), parse_updates(updates)
    base = build(replace(options, name=run_name(options.name, f"stress-{Path(options.tier).name}")))
    folder.check_folder(base.run, fresh=False)
    points = [_point(rate, count) for rate, count in product(rates, counts)]
    points.sort(key=lambda point: point.run != ".")  # the tier's cells first: they make the folder a run
    plans = tuple(variant(base, base.run / point.run, _change(point)) for point in points)
    series.check_recipes(plans, "stress test")
    cells = base.cells
    return Stress(
        options,
        StressGrid(
            base.run,
            tuple(dict.fromkeys(cell.env for cell in cells)),
            tuple(dict.fromkeys(cell.algorithm for cell in cells)),
            tuple(dict.fromkeys(cell.seed for cell in cells)),
            tuple(points),
        ),
        plans,
    )


def parse_learning_rates(text: str) -> list[float]:
    """`1,2,4` as factors, rising. Raises UsageError unless they are positive, differ and hold 1."""
    return _factors("--learning-rates", text, r"[0-9]*\.?[0-9]+(e[+-]?[0-9]+)?", "positive numbers")


def parse_updates(text: str) -> list[int]:
    """`1,2` as factors, rising. Raises UsageError unless they are whole, from 1, differ and hold 1."""
    return [int(factor) for factor in _factors("--updates", text, r"[0-9]+", "whole numbers from 1")]


def _factors(option: str, text: str, form: str, allowed: str) -> list[float]:
    texts = [part.strip() for part in text.split(",")]
    found = sorted(float(t) for t in texts if re.fullmatch(form, t))
    if len(found) < len(texts) or not all(0 < f < math.inf for f in found):
        raise UsageError(f"{option} takes a comma list of factors, {allowed}, e.g. 1,2,4; given '{text}'.")
    if len(set(found)) < len(found):
        raise UsageError(f"{option}: a factor is given twice; given '{text}'.")
    if 1 not in found:
        raise UsageError(
            f"{option} has to hold 1, the tier itself, which a margin is measured from; given '{text}'."
        )
    return found


def _point(learning_rate: float, updates: int) -> Point:
    from arena.analysis.margin import Point

    tier = learning_rate == updates == 1
    return Point(learning_rate, updates, "." if tier else f"stress/lr-{learning_rate:g}-updates-{updates}")


def _change(point: Point) -> Callable[[Recipe], Recipe]:
    def change(recipe: Recipe) -> Recipe:
        optim = recipe.optim
        raised = {
            "learning_rate": optim.learning_rate * point.learning_rate,
            "epochs": optim.epochs * point.updates,
        }
        return recipe.model_copy(update={"optim": optim.model_copy(update=raised)})

    return change


def without_beyond(stress: Stress, plans: Sequence[Plan]) -> list[Plan]:
    """The plans without the cells that need not be run, as a lower learning rate of theirs has failed."""
    from arena.analysis.margin import endings, is_beyond

    found = endings(stress.grid)

    def needed(point: Point, job: Job) -> bool:
        key = (job.env, job.algorithm, job.seed, point.learning_rate, point.updates)
        return key in found or not is_beyond(stress.grid, found, key)

    pairs = zip(stress.grid.points, plans, strict=True)
    return [only(plan, lambda job, point=point: needed(point, job)) for point, plan in pairs]


def run(stress: Stress, setup: Setup, announce: Callable[[int, float], None]) -> LaunchResult:
    """Run the points one after the other (`series.run`), leaving out what need not be run, and keep `stress.json`."""
    with folder.locked(stress.folder) as lock:  # between its points, too, and against `arena run --fresh`
        return series.run(
            stress.plans,
            replace(setup, lock=lock),
            announce,
            save=lambda: write_results(stress, setup.command),
            narrow=lambda plans: without_beyond(stress, plans),
        )


def write_results(stress: Stress, command: str) -> None:
    """Write `stress.json`: what is trained, by which command, and the map and margin of each method so far."""
    from arena.analysis.margin import grid_file

    write_json(grid_file(stress.folder), result_json(stress, command))


def result_json(stress: Stress, command: str) -> dict[str, Any]:
    """The content of `stress.json`."""
    from arena.analysis.margin import grid_json

    options = stress.options
    launch = {"tier": options.tier, "set": list(options.overrides)}
    return grid_json(stress.grid, about(stress.folder.name, command) | launch)

"""How long a cell takes and how much disk it needs, before it is run.

A linear model in the tokens that a recipe makes the model read, write and learn from. Where the runs folder
has cells of the same tier and environment, what they took corrects the model: the ratio of measured to
modelled is one factor for seconds and one for bytes.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path

from arena.launch.folder import read_recipe, steps_done
from arena.launch.jobs import Job
from arena.recipe import Recipe
from arena.records.layout import place

# Seconds per token (prompt and response) of one thread, model of the cpu tier, with a cell on every core: alone a cell
# takes about 0.9 of it. In proportion to the phases of GRPO's cells, and so large that the cells of `make demo` come to
# what they took in all (benchmarks/README.md); an environment may take half as long or half as long again.
_ROLLOUT = 1.45e-5
_SCORING = 1.25e-5
_UPDATE = 1.8e-5
#: Size of that model in weights outside the embedding; half of a token's cost does not depend on size.
_REFERENCE_WEIGHTS = 82_000
#: Seconds that a job needs whatever its recipe: tokenizer, model, files, first batches.
_SECONDS_FIXED = 2.0
#: Seconds per expert episode of a BC start: 0.5e-3 (Sokoban) to 3e-3 (ALFWorld).
_EXPERT_EPISODE = 1.2e-3

#: Rounds that a dynamic filter samples on average: mean of `generation_batches` of SAMPO's cells in reports/demo.
_FILTER_ROUNDS = 2.4

# What an episode looks like where nothing is measured.
_TURNS_SHARE = 0.6
_PROMPT_TOKENS = 20
_RESPONSE_TOKENS = 32

# Bytes in compressed records, measured in the same runs.
_TOKEN_ROW = 14
_TURN_ROW = 60
_STEP_ROW = 400
_STEP_FILES = 30_000
#: The weights of the cell's model, and in its checkpoint the weights and two moments, 4 bytes each.
_CHECKPOINT_BYTES_PER_WEIGHT = 16

#: More earlier cells than this say nothing new.
_HISTORY_CELLS = 24
#: Shorter ones say little.
_HISTORY_STEPS = 3


@dataclass(frozen=True)
class Cost:
    """Seconds on one worker, bytes on disk, and where the numbers come from."""

    seconds: float
    bytes: float
    source: str


@dataclass(frozen=True)
class Correction:
    """Measured over modelled, from `cells` earlier cells; 1 where there are none."""

    seconds: float = 1.0
    bytes: float = 1.0
    cells: int = 0

    @property
    def source(self) -> str:
        """For people: what the estimate rests on."""
        return "earlier cells" if self.cells else "built-in constants"


def of(job: Job) -> Cost:
    """The estimate of a whole job, corrected by what the runs folder has measured."""
    seconds, size = (_start if job.kind == "start" else _cell)(job.recipe)
    measured = correction(job.run.parent, job.recipe.tier, job.env, job.algorithm, job.recipe.rollout.layout)
    return Cost(seconds * measured.seconds, size * measured.bytes, measured.source)


def tasks(jobs: Sequence[Job], fresh: bool = False) -> list[Task]:
    """The jobs with the seconds that they still need."""
    return [Task(job.directory, seconds_left(job, fresh), job.needs) for job in jobs]


def seconds_left(job: Job, fresh: bool = False) -> float:
    """Seconds that a job still needs on one worker; with `fresh` it does all again."""
    done = 0 if fresh else steps_done(job)
    return of(job).seconds * (1 - done / job.steps)


def _cell(recipe: Recipe) -> tuple[float, float]:
    evaluations = 2 + recipe.steps // recipe.eval.every
    seconds = (
        _SECONDS_FIXED + recipe.steps * _step_seconds(recipe) + evaluations * _evaluation_seconds(recipe)
    )
    return seconds, recipe.steps * _step_bytes(recipe) + _weights(recipe) * _CHECKPOINT_BYTES_PER_WEIGHT


def _start(recipe: Recipe) -> tuple[float, float]:
    turns_per_row = _turns(recipe) if recipe.rollout.layout == "trajectory" else 1
    tokens = recipe.bc.steps * recipe.bc.batch_size * turns_per_row * (_PROMPT_TOKENS + _RESPONSE_TOKENS)
    learning = tokens * _UPDATE * _size(recipe) + recipe.bc.episodes * _EXPERT_EPISODE
    turns = recipe.bc.episodes * _turns(recipe)
    return _SECONDS_FIXED + learning, turns * _TURN_ROW + _weights(recipe) * _CHECKPOINT_BYTES_PER_WEIGHT


def _step_seconds(recipe: Recipe) -> float:
    from arena.algorithms.catalog import algorithm_of

    algorithm = algorithm_of(recipe)
    models = 2 if getattr(algorithm.value, "kind", "") == "critic" else 1
    rollout = _ROLLOUT * _reading(recipe) * (_FILTER_ROUNDS if algorithm.filter else 1)
    rate = rollout + (_SCORING + _UPDATE * recipe.optim.epochs) * models
    return _episodes(recipe) * _turns(recipe) * _tokens(recipe) * rate * _size(recipe)


def _reading(recipe: Recipe) -> float:
    """How often a token is read while an episode is sampled: in a trajectory, again at every later turn."""
    return (1 + _turns(recipe)) / 2 if recipe.rollout.layout == "trajectory" else 1.0


def _evaluation_seconds(recipe: Recipe) -> float:
    """Two temperatures on every held-out task."""
    return (
        2
        * recipe.eval.episodes
        * _turns(recipe)
        * _tokens(recipe)
        * _ROLLOUT
        * _reading(recipe)
        * _size(recipe)
    )


def _step_bytes(recipe: Recipe) -> float:
    if not recipe.record.enabled:
        return _STEP_ROW
    turns = _episodes(recipe) * _turns(recipe)
    tokens = turns * _response(recipe) * recipe.optim.epochs * recipe.record.token_fraction
    return _STEP_ROW + _STEP_FILES + turns * _TURN_ROW + tokens * _TOKEN_ROW


def _episodes(recipe: Recipe) -> int:
    return recipe.rollout.episodes


def _turns(recipe: Recipe) -> float:
    return max(1.0, _TURNS_SHARE * recipe.env.max_turns)


def _response(recipe: Recipe) -> float:
    return min(_RESPONSE_TOKENS, recipe.rollout.max_response_tokens)


def _tokens(recipe: Recipe) -> float:
    return _PROMPT_TOKENS * (1 + recipe.env.history) + _response(recipe)


def _weights(recipe: Recipe) -> int:
    model = recipe.model
    attention = 2 * model.hidden_size**2 * (1 + model.num_kv_heads / model.num_heads)
    return int(model.num_layers * (attention + 3 * model.hidden_size * model.intermediate_size))


def _size(recipe: Recipe) -> float:
    return 0.5 + 0.5 * _weights(recipe) / _REFERENCE_WEIGHTS


@lru_cache
def correction(runs: Path, tier: str, env: str, algorithm: str, layout: str = "turn") -> Correction:
    """What earlier cells of this tier, environment and layout say about the model, those of the newest runs first.

    Cells of the same algorithm, if there are any; else those of all algorithms.
    """
    found = list(islice(_measured_cells(runs, tier, env, layout), _HISTORY_CELLS))
    ratios = [ratio for name, ratio in found if name == algorithm] or [ratio for _, ratio in found]
    if not ratios:
        return Correction()
    seconds, sizes = zip(*ratios, strict=True)
    return Correction(sum(seconds) / len(ratios), sum(sizes) / len(ratios), len(ratios))


def _measured_cells(
    runs: Path, tier: str, env: str, layout: str
) -> Iterator[tuple[str, tuple[float, float]]]:
    """(algorithm, ratios) of the cells that say something, newest runs first."""
    manifests = sorted(runs.glob("*/manifest.json"), key=lambda p: p.stat().st_mtime, reverse=True)
    for manifest in manifests:
        for cell in sorted((manifest.parent / place(env, "x", 0)).parents[1].glob("*/seed-*")):
            ratios = _ratios(cell, tier, layout)
            if ratios:
                yield read_recipe(cell)["algorithm"], ratios


def _ratios(cell: Path, tier: str, layout: str) -> tuple[float, float] | None:
    """(seconds measured / modelled, bytes measured / modelled) of a cell, None if it is of no use here."""
    fields = read_recipe(cell)
    steps_file = cell / "steps.parquet"
    if fields.get("tier") != tier or not steps_file.exists():
        return None
    import pyarrow.parquet as pq

    try:
        recipe = Recipe.model_validate(fields)
        seconds = pq.read_table(steps_file, columns=["seconds_step"])["seconds_step"].to_pylist()
    except (ValueError, OSError, KeyError):  # of another version, or being written
        return None
    if len(seconds) < _HISTORY_STEPS or None in seconds or recipe.rollout.layout != layout:
        return None
    modelled_seconds, modelled_bytes = _cell(recipe.model_copy(update={"steps": len(seconds)}))
    return sum(seconds) / modelled_seconds, disk_usage(cell) / modelled_bytes


def disk_usage(folder: Path) -> int:
    """Bytes of all files under `folder`."""
    return sum(p.stat().st_size for p in folder.rglob("*") if p.is_file())


@dataclass(frozen=True)
class Task:
    """What `makespan` knows of a job: its folder, its seconds, the folder that must be finished before."""

    key: Path
    seconds: float
    needs: Path | None = None


def makespan(tasks: Sequence[Task], free_at: Sequence[float]) -> float:
    """Seconds until the last task ends, when each free worker takes the first task that is ready.

    `free_at` are the seconds until each worker is free. A need that is not among the tasks is met.
    """
    workers = list(free_at)
    heapq.heapify(workers)
    keys = {task.key for task in tasks}
    ends: dict[Path, float] = {}
    waiting = list(tasks)
    while waiting:
        now = heapq.heappop(workers)
        ready = {t.key: 0.0 if t.needs not in keys else ends.get(t.needs, math.inf) for t in waiting}
        place = next((i for i, t in enumerate(waiting) if ready[t.key] <= now), None)
        if place is None:  # this worker sleeps until the next need is met
            heapq.heappush(workers, min(ready.values()))
            continue
        task = waiting.pop(place)
        ends[task.key] = now + task.seconds
        heapq.heappush(workers, ends[task.key])
    return max(workers, default=0.0)

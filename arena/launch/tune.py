"""Tuning, the fair way: the same grid of recipe fields for every method, on seeds of its own, each scored alike.

A trial is a point of the grid, and an ordinary run, `trial-<k>` in the tune's folder; trials share their starts. How
a trial is scored and which is chosen: `arena.analysis.tuning`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from arena.errors import UsageError
from arena.launch import folder, series
from arena.launch.local import LaunchResult, Setup
from arena.launch.manifest import about
from arena.launch.overview import finished
from arena.launch.plan import Options, Plan, build, check_given, check_runs_folder, run_name
from arena.recipe import (
    base_of,
    look_up,
    merge,
    method_sections,
    parse_overrides,
    read_tier,
    tier_names,
    toml_key,
    toml_value,
)
from arena.records.files import write_json, write_text

if TYPE_CHECKING:
    from arena.analysis.tuning import Score

SCHEMA_VERSION = 1

#: Apart from the seeds that people report, which begin at 0.
FIRST_SEED = 1000
SEEDS = 2

#: What is tuned by default, and by which factors of the tier's value.
DEFAULT_FIELD = "optim.learning_rate"
DEFAULT_FACTORS = (0.5, 1, 2)

#: Field -> values, as texts of the command line.
Grid = Mapping[str, Sequence[str]]


@dataclass(frozen=True)
class Trial:
    """A point of the grid: a text for every field that the grid has, and the run that tries it."""

    settings: Mapping[str, str]
    plan: Plan

    @property
    def label(self) -> str:
        """For people."""
        return " ".join(pairs(self.settings))


@dataclass(frozen=True)
class Tune:
    """The trials in the order they are run. `base` is the plan without the grid's settings; it is never run."""

    folder: Path
    options: Options
    grid: Grid
    base: Plan
    trials: tuple[Trial, ...]

    @property
    def plans(self) -> list[Plan]:
        """The trials' runs."""
        return [trial.plan for trial in self.trials]


@dataclass(frozen=True)
class Result:
    """A method in an environment: the score of each trial, None where not all seeds are finished, and the trial chosen,
    None before every trial has a score."""

    env: str
    algorithm: str
    scores: tuple[Score | None, ...]
    chosen: int | None


def pairs(settings: Mapping[str, str]) -> list[str]:
    """Settings as `--set` takes them."""
    return [f"{field}={text}" for field, text in settings.items()]


def seeds(given: str | None, count: int | None) -> str:
    """The comma list of seeds to tune on: as given, or `count` seeds from `FIRST_SEED`."""
    if given is not None and count is not None:
        raise UsageError("--num-seeds and --seeds exclude each other; give one of them.")
    if given is not None:
        return given
    return ",".join(str(FIRST_SEED + k) for k in range(SEEDS if count is None else count))


def parse_grid(texts: Sequence[str]) -> dict[str, list[str]]:
    """`["kl.coef=0,0.01"]` as fields with their values, texts. Raises UsageError, naming what is wrong."""
    grid: dict[str, list[str]] = {}
    for text in texts:
        field, separator, values = text.partition("=")
        found = [value.strip() for value in values.split(",")]
        if not separator or not field or not all(found):
            raise UsageError(
                f"--grid takes field=value,value,..., e.g. --grid kl.coef=0,0.01; given '{text}'."
            )
        if ":" in field:
            raise UsageError(
                f"--grid {field}: it takes recipe fields, so that every method gets the same trials; a parameter of a "
                "method's part is one as parts.<kind>.<parameter>, that of one method belongs into its spec (--algos)."
            )
        if field in grid:
            raise UsageError(f"--grid {field}: it was already given; give all its values at once.")
        read = [parse_overrides([f"{field}={value}"]) for value in found]
        if any(value in read[:k] for k, value in enumerate(read)):
            raise UsageError(f"--grid {field}: a value is given twice; given '{values}'.")
        check_given(read[0], "--grid")
        grid[field] = found
    return grid


def default_grid(base: Plan) -> dict[str, list[str]]:
    """Half the learning rate that the cells have, the rate itself and twice it."""
    rates = sorted({cell.recipe.optim.learning_rate for cell in base.cells})
    if len(rates) > 1:
        raise UsageError(
            f"--grid: the tier has several values of {DEFAULT_FIELD} here ({', '.join(map(repr, rates))}), so there is "
            "no grid by default; tune one environment at a time, or give --grid."
        )
    return {DEFAULT_FIELD: [repr(factor * rates[0]) for factor in DEFAULT_FACTORS]}


def points(grid: Grid) -> list[dict[str, str]]:
    """The product of the grid's values, the last field's changing fastest."""
    return [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]


def build_tune(options: Options, grid_texts: Sequence[str]) -> Tune:
    """The tune of `options`, whose name is the tune's. Raises UsageError for anything unknown or impossible.

    Writes nothing.
    """
    check_runs_folder(options.runs)
    here = options.runs / run_name(options.name, f"tune-{Path(options.tier).name}")
    _check_folder(here)
    grid = parse_grid(grid_texts)
    base = build(replace(options, name="base", runs=here))
    _check_bases(base)
    grid = grid or default_grid(base)
    _check_not_set(grid, options.overrides)
    settings = points(grid)
    trials = tuple(
        Trial(
            point,
            build(
                replace(
                    options,
                    name=f"trial-{number}",
                    runs=here,
                    overrides=(*options.overrides, *pairs(point)),
                )
            ),
        )
        for number, point in enumerate(settings)
    )
    _check_starts(grid, trials[0].plan)
    _check_same_trials(here, settings)
    for trial in trials:
        folder.check_folder(trial.plan.run, fresh=False)
    series.check_recipes([trial.plan for trial in trials], "tune")
    return Tune(here, options, grid, base, trials)


def _check_folder(here: Path) -> None:
    """Raise UsageError if `here` is something else than a tune."""
    foreign = here.exists() and (
        not here.is_dir()
        or (not _tune_file(here).is_file() and any(p.name != folder.LOCK for p in here.iterdir()))
    )
    if foreign:
        raise UsageError(
            f"--name: {here} exists and is not a tune (it has no {_tune_file(here).name}). Choose another --name."
        )


def _check_bases(base: Plan) -> None:
    """Raise UsageError for two specs of one method: a tier has one section for both."""
    specs: dict[str, str] = {}
    for spec in dict.fromkeys(cell.algorithm for cell in base.cells):
        other = specs.setdefault(base_of(spec), spec)
        if other != spec:
            raise UsageError(
                f"--algos: '{other}' and '{spec}' are both '{base_of(spec)}' in a tier's section; tune them one by "
                "one, each with a --name of its own."
            )


def _check_not_set(grid: Grid, overrides: Sequence[str]) -> None:
    for field in grid:
        if any(pair.partition("=")[0] == field for pair in overrides):
            raise UsageError(f"--set {field}: the grid has it; give its values with --grid {field}=...")


def _check_starts(grid: Grid, trial: Plan) -> None:
    """Raise UsageError for a field that the start depends on: every method shares the start, whatever is chosen."""
    for field in grid:
        if any(look_up(start.recipe.start_fields(), field) is not None for start in trial.starts):
            raise UsageError(
                f"--grid {field}: the start that all methods share depends on it, so it cannot be chosen for each of "
                "them; compare runs (--set)."
            )


def _check_same_trials(here: Path, settings: Sequence[Mapping[str, str]]) -> None:
    """Raise UsageError if the tune on disk has other trials than those; more of them may follow."""
    if not _tune_file(here).is_file():
        return
    try:
        old = [trial["settings"] for trial in json.loads(_tune_file(here).read_text())["trials"]]
    except (ValueError, TypeError, KeyError) as error:
        raise UsageError(f"{_tune_file(here)} cannot be read ({error!r}). Choose another --name.") from None
    new = [_values(point) for point in settings]
    shared = min(len(old), len(new))
    if old[:shared] != new[:shared]:
        raise UsageError(
            f"--grid: tune '{here.name}' was made with other trials: {json.dumps(old)} there, {json.dumps(new)} now. "
            "Choose another --name, or give the grid that it was made with."
        )


def run(tune: Tune, setup: Setup, announce: Callable[[int, float], None]) -> LaunchResult:
    """Run the trials one after the other (`series.run`), keeping `tune.json` and `tier.toml`."""
    with folder.locked(tune.folder):
        write_results(tune, setup.command)
        return series.run(tune.plans, setup, announce, lambda: write_results(tune, setup.command))


def results(tune: Tune) -> list[Result]:
    """One result per environment and method, from what is on disk."""
    from arena.analysis.tuning import change, choose

    scores = [_scores(trial) for trial in tune.trials]
    found = []
    for env, algorithm in _methods(tune):
        ours = tuple(of_trial.get((env, algorithm)) for of_trial in scores)
        complete = [score for score in ours if score]
        changes = [
            change(_recipe_values(trial.plan, env, algorithm, tune.grid), _tier_values(tune, env, algorithm))
            for trial in tune.trials
        ]
        chosen = choose(complete, changes) if len(complete) == len(ours) else None
        found.append(Result(env, algorithm, ours, chosen))
    return found


def _methods(tune: Tune) -> list[tuple[str, str]]:
    """Environments and methods: all of the first environment, then of the next."""
    cells = tune.base.cells
    envs, algorithms = (dict.fromkeys(getattr(c, what) for c in cells) for what in ("env", "algorithm"))
    return list(product(envs, algorithms))


def _scores(trial: Trial) -> dict[tuple[str, str], Score]:
    """The scores of the methods whose seeds are all finished, by environment and method."""
    from arena.analysis.success import success_by_eval
    from arena.analysis.tuning import late_score
    from arena.records.reader import load_evals

    if not folder.is_run(trial.plan.run):
        return {}
    done = [(job, cell) for job, cell in finished(trial.plan)]
    scores = {}
    for key in {(job.env, job.algorithm) for job, _ in done}:
        ours = [(job, cell) for job, cell in done if (job.env, job.algorithm) == key]
        planned = [cell for cell in trial.plan.cells if (cell.env, cell.algorithm) == key]
        evaluations = success_by_eval(load_evals([cell for _, cell in ours]))
        score = late_score(evaluations, ours[0][0].recipe.eval.temperature)
        if score and len(ours) == len(planned):
            scores[key] = score
    return scores


def _recipe_values(plan: Plan, env: str, algorithm: str, fields: Grid) -> dict[str, Any]:
    """The fields' values in the recipe of a method in an environment; None where a part's default holds."""
    recipe = next(c.recipe for c in plan.cells if (c.env, c.algorithm) == (env, algorithm))
    return {field: look_up(recipe.model_dump(mode="json"), field) for field in fields}


def _tier_values(tune: Tune, env: str, algorithm: str) -> dict[str, Any]:
    return _recipe_values(tune.base, env, algorithm, tune.grid)


def _values(settings: Mapping[str, str]) -> dict[str, Any]:
    """Settings with their values read as `--set` reads them."""
    return {field: parse_overrides([f"v={text}"])["v"] for field, text in settings.items()}


def _tune_file(here: Path) -> Path:
    return here / "tune.json"


def tier_file(tune: Tune) -> Path:
    """The tier that the tune writes."""
    return tune.folder / "tier.toml"


def write_results(tune: Tune, command: str) -> None:
    """Write `tune.json`, and `tier.toml` once every method has its settings; before that there is none."""
    found = results(tune)
    write_json(_tune_file(tune.folder), _as_json(tune, found, command))
    if all(result.chosen is not None for result in found):
        write_text(tier_file(tune), _tier_text(tune, found, command))
    else:
        tier_file(tune).unlink(missing_ok=True)


def _as_json(tune: Tune, found: Sequence[Result], command: str) -> dict[str, Any]:
    return {
        "schema_version": SCHEMA_VERSION,
        **about(tune.folder.name, command),
        "tier": tune.options.tier,
        "set": list(tune.options.overrides),
        "seeds": sorted({cell.seed for cell in tune.base.cells}),
        "trials": [
            {
                "run": trial.plan.name,
                "settings": _values(trial.settings),
                "scores": [_score_json(result, number) for result in found],
            }
            for number, trial in enumerate(tune.trials)
        ],
    }


def _score_json(result: Result, number: int) -> dict[str, Any]:
    score = result.scores[number]
    return {
        "env": result.env,
        "algo": result.algorithm,
        "mean": score and score.mean,
        "spread": score and score.spread,
        "values": score and score.values,
        "chosen": result.chosen == number,
    }


def result_rows(tune: Tune, found: Sequence[Result]) -> list[dict[str, str]]:
    """One row per environment, method and trial, for the terminal."""
    return [
        {
            "environment": result.env,
            "algorithm": result.algorithm,
            "trial": str(number),
            **trial.settings,
            "success": f"{score.mean:.3f}" if score else "-",
            "spread": f"{score.spread:.3f}" if score else "-",
            "chosen": "*" if result.chosen == number else "",
        }
        for result in found
        for number, (trial, score) in enumerate(zip(tune.trials, result.scores, strict=True))
    ]


def _tier_text(tune: Tune, found: Sequence[Result], command: str) -> str:
    tree = merge(_source(tune.options.tier), {"description": f"Settings chosen by: {command}"})
    overrides = parse_overrides(tune.options.overrides)
    # They lie above the tier's own sections for methods; where it has some, only such a section is above them.
    under = overrides if method_sections(tree) else {}
    for result in found:
        assert result.chosen is not None
        chosen = parse_overrides(pairs(tune.trials[result.chosen].settings))
        section = {"algos": {base_of(result.algorithm): merge(under, chosen)}}
        tree = merge(tree, {"envs": {result.env: merge(overrides, section)}})
    return "\n\n".join(_toml_blocks(tree)) + "\n"


def _source(tier: str) -> dict[str, Any]:
    """What a tier file begins with that lies on `tier`: its name as base, or all that a file says."""
    return {"base": tier} if tier in tier_names() else read_tier(tier)


def _toml_blocks(tree: Mapping[str, Any], path: tuple[str, ...] = ()) -> Iterator[str]:
    """Nested mappings as the tables of a TOML file."""
    lines = [
        f"{toml_key(key)} = {toml_value(value)}"
        for key, value in tree.items()
        if not isinstance(value, Mapping)
    ]
    if path and (lines or not tree):
        lines.insert(0, f"[{'.'.join(map(toml_key, path))}]")
    if lines:
        yield "\n".join(lines)
    for key, value in tree.items():
        if isinstance(value, Mapping):
            yield from _toml_blocks(value, (*path, key))

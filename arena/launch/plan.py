"""From command-line options to a plan: which cells, which BC starts, which recipe each, where on disk.

Everything is checked here, before anything is written.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Container, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from arena.errors import UsageError
from arena.launch import folder
from arena.launch.jobs import Job
from arena.recipe import GIVEN, Recipe, base_of, load_tier, merge, method_sections, parse_overrides, resolve
from arena.seeding import EVAL_SEED_START

if TYPE_CHECKING:
    from arena.algorithms.catalog import Algorithm


@dataclass(frozen=True)
class Options:
    """What a user asks for; texts as given on the command line."""

    algos: str = "grpo,sampo,actfocus"
    envs: str = "all"
    tier: str = "cpu"
    num_seeds: int | None = None
    seeds: str | None = None
    steps: int | None = None
    name: str | None = None
    runs: Path = Path("runs")
    overrides: tuple[str, ...] = ()


@dataclass(frozen=True)
class Plan:
    """The grid: cells in the order they are run, seed by seed, and the starts that they begin from."""

    run: Path
    tier: str
    starts: tuple[Job, ...]
    cells: tuple[Job, ...]

    @property
    def name(self) -> str:
        """The run's name."""
        return self.run.name

    @property
    def jobs(self) -> tuple[Job, ...]:
        """Starts, then cells."""
        return self.starts + self.cells


def build(options: Options) -> Plan:
    """The plan of `options`. Raises UsageError, naming the option, for anything unknown or impossible."""
    with _naming("--tier"):
        load_tier(options.tier)
    envs = _envs(options.envs)
    _check_sections(options.tier, envs)
    check_runs_folder(options.runs)
    run = options.runs / run_name(options.name, options.tier)
    algos, seeds = _algorithms(options.algos), _seeds(options)
    overrides = _overrides(options)
    cells = tuple(
        Job("cell", resolve(options.tier, env, algo, seed, overrides, code), run)
        for seed in seeds
        for env, code in envs.items()
        for algo in algos
    )
    _check_parts(cells)
    _check_folders(cells)
    return Plan(run, options.tier, _starts(cells), cells)


def check_runs_folder(runs: Path) -> None:
    """Raise UsageError if the folder that holds the runs is a file."""
    if runs.exists() and not runs.is_dir():
        raise UsageError(f"--runs-dir takes a folder; '{runs}' is a file.")


def notices(plan: Plan) -> list[str]:
    """What a user may not expect of the plan's methods, each said once."""
    from arena.algorithms.catalog import algorithm_of
    from arena.algorithms.catalog import notices as notices_of

    made = {cell.algorithm: algorithm_of(cell.recipe) for cell in plan.cells}
    said = [note for algorithm in made.values() for note in notices_of(algorithm)]
    return said + _without_effect(plan, made.values())


def _without_effect(plan: Plan, algorithms: Collection[Algorithm]) -> list[str]:
    """A notice for every parameter of a part that was set although no method has the part."""
    kinds = {
        part.kind for algorithm in algorithms for part in vars(algorithm).values() if hasattr(part, "kind")
    }
    usual = load_tier(plan.tier).get("parts", {})
    changed = {
        f"parts.{kind}.{key}"
        for cell in plan.cells
        for kind, settings in cell.recipe.parts.items()
        for key, value in settings.items()
        if kind not in kinds and usual.get(kind, {}).get(key) != value
    }
    return [
        f"recipe field {field}: no method of this run has that part, so it changes nothing."
        for field in sorted(changed)
    ]


def _starts(cells: Sequence[Job]) -> tuple[Job, ...]:
    """One start per environment and seed. Raises UsageError unless every algorithm's recipe defines the same one."""
    starts: dict[Path | None, Job] = {}
    for cell in cells:
        start = starts.setdefault(cell.needs, Job("start", cell.recipe, cell.run))
        if start.hash != cell.recipe.start_hash:
            ours, theirs = cell.recipe.start_fields(), start.recipe.start_fields()
            changed = ", ".join(key for key in ours if ours[key] != theirs[key])
            raise UsageError(
                f"--tier: '{cell.algorithm}' and '{start.recipe.algorithm}' would begin {cell.env} from different "
                f"starts (they differ in {changed}); a section for a method may not change what the start depends on."
            )
    return tuple(starts.values())


def variant(plan: Plan, run: Path, change: Callable[[Recipe], Recipe]) -> Plan:
    """The plan with every cell's recipe changed, in the run folder `run`."""
    cells = tuple(Job("cell", change(cell.recipe), run) for cell in plan.cells)
    return Plan(run, plan.tier, _starts(cells), cells)


def only(plan: Plan, keep: Callable[[Job], bool]) -> Plan:
    """The plan's cells that `keep` holds for, and the starts that they need."""
    cells = tuple(filter(keep, plan.cells))
    return Plan(plan.run, plan.tier, _starts(cells), cells)


def check_existing(plan: Plan, fresh: bool) -> None:
    """Raise UsageError if the plan does not fit what its run folder already holds."""
    folder.check_folder(plan.run, fresh)
    if not fresh:
        for job in plan.jobs:
            folder.check_same_recipe(job)


def _split(option: str, text: str, everything: Sequence[str]) -> list[str]:
    """The names of a comma list, in order; `all` stands for `everything`. Raises UsageError for one given twice."""
    names = [part.strip() for part in text.split(",") if part.strip()]
    if not names:
        raise UsageError(
            f"{option} is empty; given '{text}'. Allowed: all, or a comma list of {', '.join(everything)}."
        )
    _check_once(option, names)
    expanded = [n for name in names for n in (everything if name == "all" else [name])]
    _check_once(option, expanded, " (all holds it)" if "all" in names else "")
    return expanded


def _check_once(option: str, given: Sequence[object], note: str = "") -> None:
    twice = next((each for k, each in enumerate(given) if each in given[:k]), None)
    if twice is not None:
        raise UsageError(f"{option}: '{twice}' is given twice{note}; give it once.")


@contextmanager
def _naming(option: str) -> Generator[None]:
    """Put the option's name before a UsageError raised inside."""
    try:
        yield
    except UsageError as error:
        raise UsageError(f"{option}: {error}") from None


def _check_sections(tier: str, own: Container[str]) -> None:
    """Raise UsageError for a section of the tier whose environment, method or fields do not exist. Environments of the
    user's own are known by the names in `own`."""
    from arena.algorithms.catalog import get_algorithm
    from arena.envs import ENVS, env_class

    tree = load_tier(tier)
    check_given(tree, f"--tier: '{tier}'")
    for env, section in tree.get("envs", {}).items():
        with _naming(f"--tier: '{tier}', envs.{env}"):
            if env not in own:
                env_class(env)
        check_given(section, f"--tier: '{tier}', envs.{env}")
    for (env, name), section in method_sections(tree).items():
        where = f"--tier: '{tier}', {f'envs.{env}.' if env else ''}algos.{name}"
        check_given(section, where)
        with _naming(where):
            get_algorithm(name, {})
            if base_of(name) != name:
                raise UsageError(f"a section is for a method, without parameters: '{base_of(name)}'.")
            for each in [env] if env else ENVS:
                resolve(tier, each, name, 0)
    with _naming(f"--tier: '{tier}'"):
        resolve(tier, next(iter(ENVS)), "grpo", 0)


def check_given(tree: Mapping[str, Any], where: str) -> None:
    """Raise UsageError for a field that an option gives."""
    for key, option in GIVEN.items():
        if _holds(tree, key):
            raise UsageError(f"{where} {key}: use {option}.")


def _holds(tree: Mapping[str, Any], field: str) -> bool:
    section, _, leaf = field.rpartition(".")
    inner = tree.get(section, {}) if section else tree
    return isinstance(inner, Mapping) and leaf in inner


def _envs(text: str) -> dict[str, dict[str, str]]:
    """The environments by name, with what those that are not Arena's own are made of."""
    from arena.envs import ENVS, name_and_code

    specs = _split("--envs", text, list(ENVS))
    found: dict[str, dict[str, str]] = {}
    with _naming("--envs"):
        for spec in specs:
            name, code = name_and_code(spec)
            if name in found:
                other = next(iter(found[name]), name)
                raise UsageError(f"'{other}' and '{spec}' are both called '{name}'; give one of them.")
            found[name] = code
    return found


def _algorithms(text: str) -> list[str]:
    from arena.algorithms.catalog import CATALOG, get_algorithm

    specs = _split("--algos", text, list(CATALOG))
    with _naming("--algos"):
        for spec in specs:
            get_algorithm(spec, {})
    return specs


def _seeds(options: Options) -> list[int]:
    if options.seeds is None:
        count = 1 if options.num_seeds is None else options.num_seeds
        if count < 1:
            raise UsageError(f"--num-seeds must be at least 1; given {count}.")
        return list(range(count))
    if options.num_seeds is not None:
        raise UsageError(
            "--num-seeds N (seeds 0 to N-1) and --seeds LIST exclude each other; give one of them."
        )
    texts = [part.strip() for part in options.seeds.split(",")]
    if not all(re.fullmatch(r"[0-9]+", text) for text in texts):
        raise UsageError(
            f"--seeds takes a comma list of whole numbers from 0, e.g. --seeds 3,4; given '{options.seeds}'."
        )
    found = [int(text) for text in texts]
    _check_once("--seeds", found)
    return found


def run_name(given: str | None, tier: str) -> str:
    """The name of a run: as given, else the tier's and the time. Raises UsageError for one that is no folder's name."""
    label = re.sub(r"[^A-Za-z0-9._-]|^[._-]+", "", Path(tier).name.removesuffix(".toml")) or "tier"
    name = f"{label}-{datetime.now():%Y%m%d-%H%M%S}" if given is None else given
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name):
        raise UsageError(
            f"--name takes letters, digits, '.', '_' and '-', beginning with a letter or digit; "
            f"given '{name}'. The folder it goes to is --runs-dir."
        )
    return name


def _overrides(options: Options) -> dict[str, Any]:
    tree = parse_overrides(options.overrides)
    if "env" in tree and not isinstance(tree["env"], dict):
        raise UsageError(f"--set env={tree['env']}: use --envs.")
    check_given(tree, "--set")
    if options.steps is None:
        return tree
    if "steps" in tree:
        raise UsageError("--steps and --set steps exclude each other; give one of them.")
    return merge(tree, {"steps": options.steps})


def _check_parts(cells: Sequence[Job]) -> None:
    """Build every environment and algorithm once, so that refused options end here and not in a worker."""
    from arena.algorithms.catalog import algorithm_of
    from arena.algorithms.trial import try_out

    built: dict[str, dict[str, Algorithm]] = {}
    for cell in cells:
        if cell.env not in built:
            _check_environments(cell)
        methods = built.setdefault(cell.env, {})
        if cell.algorithm not in methods:
            _check_minibatches(cell)
            algorithm = algorithm_of(cell.recipe)
            with _naming("--algos"):
                try_out(algorithm)
            _check_new(algorithm, methods)
            _check_group(algorithm, cell)
            methods[cell.algorithm] = algorithm


def _check_environments(cell: Job) -> None:
    """Build the environment as it is trained in and as it is demonstrated, and draw tasks: options can rule out all."""
    from arena.envs import make_env

    config, demonstrated = cell.recipe.env, cell.recipe.bc.options
    env = make_env(config)
    for seed in (0, EVAL_SEED_START):
        env.reset(seed=seed)
    if demonstrated:
        with _naming("recipe field bc.options"):
            easier = config.model_copy(update={"options": {**config.options, **demonstrated}})
            make_env(easier).reset(seed=0)


def _check_new(algorithm: Algorithm, others: Mapping[str, Algorithm]) -> None:
    for spec, other in others.items():
        if _equal(algorithm, other):
            raise UsageError(
                f"--algos: '{spec}' and '{algorithm.name}' are the same method; give one of them."
            )


def _equal(one: Algorithm, other: Algorithm) -> bool:
    """Whether their parts are equal. Parts that cannot be compared, such as those that hold tensors, are not."""
    try:
        return bool(one == other)
    except (RuntimeError, ValueError):
        return False


#: What groups of one would do to a part that needs groups.
_ALONE = {"advantage": "every episode's advantage would be 0", "filter": "it would reject every group"}


def _check_group(algorithm: Algorithm, cell: Job) -> None:
    for part, outcome in _ALONE.items():
        if cell.recipe.rollout.group_size == 1 and getattr(getattr(algorithm, part), "needs_group", False):
            raise UsageError(
                f"recipe field rollout.group_size: the {part} of '{cell.algorithm}' compares the episodes of a group "
                f"with each other, and with groups of one {outcome}; give at least 2."
            )


def _check_minibatches(cell: Job) -> None:
    episodes, given = cell.recipe.rollout.episodes, cell.recipe.optim.minibatches
    if given > episodes:
        raise UsageError(
            f"recipe field optim.minibatches: at most the {episodes} episodes of a step "
            f"(rollout.groups x rollout.group_size); given {given}."
        )


def _check_folders(cells: Sequence[Job]) -> None:
    owner: dict[Path, Job] = {}
    for cell in cells:
        other = owner.setdefault(cell.relative, cell)
        if other is not cell:
            raise UsageError(
                f"--algos: '{other.algorithm}' and '{cell.algorithm}' would share the folder "
                f"{cell.relative}; put them into runs of their own (--name)."
            )

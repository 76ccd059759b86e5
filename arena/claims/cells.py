"""Which recorded cells a claim is tested on: those of exactly the recipe it names, from any number of runs.

A comparison is only of what it names if everything else is the same. So a cell counts if its recipe is what today's
tier and the claim's changes give, but for what does not change what is learned (`FREE`). What is missing is told
as the command that makes it.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import pandas as pd

from arena.analysis.recipes import ABSENT, NAMING, flat_recipe
from arena.analysis.statistics import why_no_interval
from arena.analysis.tokens import eight_groups
from arena.recipe import Recipe, parse_overrides, resolve
from arena.records.reader import IDENTITY, Cell, Run, load_evals, load_steps, map_cells

T = TypeVar("T")

#: Sections and fields of a recipe that change what is written or how fast, not what is learned.
FREE = ("record.", "checkpoint.", "optim.micro_rows")

#: Seeds that a command makes where there are none yet: Student's interval of five is half as wide as that of three.
SEEDS = 5


@dataclass(frozen=True)
class Need:
    """Cells of one tier and the same changes to it (as `--set` takes them): each algorithm in each environment."""

    tier: str
    algos: tuple[str, ...]
    envs: tuple[str, ...]
    changes: tuple[str, ...] = ()

    @property
    def run(self) -> str:
        """The name of the run that its command makes: one for each set of changes, whose cells share folders."""
        pairs = [change.partition("=") for change in self.changes]
        changes = [f"{key.rpartition('.')[2]}-{value}" for key, _, value in pairs]
        return re.sub(r"[^A-Za-z0-9._]+", "-", "-".join(("claims", self.tier, *changes)))


@dataclass(frozen=True)
class Missing:
    """Cells that are not there. `reuse`: runs that have others of the need. `note` says what is there instead."""

    need: Need
    seeds: tuple[int, ...]
    reuse: tuple[str, ...] = ()
    note: str = ""

    @property
    def command(self) -> str:
        """The `arena run` that makes them."""
        need, counted = self.need, self.seeds == tuple(range(len(self.seeds)))
        words = ["arena", "run", "--tier", need.tier, "--algos", ",".join(need.algos)]
        words += ["--envs", ",".join(need.envs)]
        words += (
            ["--num-seeds", str(len(self.seeds))] if counted else ["--seeds", ",".join(map(str, self.seeds))]
        )
        words += [word for change in need.changes for word in ("--set", change)]
        words += ["--name", need.run, *(word for run in self.reuse for word in ("--reuse", run))]
        return shlex.join(words)

    @property
    def words(self) -> str:
        """For people."""
        tier = " ".join((self.need.tier, *self.need.changes))
        seeds = f"seed{'s' * (len(self.seeds) > 1)} {in_words(self.seeds)}"
        text = f"{', '.join(self.need.algos)} on {', '.join(self.need.envs)} ({tier}), {seeds}"
        return f"{text}: {self.note}" if self.note else text


def in_words(seeds: Sequence[int]) -> str:
    """Seeds, ascending; those in a row as 0-4."""
    if len(seeds) > 2 and tuple(seeds) == tuple(range(seeds[0], seeds[-1] + 1)):
        return f"{seeds[0]}-{seeds[-1]}"
    return ", ".join(map(str, seeds))


def merged(missing: Iterable[Missing]) -> tuple[Missing, ...]:
    """What differs in methods alone as one, so that one command makes it."""
    groups: dict[object, list[Missing]] = {}
    for each in missing:
        groups.setdefault((each.need.tier, each.need.changes, each.need.envs, each.seeds), []).append(each)
    return tuple(
        replace(
            group[0],
            need=replace(group[0].need, algos=tuple(dict.fromkeys(a for m in group for a in m.need.algos))),
            reuse=tuple(sorted({run for m in group for run in m.reuse})),
            note="; ".join(dict.fromkeys(m.note for m in group if m.note)),
        )
        for group in groups.values()
    )


def commands(
    missing: Iterable[Missing],
    runs: Sequence[str] = (),
    claims: Sequence[str] = (),
    options: Sequence[str] = (),
) -> tuple[str, ...]:
    """What makes the missing cells, to be typed one after another, and last the `arena claims` that then answers.

    Commands that name the same run add to it, and follow one another. `runs` are those tested so far, `claims` those
    asked for (none: all), `options` go with every command. Empty where nothing is missing.
    """
    listed = merged(missing)
    if not listed:
        return ()
    made = tuple(dict.fromkeys(each.need.run for each in listed))
    makes = [each.command for each in sorted(listed, key=lambda each: made.index(each.need.run))]
    asked = [word for name in claims for word in ("--claim", name)]
    answers = shlex.join(["arena", "claims", *dict.fromkeys([*runs, *made]), *asked])
    return tuple(" ".join([line, *map(shlex.quote, options)]) for line in [*makes, answers])


@dataclass(frozen=True)
class Records:
    """A finished cell with its `steps` and `evals`."""

    cell: Cell
    steps: pd.DataFrame
    evals: pd.DataFrame

    @property
    def tokens(self) -> float:
        """Response tokens sampled for training in all."""
        return float(self.steps.tokens_sampled_total.max())

    def until(self, tokens: float) -> Records:
        """The same with its evaluations up to so many sampled tokens, and one at them.

        That one is interpolated, episode by episode, between the evaluations before and after, linearly in tokens; it
        takes the step of the one after.
        """
        totals = {0: 0.0, **dict(zip(self.steps.step, self.steps.tokens_sampled_total, strict=True))}
        at = self.evals.step.map(totals)
        later = self.evals[at > tokens]
        if later.empty:
            return self
        before, after = self.evals[at <= tokens].step.max(), later.step.min()
        share = (tokens - totals[before]) / (totals[after] - totals[before])
        ends = [
            self.evals[self.evals.step == step].set_index(["temperature", "episode"]).success.astype(float)
            for step in (before, after)
        ]
        between = ((1 - share) * ends[0] + share * ends[1]).dropna().reset_index().assign(step=after)
        return Records(self.cell, self.steps, pd.concat([self.evals[at <= tokens], between]))


def enough(seeds: Collection[int]) -> tuple[int, ...]:
    """These seeds; with 0 to `SEEDS` - 1 if they are too few for an interval."""
    more = () if why_no_interval(len(seeds)) is None else range(SEEDS)
    return tuple(sorted({*seeds, *more}))


@dataclass(frozen=True)
class Pool:
    """The cells of some runs; of equal finished ones the first counts."""

    cells: tuple[Cell, ...]
    _kept: dict[tuple[str, Path], Any] = field(default_factory=dict, compare=False, repr=False)

    def find(self, need: Need, env: str, algo: str) -> dict[int, Cell]:
        """By seed, the finished cells of the need's recipe."""
        found: dict[int, Cell] = {}
        for cell in self._named(need, env, algo):
            if cell.finished and not _differing(cell, need):
                found.setdefault(cell.seed, cell)
        return found

    def records(self, cell: Cell) -> Records:
        """The cell's tables, read once."""
        return self.once("records", cell, lambda: Records(cell, load_steps([cell]), load_evals([cell])))

    def groups(self, cell: Cell) -> pd.DataFrame:
        """`eight_groups` of the cell; empty without tokens."""
        return self.once("groups", cell, lambda: map_cells([cell], "tokens", eight_groups))

    def once(self, what: str, cell: Cell, make: Callable[[], T]) -> T:
        """What `make` returns; several tests ask for the same of one cell."""
        if (what, cell.path) not in self._kept:
            self._kept[what, cell.path] = make()
        return self._kept[what, cell.path]

    def missing(self, needs: Iterable[Need], seeds: Sequence[int] = ()) -> tuple[Missing, ...]:
        """The cells of these seeds that are not there; without seeds, of `enough` of those that any cell has."""
        found = []
        for need in needs:
            held = {(env, algo): self.find(need, env, algo) for env in need.envs for algo in need.algos}
            there = {seed for cells in held.values() for seed in cells}
            wanted = set(seeds or enough(there))
            lacking = [key for key, cells in held.items() if wanted - set(cells)]
            if not lacking:
                continue
            envs, algos = (tuple(dict.fromkeys(names)) for names in zip(*lacking, strict=True))
            runs = {cell.path.parents[3] for cells in held.values() for cell in cells.values()}
            reuse = tuple(sorted(str(run) for run in runs if run.name != need.run))
            part = replace(need, algos=algos, envs=envs)
            found.append(Missing(part, tuple(sorted(wanted)), reuse, self._others(part)))
        return tuple(found)

    def _named(self, need: Need, env: str, algo: str) -> list[Cell]:
        return [
            cell
            for cell in self.cells
            if (cell.env, cell.algo) == (env, algo) and cell.recipe and cell.recipe.tier == need.tier
        ]

    def unfinished(self, needs: Iterable[Need]) -> str:
        """Cells of the needs' recipes that did not reach their end, in words; empty if there are none."""
        near = {
            cell.path: cell.state
            for need in needs
            for env in need.envs
            for algo in need.algos
            for cell in self._named(need, env, algo)
            if not cell.finished and not _differing(cell, need)
        }
        states = Counter(near.values())
        return ", ".join(f"{_cells(count)} {state}" for state, count in sorted(states.items()))

    def _others(self, need: Need) -> str:
        """What is there in the place of missing cells, in words: cells of other recipes, and unfinished ones."""
        near = [c for env in need.envs for algo in need.algos for c in self._named(need, env, algo)]
        fields = [differing for cell in near if (differing := _differing(cell, need))]
        names = ", ".join(sorted(set().union(*fields)))
        others = f"{_cells(len(fields))} of another recipe ({names})" if fields else ""
        return "; ".join(text for text in (others, self.unfinished([need])) if text)


def pool(runs: Iterable[Run], groups: pd.DataFrame | None = None) -> Pool:
    """The cells of the runs, in their order. `groups`: `eight_groups` of all cells, where it is known and the run is
    one: its rows do not say which run they are of."""
    runs = tuple(runs)
    assert groups is None or len(runs) == 1
    cells = tuple(cell for run in runs for cell in run.cells if cell.recipe)
    known = {} if groups is None or groups.empty else dict(list(groups.groupby(list(IDENTITY))))
    named = ((cell.path, (cell.env, cell.algo, cell.seed)) for cell in cells)
    return Pool(cells, {("groups", path): known[name] for path, name in named if name in known})


def free_fields(cell: Cell) -> tuple[tuple[str, str], ...]:
    """The fields of a cell's recipe that do not change what is learned, but may take time."""
    assert cell.recipe is not None
    return tuple(item for item in sorted(flat_recipe(cell.recipe).items()) if item[0].startswith(FREE))


def _differing(cell: Cell, need: Need) -> set[str]:
    """The fields in which a cell's recipe is not the need's."""
    assert cell.recipe is not None
    ours, theirs = _fields(cell.recipe), _wanted(need.tier, need.changes, cell.env, cell.algo)
    return {key for key in {**ours, **theirs} if ours.get(key, ABSENT) != theirs.get(key, ABSENT)}


@cache
def _wanted(tier: str, changes: tuple[str, ...], env: str, algo: str) -> dict[str, str]:
    return _fields(resolve(tier, env, algo, 0, parse_overrides(changes)))


def _fields(recipe: Recipe) -> dict[str, str]:
    flat = flat_recipe(recipe)
    return {key: value for key, value in flat.items() if key not in NAMING and not key.startswith(FREE)}


def _cells(count: int) -> str:
    return f"{count} {'cell' if count == 1 else 'cells'}"

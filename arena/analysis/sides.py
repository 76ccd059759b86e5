"""What A and B of a comparison are: two runs, or two methods of one run; and which of their cells make pairs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from arena.errors import UsageError, unknown_name
from arena.records.reader import Cell, Run, find_run, read_run


@dataclass(frozen=True)
class Side:
    """One side of a comparison. `name` is that of the run or method; `where` the folder of its run."""

    name: str
    where: Path
    cells: tuple[Cell, ...]

    @property
    def methods(self) -> tuple[str, ...]:
        """The algorithm specs it has."""
        return tuple(sorted({cell.algo for cell in self.cells}))


@dataclass(frozen=True)
class Pair:
    """Two finished cells of one environment and seed."""

    a: Cell
    b: Cell


def choose_sides(a: str, b: str, run: str | None, root: Path) -> tuple[Side, Side]:
    """Two runs, names under `root` or paths; else two methods of `run`, or (None) of the latest run under `root`.

    Raises UsageError for a name that is neither, with the nearest match, and for two that are the same.
    """
    runs = None if run is not None else _two_runs(a, b, root)
    if runs:
        sides = _whole(runs[0]), _whole(runs[1])
        same = runs[0].path.resolve() == runs[1].path.resolve()
    else:
        held = read_run(find_run(run, root))
        sides = _method(a, held, root), _method(b, held, root)
        same = a == b
    if same:
        raise UsageError(f"A and B are the same: {a}. Name two runs, or two methods of one run.")
    return sides


def _whole(run: Run) -> Side:
    return Side(run.name, run.path, run.cells)


def _two_runs(a: str, b: str, root: Path) -> tuple[Run, Run] | None:
    """Both as runs; None if neither is one. Raises UsageError, about the other, if one is."""
    found = [_run_or_none(name, root) for name in (a, b)]
    if not any(found):
        return None
    first, second = (read_run(find_run(name, root)) for name in (a, b))
    return first, second


def _run_or_none(name: str, root: Path) -> Path | None:
    try:
        return find_run(name, root)
    except UsageError:
        return None


def _method(name: str, run: Run, root: Path) -> Side:
    cells = tuple(cell for cell in run.cells if cell.algo == name)
    if not cells:
        methods = {cell.algo for cell in run.cells}
        if not methods:
            raise UsageError(f"run '{run.name}' has no cells to compare.")
        runs = sorted(p.name for p in root.iterdir() if _run_or_none(p.name, root)) if root.is_dir() else []
        hint = f"Or name two runs ({', '.join(runs)}), or another run for the methods with --run."
        raise unknown_name("method", name, methods, hint, elsewhere=runs, of=f"run '{run.name}'")
    return Side(name, run.path, cells)


def pairs(a: Side, b: Side) -> list[Pair]:
    """The finished cells that both sides have, by environment, method and seed.

    Sides with one method each pair by environment and seed, whatever the methods. Raises UsageError, saying what each
    side has, if there is none.
    """
    one_each = len(a.methods) == len(b.methods) == 1

    def key(cell: Cell) -> tuple[str, str, int]:
        return cell.env, "" if one_each else cell.algo, cell.seed

    others = {key(cell): cell for cell in b.cells if cell.finished}
    found = [Pair(cell, others[key(cell)]) for cell in a.cells if cell.finished and key(cell) in others]
    if not found:
        raise UsageError(
            f"A and B have no finished cell in common.\n  A, {a.name}: {_holdings(a.cells)}\n"
            f"  B, {b.name}: {_holdings(b.cells)}"
        )
    return found


def left_out(side: Side, used: Iterable[Cell]) -> str:
    """The cells of a side that are in no pair, in words; empty if all are."""
    taken = {cell.path for cell in used}
    return _holdings([cell for cell in side.cells if cell.path not in taken])


def _holdings(cells: Sequence[Cell]) -> str:
    """Environment, method and seeds, with the state of those that are not finished."""
    groups: dict[tuple[str, str, str], list[int]] = {}
    for cell in cells:
        groups.setdefault((cell.env, cell.algo, cell.state), []).append(cell.seed)
    return "; ".join(
        f"{env} {algo}, {'seed' if len(seeds) == 1 else 'seeds'} {', '.join(map(str, sorted(seeds)))}"
        + ("" if state == "done" else f" ({state})")
        for (env, algo, state), seeds in groups.items()
    )

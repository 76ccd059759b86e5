"""Reads a run folder: which cells it has, how far each went, and their tables.

Steps and evaluations are small and come as pandas frames; episodes, turns and tokens may be larger than
memory and come as DuckDB relations, one cell at a time. A cell that failed or is still running is read as
far as it went, and its state says so. What the numbers mean is left to `arena.analysis`. Never imports
torch.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import duckdb
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import ValidationError

from arena.errors import UsageError, unknown_name
from arena.machine import usable_cpus
from arena.recipe import Recipe
from arena.records.files import read_status
from arena.records.layout import place
from arena.records.schema import SCHEMA_VERSION, TABLES, Table

T = TypeVar("T")

#: The columns that name a cell; every frame made here starts with them.
IDENTITY = ("env", "algo", "seed")

#: Connections at a time, memory of each, and rows of a part of `map_cells`. Quantiles hold 8 to 16 bytes a row, which
#: DuckDB does not put on disk: a part takes up to 64 MB. benchmarks/report_scale.py measures the whole.
WORKERS = min(4, usable_cpus())
MEMORY = "512MB"
PART_ROWS = 4_000_000


@dataclass(frozen=True)
class Cell:
    """One cell of a run. `algo` is the algorithm spec; `recipe` is None where none was written yet.

    `state` is pending, running, done, failed or interrupted; `step` of `steps` training steps are finished
    (0 where unknown); `error` says why a cell failed.
    """

    env: str
    algo: str
    seed: int
    path: Path
    recipe: Recipe | None
    state: str
    step: int
    steps: int
    error: str | None

    @property
    def name(self) -> str:
        """For messages: environment, algorithm and seed."""
        return f"{self.env} / {self.algo} / seed {self.seed}"

    @property
    def finished(self) -> bool:
        """Whether the cell reached its last step."""
        return self.state == "done"


@dataclass(frozen=True)
class BCStart:
    """The behaviour-cloned start of one environment and seed.

    `metrics` holds the numbers and texts of its `bc.json`, nested ones under "outer inner".
    """

    env: str
    seed: int
    metrics: dict[str, Any]


@dataclass(frozen=True)
class Run:
    """A run folder. Every key of `manifest` is optional."""

    path: Path
    manifest: dict[str, Any]
    cells: tuple[Cell, ...]
    starts: tuple[BCStart, ...]

    @property
    def name(self) -> str:
        """The folder's name."""
        return self.path.name


def find_run(given: str | Path | None = None, root: Path = Path("runs")) -> Path:
    """The folder of a run: a path, a name under `root`, or (None) the run under `root` written to last.

    Raises UsageError where there is no such run.
    """
    names = {p.name: p for p in sorted(root.iterdir()) if _is_run(p)} if root.is_dir() else {}
    if given is None:
        if not names:
            raise UsageError(f"no run in {root}/. Start one with `arena run`, or name a run folder.")
        return max(names.values(), key=_last_written)
    for path in (Path(given), root / given):
        if _is_run(path):
            return path
    if Path(given).is_dir():
        raise UsageError(f"{given} is not a run folder: it holds neither manifest.json nor cells/.")
    if not names:
        raise UsageError(f"no run '{given}': {root}/ holds no run, and {given} is no folder.")
    raise unknown_name("run", str(given), names, "A path to a run folder works too.")


def _is_run(path: Path) -> bool:
    return (path / "manifest.json").is_file() or (path / "cells").is_dir()


def _last_written(path: Path) -> float:
    files = [path / "manifest.json", *path.glob("cells/*/*/*/status.json")]
    return max((f.stat().st_mtime for f in files if f.exists()), default=path.stat().st_mtime)


def read_run(path: Path) -> Run:
    """List the cells and starts of a run, without reading any table.

    Cells are those with a folder and those that the manifest plans. Raises UsageError if `path` is no run.
    """
    path = find_run(path)
    manifest = _read_json(path / "manifest.json")
    entries = {(e["env"], e["algo"], e["seed"]): e for e in manifest.get("cells", [])}
    folders = [f for f in sorted(path.glob("cells/*/*/seed-*")) if f.is_dir()]
    cells = {(c.env, c.algo, c.seed): c for c in (_read_cell(f, entries) for f in folders)}
    planned = {key: _planned_cell(path, entry) for key, entry in entries.items()}
    starts = [
        BCStart(f.parent.parent.name, _seed(f.parent), _scalars(_read_json(f)))
        for f in sorted(path.glob("bc/*/seed-*/bc.json"))
    ]
    merged = planned | cells
    return Run(path, manifest, tuple(merged[key] for key in sorted(merged)), tuple(starts))


def _read_cell(folder: Path, entries: Mapping[tuple[str, str, int], Mapping[str, Any]]) -> Cell:
    env, seed, recipe = folder.parent.parent.name, _seed(folder), _read_recipe(folder / "recipe.json")
    algo = recipe.algorithm if recipe else folder.parent.name
    status, entry = read_status(folder), entries.get((env, algo, seed), {})
    state = status.state if status else "pending"
    if entry and state not in ("done", "failed"):
        state = _planned_state(entry)
    steps = status.steps if status else recipe.steps if recipe else 0
    error = status.error if status and status.error else entry.get("error")
    return Cell(env, algo, seed, folder, recipe, state, status.step if status else 0, steps, error)


def _planned_cell(run: Path, entry: Mapping[str, Any]) -> Cell:
    env, algo, seed = entry["env"], entry["algo"], entry["seed"]
    folder, state = run / place(env, algo, seed), _planned_state(entry)
    return Cell(env, algo, seed, folder, None, state, 0, 0, entry.get("error"))


def _planned_state(entry: Mapping[str, Any]) -> str:
    """Of a cell whose folder does not say: it is not done any more if it is gone."""
    return "pending" if entry["state"] == "done" else entry["state"]


def _read_recipe(path: Path) -> Recipe | None:
    fields = _read_json(path)
    fields.pop("hash", None)
    if not fields:
        return None
    try:
        return Recipe.model_validate(fields)
    except ValidationError as error:
        raise UsageError(f"{path} is not a recipe this version of Arena reads:\n{error}") from None


def _read_json(path: Path) -> dict[str, Any]:
    if not path.exists():
        return {}
    try:
        value = json.loads(path.read_text())
    except json.JSONDecodeError as error:
        raise UsageError(f"{path} is not valid JSON: {error}.") from None
    return value if isinstance(value, dict) else {}


def _scalars(fields: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in fields.items():
        if isinstance(value, Mapping):
            flat |= _scalars(value, f"{prefix}{key} ")
        elif isinstance(value, (int, float, str)) and not isinstance(value, bool):
            flat[f"{prefix}{key}"] = value
    return flat


def _seed(folder: Path) -> int:
    text = folder.name.removeprefix("seed-")
    if not text.isdigit():
        raise UsageError(f"{folder}: a cell's folder is named seed-<number>.")
    return int(text)


def load_steps(cells: Iterable[Cell]) -> pd.DataFrame:
    """`steps` of all cells: identity columns, then the table's columns; no rows for cells without one."""
    return _load(cells, TABLES["steps"])


def load_evals(cells: Iterable[Cell]) -> pd.DataFrame:
    """`evals` of all cells: identity columns, then the table's columns; no rows for cells without one."""
    return _load(cells, TABLES["evals"])


def _load(cells: Iterable[Cell], table: Table) -> pd.DataFrame:
    frames = []
    for cell in cells:
        path = cell.path / f"{table.name}.parquet"
        if path.exists():
            # Opened once: a cell that is still training replaces the file whole, and two opens could see two files.
            data = _readable(path, lambda path=path: pq.read_table(pa.BufferReader(path.read_bytes())))
            check_version(path, data.schema)
            frames.append(_identify(data.to_pandas(), cell))
    columns = [*IDENTITY, *(c.name for c in table.columns)]
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(columns=columns)


def _identify(frame: pd.DataFrame, cell: Cell) -> pd.DataFrame:
    for position, name in enumerate(IDENTITY):
        frame.insert(position, name, getattr(cell, name))
    return frame


def table_files(cell: Cell, table: str, step: int | None = None) -> list[Path]:
    """The Parquet files of `table` in step order, or that of `step` alone.

    Raises UsageError if one has another schema version.
    """
    files = sorted((cell.path / table).glob("step-*.parquet" if step is None else f"step-{step:05d}.parquet"))
    for file in files:
        check_version(file, _readable(file, lambda file=file: pq.read_schema(file)))
    return files


def _readable(path: Path, read: Callable[[], T]) -> T:
    """What `read` returns. Raises UsageError if the Parquet file at `path` is damaged."""
    try:
        return read()
    except (pa.ArrowException, OSError) as error:
        raise UsageError(
            f"{path} cannot be read ({error}). Delete its cell's folder, and the command that made the run trains this "
            "cell again."
        ) from None


def check_version(path: Path, schema: pa.Schema) -> None:
    """Raise UsageError unless the file at `path` was written under the schema version that this code reads."""
    found = (schema.metadata or {}).get(b"schema_version", b"none").decode()
    if found != str(SCHEMA_VERSION):
        raise UsageError(
            f"{path} has schema version {found}; this version of Arena reads {SCHEMA_VERSION}. "
            "Read it with the version that wrote it (manifest.json names it), or run the cell again."
        )


@contextmanager
def connection() -> Generator[duckdb.DuckDBPyConnection]:
    """A DuckDB connection with one thread, so that floating-point sums do not depend on the machine.

    It holds `MEMORY`; what can be put on disk goes there beyond it.
    """
    with tempfile.TemporaryDirectory() as spill:
        config: dict[str, Any] = {"threads": 1, "memory_limit": MEMORY, "temp_directory": spill}
        with duckdb.connect(config=config) as opened:
            yield opened


def relation(
    connection: duckdb.DuckDBPyConnection, cell: Cell, table: str, step: int | None = None
) -> duckdb.DuckDBPyRelation | None:
    """Lazy rows of a cell's episodes, turns or tokens, of all steps or one; None if none were recorded."""
    files = table_files(cell, table, step)
    return connection.read_parquet([str(f) for f in files]) if files else None


def map_cells(
    cells: Sequence[Cell],
    table: str,
    analyse: Callable[[duckdb.DuckDBPyRelation], pd.DataFrame],
    by_step: bool = False,
) -> pd.DataFrame:
    """`analyse` on each cell's relation, stacked in the order of cells, with the identity columns in front.

    Cells without the table are left out; the frame is empty, without columns, if no cell has it. With `by_step`,
    for an analysis that treats steps apart, a large cell comes in parts of whole steps, and memory is that of a part.

    `WORKERS` relations at a time, each on a `connection` of its own.
    """
    jobs = [
        (cell, part)
        for cell in cells
        if (files := table_files(cell, table))
        for part in (_parts(files) if by_step else [files])
    ]

    def work(job: tuple[Cell, list[Path]]) -> pd.DataFrame:
        cell, part = job
        with connection() as opened:
            return _identify(analyse(opened.read_parquet([str(file) for file in part])), cell)

    with ThreadPoolExecutor(WORKERS) as pool:
        frames = list(pool.map(work, jobs))
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()


def _parts(files: Sequence[Path]) -> list[list[Path]]:
    """The files in order, in parts of at most `PART_ROWS` rows; a larger file is a part of its own."""
    parts: list[list[Path]] = []
    room = 0
    for file in files:
        rows = pq.read_metadata(file).num_rows
        if not parts or rows > room:
            parts.append([])
            room = PART_ROWS
        parts[-1].append(file)
        room -= rows
    return parts

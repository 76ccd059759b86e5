"""The nouns of the detectors: what one sees of a cell, what it says, and what it is. Never imports torch."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Literal

import duckdb
import pandas as pd

from arena.errors import UsageError
from arena.recipe import Recipe
from arena.records.reader import Cell, connection, load_evals, load_steps, table_files

#: The tables that are read through DuckDB, because they may be larger than memory.
LARGE = ("episodes", "turns", "tokens")


class Status(StrEnum):
    """What a detector says of a cell.

    SKIPPED: something that it reads was not recorded. DEGENERATE: it was, and cannot decide (for example one episode
    a group where groups are compared). Neither is OK.
    """

    OK = "ok"
    WARN = "warn"
    CRITICAL = "critical"
    SKIPPED = "skipped"
    DEGENERATE = "degenerate"

    @property
    def shown(self) -> str:
        """For people: what says nothing about the cell stands out in capitals."""
        return self.value.upper() if self in (Status.SKIPPED, Status.DEGENERATE) else self.value


@dataclass(frozen=True)
class Verdict:
    """What a detector says of one cell.

    `steps`: the training steps at fault, ascending; the first is the alarm's. `values`: what was measured at each.
    `critical_step`: the first step that is critical; None if none is. Of a critical verdict that names none it is the
    first step at fault: checks have one level.
    """

    status: Status
    summary: str
    steps: tuple[int, ...] = ()
    values: tuple[float, ...] = ()
    critical_step: int | None = None

    def __post_init__(self) -> None:
        if self.critical_step is None and self.status == Status.CRITICAL:
            object.__setattr__(self, "critical_step", self.step)

    @staticmethod
    def of(status: Status, summary: str, faults: pd.Series, critical_step: int | None = None) -> Verdict:
        """With the steps and values of `faults`, a series indexed by step."""
        faults = faults.sort_index()
        steps, values = faults.index.tolist(), faults.tolist()
        return Verdict(status, summary, tuple(map(int, steps)), tuple(map(float, values)), critical_step)

    @property
    def step(self) -> int | None:
        """The step of the alarm; None if there is none."""
        return self.steps[0] if self.steps else None

    @property
    def alarm(self) -> bool:
        """Whether it is one: warn or critical."""
        return self.status in (Status.WARN, Status.CRITICAL)


@dataclass(frozen=True, eq=False)
class CellRecords:
    """One cell's records as detectors see them; `recipe` and any table or column may be missing.

    Tables are as in `arena.records.schema`, and what identifies a row (step, episode_id, turn, ...) is there wherever
    the table is. `tables` holds episodes, turns and tokens, each as Parquet files in step order or as a frame.
    """

    recipe: Recipe | None = None
    steps: pd.DataFrame = field(default_factory=pd.DataFrame)
    evals: pd.DataFrame = field(default_factory=pd.DataFrame)
    tables: Mapping[str, Sequence[Path] | pd.DataFrame] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.steps, pd.DataFrame) or not isinstance(self.evals, pd.DataFrame):
            raise UsageError("CellRecords: steps and evals must be pandas frames.")
        if len(self.steps.columns) and "step" not in self.steps:
            raise UsageError(
                "CellRecords: steps has no column 'step', the training step of each row; its columns are "
                f"{', '.join(map(str, self.steps.columns))}. Names are those of docs/glossary.md."
            )
        if "step" in self.steps and self.steps.step.duplicated().any():
            twice = self.steps.step[self.steps.step.duplicated()].iloc[0]
            raise UsageError(
                f"CellRecords: steps has more than one row of step {twice}; a row is a training step. Of logs that mix "
                "training and evaluation, keep the rows of training."
            )

    @staticmethod
    def of(cell: Cell) -> CellRecords:
        """The records of a cell of a run, as far as it went."""
        files = {name: table_files(cell, name) for name in LARGE}
        return CellRecords(cell.recipe, load_steps([cell]), load_evals([cell]), files)

    def column(self, name: str) -> pd.Series | None:
        """A column of `steps`, indexed by step, ascending; None where it is absent or has no value."""
        if "step" not in self.steps or name not in self.steps or self.steps[name].isna().all():
            return None
        return self.steps.set_index("step")[name].sort_index()

    def query(self, table: str, sql: str) -> pd.DataFrame | None:
        """The result of `sql` over episodes, turns and tokens (those recorded, by these names) in DuckDB.

        None if `table` was not recorded. One thread, so that sums do not depend on the machine.
        """
        return self._connection.sql(sql).df() if table in self._recorded else None

    def relation(self, table: str) -> duckdb.DuckDBPyRelation | None:
        """Lazy rows of episodes, turns or tokens, for analyses that take a relation; None if not recorded."""
        return self._connection.view(table) if table in self._recorded else None

    def missing(self, needs: Sequence[str]) -> list[str]:
        """Those of `needs` that are absent or have no value: "recipe", "table" or "table.column"."""
        return [need for need in needs if not self._has(need)]

    def _has(self, need: str) -> bool:
        table, _, column = need.partition(".")
        if table == "recipe":
            return self.recipe is not None
        if table in LARGE:
            return table in self._recorded and (not column or self._has_values(table, column))
        frame = {"steps": self.steps, "evals": self.evals}[table]
        return len(frame) > 0 and (not column or (column in frame and bool(frame[column].notna().any())))

    def _has_values(self, table: str, column: str) -> bool:
        if column not in self._connection.view(table).columns:
            return False
        found = self.query(table, f'SELECT 1 FROM {table} WHERE "{column}" IS NOT NULL LIMIT 1')
        return found is not None and len(found) > 0

    @cached_property
    def _recorded(self) -> tuple[str, ...]:
        return tuple(name for name, source in self.tables.items() if len(source))

    @cached_property
    def _connection(self) -> duckdb.DuckDBPyConnection:
        stack = ExitStack()
        opened = stack.enter_context(connection())
        weakref.finalize(self, stack.close)
        for name in self._recorded:
            source = self.tables[name]
            if isinstance(source, pd.DataFrame):
                rows = opened.from_df(source)
            else:
                rows = opened.read_parquet([str(path) for path in source])
            rows.create_view(name)
        return opened


@dataclass(frozen=True)
class Detector:
    """One question about a cell's records, and how it is answered.

    `kind`: a "check" holds exactly or something is wrong with the run; a "statistical" detector compares with what is
    usual. `needs`: what it reads, as "steps.grad_norm", "tokens.advantage" or "recipe". `judge` is called only where
    all of it is there.
    """

    name: str
    title: str
    kind: Literal["check", "statistical"]
    why: str
    needs: tuple[str, ...]
    advice: str
    source: str
    judge: Callable[[CellRecords], Verdict]

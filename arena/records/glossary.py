"""Renders `docs/glossary.md` from the schema: `python -m arena.records.glossary > docs/glossary.md`."""

from __future__ import annotations

import pyarrow as pa

from arena.records.schema import SCHEMA_VERSION, TABLES, Column, Table

_HEADER = f"""# Glossary of recorded columns

Written by `python -m arena.records.glossary > docs/glossary.md` from `arena/records/schema.py`; do not edit
by hand. Schema version {SCHEMA_VERSION}.

Missing is null, never 0. A value that is not finite is stored as null and counted in `steps.nonfinite`.
Columns that start with `seconds_` are timings, the only ones that may differ between two runs of one recipe.
The verl and TRL columns name the metric of those trainers that means the same thing, where there is one.
"""


def render() -> str:
    """The whole glossary as Markdown."""
    return "\n".join([_HEADER, *(_render_table(t) for t in TABLES.values())])


def _render_table(table: Table) -> str:
    place = f"{table.name}/step-<n>.parquet" if table.per_step_files else f"{table.name}.parquet"
    lines = [
        f"## {table.name}",
        "",
        f"{table.doc} File: `{place}`.",
        "",
        "| Column | Type | Meaning | verl | TRL |",
        "|---|---|---|---|---|",
        *(_render_column(c) for c in table.columns),
        "",
    ]
    return "\n".join(lines)


def _render_column(column: Column) -> str:
    cells = [f"`{column.name}`", _type_name(column.type), column.doc, column.verl, column.trl]
    return "| " + " | ".join(c.replace("|", "\\|") for c in cells) + " |"


def _type_name(kind: pa.DataType) -> str:
    return "category" if pa.types.is_dictionary(kind) else str(kind)


if __name__ == "__main__":
    print(render(), end="")

"""docs/glossary.md is what the schema says."""

from pathlib import Path

from arena.records.glossary import render
from arena.records.schema import TABLES

PAGE = Path(__file__).parents[2] / "docs" / "glossary.md"


def test_the_page_is_up_to_date():
    assert PAGE.read_text() == render(), "run: python -m arena.records.glossary > docs/glossary.md"


def test_every_column_has_a_row_with_type_and_meaning():
    lines = render().splitlines()
    for table in TABLES.values():
        assert f"## {table.name}" in lines
        for column in table.columns:
            assert any(
                line.startswith(f"| `{column.name}` | ") and column.doc.replace("|", r"\|") in line
                for line in lines
            )


def test_a_row_names_the_metrics_of_other_trainers():
    row = next(line for line in render().splitlines() if line.startswith("| `grad_norm` |"))
    assert row.startswith(
        "| `grad_norm` | double | Global gradient norm before clipping, mean over the mini-"
    )
    assert row.endswith(" | actor/grad_norm | grad_norm |")

"""The page of the detectors says what the detectors say."""

from __future__ import annotations

from pathlib import Path

from arena.analysis.detectors import DETECTORS
from arena.analysis.detectors.base import Detector

PAGE = (Path(__file__).parents[3] / "docs" / "detectors.md").read_text()


def row(detector: Detector) -> str:
    needs = ", ".join(f"`{need}`" for need in detector.needs)
    cells = [f"`{detector.name}`", detector.title, detector.why, needs, detector.advice, detector.source]
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def test_the_table_has_every_check_in_the_order_of_the_registry():
    start = PAGE.index("## Exact checks")
    rows = [line for line in PAGE[start:].partition("\n## ")[0].splitlines() if line.startswith("| `")]
    assert rows == [row(d) for d in DETECTORS.values() if d.kind == "check"]

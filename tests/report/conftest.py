"""One synthetic run and its report, built once for all tests of the report."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from arena.report import build_report
from tests.synthetic import Size, write_cell, write_run

SIZE = Size(steps=12, groups=2, turns=2, tokens=6, eval_episodes=16, eval_every=4)


@dataclass(frozen=True)
class Built:
    """A run and its report."""

    run: Path
    html: Path
    pdf: Path


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Built]:
    """Twelve cells; one more failed after step 5."""
    folder = tmp_path_factory.mktemp("report")
    run = write_run(folder / "runs" / "synthetic", SIZE)
    write_cell(run, "frozen_lake", "gspo+dynamic", 0, SIZE, last_step=5)
    html, pdf = build_report(run, folder / "out")
    yield Built(run, html, pdf)

"""`arena report`: the verdicts of a run, as a page and as a document."""

from __future__ import annotations

import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from arena.cli.options import DEFAULT_RUNS, RunsDir
from arena.errors import UsageError


def report(
    run: Annotated[
        str | None,
        typer.Argument(help="Name of a run, or its folder. Default: the latest run.", metavar="[RUN]"),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", help="Folder to write to. Default: report/ in the run's folder.", metavar="DIR"
        ),
    ] = None,
    runs_dir: RunsDir = DEFAULT_RUNS,
) -> None:
    """Write a run's report, HTML and PDF, and print where it is.

    Works on a run that is unfinished or has failed cells: the report says so.
    """
    from arena.records.reader import find_run
    from arena.report import build_report

    if out is not None and out.exists() and not out.is_dir():
        raise UsageError(f"--out takes a folder; '{out}' is a file.")
    folder = find_run(run, runs_dir)
    for path in build_report(folder, out or folder / "report", _tell):
        print(path)


def _tell(text: str) -> None:
    """A line on stderr, as `arena run` has them in a log."""
    with suppress(OSError):  # nobody may be reading
        print(f"{time.strftime('%H:%M:%S')}  {text}", file=sys.stderr, flush=True)

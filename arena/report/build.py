"""Writes the report of a run as one HTML file and one PDF, both from the same `Report`."""

from __future__ import annotations

import html
import itertools
import json
import re
import tempfile
from collections.abc import Callable
from dataclasses import asdict
from importlib import resources
from pathlib import Path
from typing import Any

import jinja2
import matplotlib
import typst
from markupsafe import Markup

from arena.records.files import write_atomic, write_text
from arena.records.reader import read_run
from arena.report.content import compose_report, silent
from arena.report.document import Figure, Report
from arena.report.microscope import LEVELS
from arena.report.style import for_html, shared_glyphs

_TEMPLATES = resources.files("arena.report") / "templates"


def build_report(run: Path, out: Path, tell: Callable[[str], None] = silent) -> list[Path]:
    """Write `report.html` and `report.pdf` of the run folder `run` into `out`; both are returned.

    `tell` hears what is done next. Each file is written whole or not at all. Raises UsageError if `run` is no run, has
    no cell, or was written under another schema version.
    """
    report = compose_report(read_run(run), tell)
    paths = [out / "report.html", out / "report.pdf"]
    tell(f"writing {paths[0].name} and {paths[1].name}")
    write_text(paths[0], render_html(report))
    write_atomic(paths[1], lambda path: render_pdf(report, path))
    return paths


def render_html(report: Report) -> str:
    """The report as one HTML page that needs no other file."""
    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    prefixes = itertools.count()
    glyphs: dict[str, str] = {}
    environment.filters["inline"] = lambda svg, label="": Markup(
        for_html(svg, html.escape(label, quote=True), f"s{next(prefixes)}", glyphs)
    )
    template = environment.from_string((_TEMPLATES / "report.html.j2").read_text(encoding="utf-8"))
    style = (_TEMPLATES / "report.css").read_text(encoding="utf-8")
    page = template.render(report=report, style=Markup(style), levels=LEVELS)
    return page.replace("</body>", f"{shared_glyphs(glyphs)}\n</body>")


def render_pdf(report: Report, path: Path) -> None:
    """The report as PDF at `path`.

    Only fonts that come with typst and matplotlib are used: the same everywhere.
    """
    fonts = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "report.json").write_text(json.dumps(_for_typst(report, folder)), encoding="utf-8")
        (folder / "report.typ").write_text(
            (_TEMPLATES / "report.typ").read_text(encoding="utf-8"), encoding="utf-8"
        )
        typst.compile(
            str(folder / "report.typ"),
            output=str(path),
            root=str(folder),
            font_paths=[str(fonts)],
            ignore_system_fonts=True,
            format="pdf",
        )


def _for_typst(report: Report, folder: Path) -> dict[str, object]:
    """The report as JSON values.

    SVGs become files in `folder`, data tables of figures and of turns are left to the HTML.
    """
    fields = asdict(report)
    fields["overview"] = _figure_files(report.overview, folder)
    for section, source in zip(fields["sections"], report.sections, strict=True):
        section["figures"] = [_figure_files(f, folder) for f in source.figures]
        for slide in section["microscope"]["slides"] if section["microscope"] else ():
            for turn in slide["turns"]:
                turn["table"] = None
    return fields


def _figure_files(figure: Figure, folder: Path) -> dict[str, object]:
    fields: dict[str, Any] = asdict(figure) | {"table": None}
    slug = re.sub(r"[^a-z0-9]+", "-", figure.id.lower())
    for kind in ("panels", "legend"):
        for place, part in enumerate(fields[kind]):
            name = f"{slug}-{kind}-{place}.svg"
            (folder / name).write_text(part["svg"], encoding="utf-8")
            part["svg"] = name
    return fields

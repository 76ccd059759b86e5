"""What the report says is what the records hold, in HTML and PDF."""

import re
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise

import duckdb
import pytest
from pypdf import PdfReader

from arena.analysis.tokens import GROUPS
from arena.errors import UsageError
from arena.records.files import write_json
from arena.records.reader import read_run
from arena.report import build_report
from arena.report.build import render_pdf
from arena.report.content import compose_report
from arena.report.document import RowGroup, Table
from arena.report.token_figures import GROUP_COLOURS
from tests.synthetic import Size, write_cell


@pytest.fixture(scope="module")
def report(built):
    return compose_report(read_run(built.run))


@pytest.fixture(scope="module")
def page(built):
    return built.html.read_text()


@pytest.fixture(scope="module")
def pdf_text(built):
    text = " ".join(p.extract_text() for p in PdfReader(built.pdf).pages)
    return re.sub(r"\s+", " ", text)


def success(run, env, algo, step, temperature):
    """Success of each seed, straight from the files."""
    query = """
        SELECT avg(success::INT) FROM read_parquet($files, filename = true)
        WHERE step = $step AND temperature = $temperature GROUP BY filename ORDER BY filename
    """
    files = [str(f) for f in sorted(run.glob(f"cells/{env}/{algo}/seed-*/evals.parquet"))]
    rows = duckdb.execute(query, {"files": files, "step": step, "temperature": temperature}).fetchall()
    return [value for (value,) in rows]


def row_of(table, group, method):
    rows = {g.title.split(",")[0]: {r[0]: r for r in g.rows} for g in table.groups}
    return dict(zip(table.header, rows[group][method], strict=True))


def test_summary_numbers_are_those_of_the_records(built, report):
    row = row_of(report.summary, "Sokoban", "cispo")
    by_step = [success(built.run, "sokoban", "cispo", step, 0.5) for step in (0, 4, 8, 12)]
    # The largest running mean of two evaluations, the start or the end.
    peaks = [max(v[0], v[-1], *((a + b) / 2 for a, b in pairwise(v))) for v in zip(*by_step, strict=True)]
    drops = [peak - final for peak, final in zip(peaks, by_step[-1], strict=True)]

    def shown(values):
        low, high = (f"{100 * f(values):.1f}" for f in (min, max))
        return f"{100 * sum(values) / len(values):.1f}" + (f"\n{low}–{high}" if low != high else "")

    assert row["Seeds finished"] == "2 of 2"
    assert row["Start"] == shown(by_step[0])
    assert row["Peak"] == shown(peaks)
    assert row["Final"] == shown(by_step[-1])
    assert row["Peak to final, points"] == shown(drops)
    assert row["Final, T\u00a0=\u00a01"] == shown(success(built.run, "sokoban", "cispo", 12, 1.0))
    # 2 groups of 4 episodes of 2 turns of 6 tokens, 12 steps of 1.5 seconds
    assert row["Tokens, millions"].splitlines()[0] == "0.00115"
    assert row["Seconds"].splitlines()[0] == "18"


def test_best_start_is_the_best_temperature_of_each_seed(built, report):
    starts = [success(built.run, "sokoban", "cispo", 0, t) for t in (0.0, 0.5, 1.0)]
    best = [max(values) for values in zip(*starts, strict=True)]
    shown = row_of(report.summary, "Sokoban", "cispo")["Start, best\u00a0T"].splitlines()
    assert shown[0] == f"{100 * sum(best) / 2:.1f}"


def test_the_summary_names_the_collapse_and_the_failed_cell(report):
    lake, sokoban = report.findings
    assert lake.title == "FrozenLake"
    assert lake.sentences[0].startswith("Not all cells are finished")
    assert lake.sentences[1].startswith("The methods do not cover the same seeds")
    assert any(re.match(r"cispo fell after its peak, .* in 2 of 2 seeds\.", s) for s in sokoban.sentences)
    assert not any(s.startswith(("grpo fell", "sampo fell")) for s in sokoban.sentences)
    assert any("gspo+dynamic / seed 0 (failed at step 5 of 12" in c for c in report.caveats)
    assert any(c.startswith("1 to 2 seeds per method") for c in report.caveats)


def test_the_first_page_ranks_the_methods_and_says_what_warned(report, page, pdf_text):
    (group,) = report.ranking.groups
    assert group.title == "FrozenLake and Sokoban, seeds 0 and 1: 2 seeds give no interval; it takes 3"
    assert {row[0]: row[5] for row in group.rows} == {
        "grpo": "0 of 4 cells",
        "sampo": "0 of 4 cells",
        "cispo": "2 of 4 cells",
    }
    assert group.rows[-1][0] == "cispo"
    assert "Not ranked, without a finished cell: gspo+dynamic." in report.ranking.caption
    (collapse,) = report.collapses
    assert collapse.title == "cispo, Sokoban:"
    for text in (group.title, collapse.sentences[0]):
        assert text in page
        assert text in pdf_text
    assert page.index("In one minute") < page.index('id="detectors"') < page.index('id="energy"')
    assert page.index('id="energy"') < page.index('id="provenance"')


def test_the_page_has_the_command_and_the_error(page):
    assert "arena run --algos grpo,sampo,cispo --envs all --num-seeds 2 --name synthetic" in page
    assert "0123456789abcdef0123456789abcdef01234567" in page
    assert "RuntimeError: the loss is not finite" in page


def test_every_figure_is_there_with_panels_text_and_numbers(report):
    expected = ["success", "movement", "sampling", "out-of-band", "clipped", "ratios", "groups"]
    *environments, detectors, energy = report.sections
    assert [s.id for s in report.sections] == ["frozen_lake", "sokoban", "detectors", "energy"]
    assert [f.id for f in detectors.figures] == ["alarms"]
    assert [f.id for f in energy.figures] == ["frozen_lake-energy", "sokoban-energy"]
    for section in report.sections:
        if section in environments:
            assert [f.id.removeprefix(f"{section.id}-") for f in section.figures] == expected
        for figure in section.figures:
            assert figure.panels
            assert figure.table is not None
            assert all(len(row) == len(figure.table.header) for g in figure.table.groups for row in g.rows)
            assert all(re.search(r"\d", p.alt) and len(p.alt) > 80 for p in figure.panels)
    assert len(report.overview.panels) == 2


def test_data_tables_hold_the_curves(built, report):
    sokoban = report.sections[1]
    table = sokoban.figures[0].table
    cispo = {row[0]: row[1] for g in table.groups if g.title == "cispo" for row in g.rows}
    values = success(built.run, "sokoban", "cispo", 8, 0.5)
    low, high = (f"{100 * f(values):.1f}" for f in (min, max))
    assert cispo["8"] == f"{100 * sum(values) / 2:.1f}\u00a0% · {low}–{high}"


def test_energy_has_a_section_with_its_numbers(report, page, pdf_text):
    energy = report.sections[-1]
    correlations, roles = energy.tables
    assert [g.title for g in correlations.groups] == [
        "First 5 steps",
        "Whole run",
        "Published, coefficient not stated",
    ]
    whole = {row[0]: row[1:] for row in correlations.groups[1].rows}
    # Made so: only the energy of action tokens rises with the spread. Two seeds give no interval.
    assert list(whole) == ["FrozenLake", "Sokoban", "Mean of environments"]
    for action, _, thought, *_ in whole.values():
        assert float(action) > 0.3 > abs(float(thought.replace("−", "-")))
    assert correlations.groups[2].rows[0][1:3] == ("0.537", "0.537")
    # Of 6 tokens the first, a tag, and two more are thought, two action, the last the end.
    shares = {row[0]: row[1:] for row in roles.groups[0].rows}["grpo"]
    assert shares == ("33.3\u00a0%", "40.0\u00a0%")
    assert [p.title for p in energy.figures[0].panels] == [
        "Variance of reward, by action tokens",
        "Variance of reward, by thought tokens",
        "Variance of reward, by all response tokens",
    ]
    told = f"Whole run, {whole['Sokoban'][6]} tasks: Spearman {whole['Sokoban'][0]}"
    assert told in energy.figures[1].panels[0].alt
    assert energy.figures[1].panels[0].alt in page
    assert "Energy and the variance of rewards" in pdf_text


class Collector(HTMLParser):
    """Start tags with their attributes."""

    def __init__(self):
        super().__init__()
        self.tags = []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))


@pytest.fixture(scope="module")
def tags(page):
    collector = Collector()
    collector.feed(page)
    return collector.tags


def test_figures_have_text_alternatives_and_captions(tags, report):
    panels = sum(len(f.panels) for s in report.sections for f in s.figures) + len(report.overview.panels)
    named = [a for t, a in tags if t == "svg" and a.get("role") == "img"]
    decorative = [a for t, a in tags if t == "svg" and a.get("aria-hidden") == "true"]
    assert len(named) == panels
    assert len(named) + len(decorative) == sum(t == "svg" for t, _ in tags)
    assert all(len(a["aria-label"]) > 80 for a in named)
    assert not [t for t, _ in tags if t == "img"]
    figures = sum(t == "figure" for t, _ in tags)
    assert (
        figures == sum(t == "figcaption" for t, _ in tags) == 1 + sum(len(s.figures) for s in report.sections)
    )


def test_tables_have_captions_and_scopes(tags):
    assert sum(t == "table" for t, _ in tags) == sum(t == "caption" for t, _ in tags) > 10
    assert all(a.get("scope") in ("col", "row", "rowgroup") for t, a in tags if t == "th")


def test_the_page_is_self_contained_and_its_ids_are_unique(tags, page, built):
    ids = [a["id"] for _, a in tags if "id" in a]
    assert len(ids) == len(set(ids))
    used = re.findall(r'(?:href|xlink:href)="#([^"]+)"|url\(#([^)]+)\)', page)
    assert {a or b for a, b in used} <= set(ids)
    links = [a[k] for _, a in tags for k in ("src", "href", "xlink:href") if k in a]
    assert all(link.startswith("#") or link == "data:," for link in links)
    assert ("html", {"lang": "en"}) in tags
    assert built.html.stat().st_size < 5_000_000


def test_the_pdf_says_the_same(pdf_text, report):
    for text in (
        report.title,
        "In one minute",
        "Collapses, and what warned before",
        "cispo fell after its peak",
        "Provenance: what was run, and how to run it again",
        "RuntimeError: the loss is not finite",
        "Who carries the KL: eight groups of sequences",
    ):
        assert text in pdf_text
    final = row_of(report.summary, "Sokoban", "cispo")["Final"].splitlines()
    assert all(part in pdf_text for part in final)


def test_the_pdf_embeds_its_fonts_and_alternatives(built):
    reader = PdfReader(built.pdf)
    fonts = {
        str(font.get_object()["/BaseFont"])
        for page in reader.pages
        for font in page["/Resources"]["/Font"].get_object().values()
    }
    assert {name.split("+")[1].split("-")[0] for name in fonts} <= {
        "DejaVuSans",
        "DejaVuSansMono",
        "LibertinusSerif",
    }
    assert reader.trailer["/Root"]["/MarkInfo"]["/Marked"]


def test_the_heading_of_a_group_stands_with_its_rows_on_every_page(report, tmp_path):
    names = [f"Group {k}" for k in range(40)]
    for more in range(3):  # so that the pages end elsewhere
        rows = (("method", "1.5\n1.0 to 2.0"),) * (1 + more)
        table = Table("", ("Method", "Value"), tuple(RowGroup(name, rows) for name in names))
        few = replace(report, summary=table, sections=(), overview=replace(report.overview, panels=()))
        render_pdf(few, tmp_path / "few.pdf")
        pages = [page.extract_text().splitlines() for page in PdfReader(tmp_path / "few.pdf").pages]
        below = [page[k + 1] for page in pages for k, line in enumerate(page) if line in names]
        assert len(below) >= 40
        assert len([page for page in pages if set(page) & set(names)]) > 1
        assert all(line.startswith("method") for line in below)


def test_same_run_same_bytes(built, tmp_path):
    told = []
    html, pdf = build_report(built.run, tmp_path, told.append)
    assert told == [
        f"reading 13 cells of {built.run}",
        "examining them with detectors",
        "drawing the figures of each environment",
        "correlating energy with rewards",
        "testing published claims",
        "writing report.html and report.pdf",
    ]
    assert html.read_bytes() == built.html.read_bytes()
    assert pdf.read_bytes() == built.pdf.read_bytes()


def test_hostile_names_are_text_not_markup(tmp_path):
    run = tmp_path / "runs" / "x"
    write_cell(
        run, "sokoban", '<b>"&', 0, Size(steps=2, groups=1, turns=1, tokens=4, eval_episodes=4, eval_every=1)
    )
    write_json(run / "manifest.json", {"command": "arena run --name '<script>#panic()</script>'"})
    html, pdf = build_report(run, tmp_path / "out")
    page = html.read_text()
    assert "<script>" not in page
    assert "<b>" not in page
    assert any("<script>#panic()</script>" in page.extract_text() for page in PdfReader(pdf).pages)


def test_a_run_with_nothing_recorded_yet_is_reported_as_such(tmp_path):
    entry = {"env": "sokoban", "algo": "grpo", "seed": 0, "state": "pending", "error": None}
    write_json(tmp_path / "r" / "manifest.json", {"cells": [entry]})
    html, _ = build_report(tmp_path / "r", tmp_path / "out")
    assert "No cell has an evaluation yet." in html.read_text()


def test_a_run_without_token_records_has_the_other_figures(tmp_path):
    cell = write_cell(
        tmp_path / "r", "sokoban", "grpo", 0, Size(steps=2, groups=1, turns=1, tokens=4, eval_every=1)
    )
    for file in (cell / "tokens").iterdir():
        file.unlink()
    section, detectors = compose_report(read_run(tmp_path / "r")).sections
    assert detectors.id == "detectors"
    assert [f.id for f in section.figures] == [
        f"sokoban-{name}" for name in ("success", "movement", "sampling", "out-of-band", "clipped")
    ]


def test_an_empty_run_is_refused_and_leaves_nothing(tmp_path):
    write_json(tmp_path / "r" / "manifest.json", {})
    with pytest.raises(UsageError, match="has no cells to report"):
        build_report(tmp_path / "r", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_every_group_has_its_own_colour():
    assert tuple(GROUP_COLOURS) == GROUPS
    assert len(set(GROUP_COLOURS.values())) == len(GROUPS)

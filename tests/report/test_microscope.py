"""Turns as coloured text: what is shown is what was recorded, in reach of every reader."""

import math
from dataclasses import replace
from html.parser import HTMLParser

import duckdb
import pandas as pd
import pytest
from pypdf import PdfReader
from tokenizers import Tokenizer, decoders, models

from arena.records.reader import read_run
from arena.report.build import render_html, render_pdf
from arena.report.content import compose_report
from arena.report.microscope import LEVELS, SHOWN, _gradient, channels, colour
from tests.synthetic import Size, write_cell

#: The words of ids 0 to 63, as hostile as tokens can be.
WORDS = ("<b>&\"'", "\n", "\x07", *(f" w{k}" for k in range(3, 64)))


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A cell that collapses and one that does not, and the start's tokenizer."""
    path = tmp_path_factory.mktemp("microscope") / "r"
    for algo in ("grpo", "cispo"):
        write_cell(path, "sokoban", algo, 0, Size(steps=16, groups=2, turns=2, tokens=6, eval_every=2))
    tokenizer = Tokenizer(models.WordLevel({w: i for i, w in enumerate(WORDS)}, unk_token=WORDS[0]))
    tokenizer.decoder = decoders.Fuse()
    (path / "bc" / "sokoban" / "seed-0" / "model").mkdir(parents=True)
    tokenizer.save(str(path / "bc" / "sokoban" / "seed-0" / "model" / "tokenizer.json"))
    return path


@pytest.fixture(scope="module")
def report(run):
    return compose_report(read_run(run))


@pytest.fixture(scope="module")
def scope(report):
    (section,) = (section for section in report.sections if section.microscope)
    return section.microscope


class Shown(HTMLParser):
    """The text, title and classes of each token, and the rows of each table below the heading of the section."""

    def __init__(self):
        super().__init__()
        self.tokens, self.rows, self.inside, self.cell = [], [], False, None

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        if tag == "p":
            self.inside = attributes.get("class") == "tokens"
        if tag == "span" and self.inside:
            self.tokens.append([attributes["class"].split(), attributes["title"], ""])
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th") and self.rows:
            self.rows[-1].append("")
            self.cell = True

    def handle_endtag(self, tag):
        if tag in ("td", "th"):
            self.cell = None
        if tag == "p":
            self.inside = False

    def handle_data(self, data):
        if self.inside:
            self.tokens[-1][2] += data
        if self.cell:
            self.rows[-1][-1] += data


def recorded(run, algo, step):
    """The tokens of the three turns that moved most, straight from the file."""
    file = run / "cells" / "sokoban" / algo / "seed-0" / "tokens" / f"step-{step:05d}.parquet"
    rows = duckdb.execute("SELECT * FROM read_parquet(?)", [str(file)]).df()
    turns = [turn for _, turn in rows.groupby(["episode_id", "turn"])]
    turns.sort(key=lambda turn: -turn.log_ratio.abs().mean())
    return [turn.sort_values("position") for turn in turns[:3]]


def test_the_collapsed_method_comes_first_at_its_onset(report, scope):
    first, second = scope.slides
    (collapse,) = report.collapses
    step = int(first.title.rsplit(" ", 1)[1])
    assert f"from step {step} on" in collapse.sentences[0]
    assert first.title == f"cispo, seed 0, step {step}"
    assert first.why == "where its collapse began"
    assert second.title.startswith("grpo, seed 0, step ")
    assert [len(s.turns) for s in scope.slides] == [3, 3]


def test_every_token_has_its_numbers_where_it_stands_and_in_a_table(run, report, scope):
    parser = Shown()
    parser.feed(render_html(report))
    tokens, rows = iter(parser.tokens), [row for row in parser.rows if len(row) == 8]
    assert len(parser.tokens) == 2 * 3 * 6
    for slide in scope.slides:
        algo, step = slide.title.split(",")[0], int(slide.title.rsplit(" ", 1)[1])
        for turn in recorded(run, algo, step):
            for row in turn.itertuples():
                classes, title, text = next(tokens)
                assert text == {1: "↵\n", 2: "␇"}.get(row.token_id, WORDS[row.token_id])
                values = [row.log_ratio, row.energy, row.advantage, row.weight]
                numbers = [f"{v:.5g}".replace("-", "−") for v in values]
                names = ("log ratio", "energy", "advantage", "weight")
                parts = [f"{n} {v}" for n, v in zip(names, numbers, strict=True)]
                gradient = (
                    "clipped low" if row.clipped_low else "clipped high" if row.clipped_high else "kept"
                )
                assert title == " · ".join([*parts, row.role, f"gradient {gradient}"])
                assert ("x" in classes) == (gradient != "kept")
                quoted = f"“{text.strip(chr(10))}”".replace(" ", "\u00a0")
                assert [str(row.position), quoted, row.role, *numbers, gradient] in rows
                levels = [c for c in classes if c.startswith("r")]
                edges = sum(abs(row.log_ratio) >= e for e in (0.01, 0.05, 0.2, 1.0))
                assert levels == ([f"r{int(math.copysign(edges, row.log_ratio))}"] if edges else [])


def test_markup_in_tokens_is_text(report):
    page = render_html(report)
    assert "<b>" not in page
    assert "&lt;b&gt;&amp;&#34;&#39;" in page


def test_each_lens_has_a_legend_of_the_levels_it_shows(scope):
    assert [lens.title for lens in scope.lenses] == ["log ratio", "energy", "advantage", "weight"]
    for lens in scope.lenses:
        shown = {
            int(c[1:])
            for slide in scope.slides
            for turn in slide.turns
            for token in turn.tokens
            for c in token.classes.split()
            if c[0] == lens.key
        }
        named = {level.number for level in lens.legend}
        assert shown <= named
        assert named - shown <= {0}


def words(legend):
    return [(level.number, level.label) for level in legend]


def test_levels_and_their_words(run):
    tokens = recorded(run, "cispo", 16)[0].assign(energy=[-12.0, -11, -10, -9, -8, -7])
    ratio, energy, advantage, weight = channels(tokens)
    assert [ratio.level(v) for v in (-3, -1, -0.2, -0.009, 0.01, 0.06, math.nan)] == [-4, -4, -3, 0, 1, 2, 0]
    assert words(ratio.legend([-3, 0, 0.3])) == [(-4, "below −1"), (0, "−0.01 to 0.01"), (3, "0.2 to 1")]
    assert [energy.level(v) for v in tokens.energy] == [0, 1, 2, 3, 4, 4]
    assert words(energy.legend([-12.0, -11, -7])) == [(0, "below −11"), (1, "−11 to −10"), (4, "above −8")]
    assert [advantage.level(v) for v in (-2.4, -0.5, 0.0, 1.2)] == [-4, -2, 0, 3]
    assert [weight.level(v) for v in (0.1, 1.0, 1.3)] == [-4, 0, 3]
    assert words(weight.legend([0.1, 1.3])) == [(-4, "below 0.5"), (3, "1.25 to 1.5")]


def luminance(colour):
    parts = (int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5))
    linear = [p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return sum(w * p for w, p in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def test_ink_can_be_read_on_every_level():
    for level in (-4, -3, -2, -1, 1, 2, 3, 4):
        assert (luminance(colour(level)) + 0.05) / (luminance("#1f2328") + 0.05) > 5
    assert colour(0) == ""
    assert sorted(LEVELS) == [-4, -3, -2, -1, 1, 2, 3, 4]


def test_page_and_legend_have_the_same_colours(report, scope):
    page = render_html(report)
    for level, (hue, share) in LEVELS.items():
        assert (
            f".w{level} {{ background: color-mix(in srgb, var(--paper), {hue} {100 * share:.0f}%); }}" in page
        )
    fills = {level.number: level.fill for lens in scope.lenses for level in lens.legend}
    assert fills == {number: colour(number) for number in fills}
    assert len(fills) > 4


def test_of_a_long_turn_the_tokens_around_the_most_extreme_one_are_shown(tmp_path):
    """And each takes less than 400 bytes: two cells of three such turns in six environments 2.9 MB of the 8."""
    write_cell(
        tmp_path / "r", "sokoban", "grpo", 0, Size(steps=1, groups=1, turns=1, tokens=500, eval_every=1)
    )
    report = compose_report(read_run(tmp_path / "r"))
    (section,) = (section for section in report.sections if section.microscope)
    turn = section.microscope.slides[0].turns[0]
    rows = recorded(tmp_path / "r", "grpo", 1)[0]
    top = int(rows.log_ratio.abs().to_numpy().argmax())
    start = min(max(0, top - SHOWN // 2), 500 - SHOWN)
    assert turn.moved.endswith(f"500 tokens, of which {start + 1} to {start + SHOWN} are shown")
    positions = [row[0] for row in turn.table.groups[0].rows]
    assert positions == [str(p) for p in range(start, start + SHOWN)]
    # Without a tokenizer the ids are shown.
    assert [t.text for t in turn.tokens] == [f"#{i}" for i in rows.token_id[start : start + SHOWN]]
    without = replace(report, sections=(replace(section, microscope=None),))
    tokens = sum(len(t.tokens) for t in section.microscope.slides[0].turns)
    assert tokens == 3 * SHOWN
    assert len(render_html(report)) - len(render_html(without)) < 400 * tokens


def test_the_pdf_has_the_turns_and_their_most_extreme_tokens(report, scope, tmp_path):
    render_pdf(report, tmp_path / "report.pdf")
    text = " ".join(page.extract_text() for page in PdfReader(tmp_path / "report.pdf").pages)
    text = " ".join(text.split())
    for slide in scope.slides:
        assert f"{slide.title}: {slide.why}" in text
        for turn in slide.turns:
            rows = turn.table.groups[0].rows
            furthest = sorted(rows, key=lambda row: -abs(float(row[3].replace("−", "-"))))[:5]
            assert all(f"{row[1]} at {row[0]}: {row[3]}" in turn.extremes for row in furthest)
            assert " ".join(turn.extremes.split()) in text


def test_a_missing_flag_is_no_clip():
    flags = {"masked": pd.NA, "clipped_low": None, "clipped_high": True}
    assert _gradient(pd.Series(flags, dtype=object)) == "clipped high"
    assert _gradient(pd.Series({**flags, "clipped_high": False}, dtype=object)) == "kept"

"""The stability map of a stress test in the report of its run."""

import pytest

from arena.analysis.margin import Point, StressGrid, stabilities
from arena.records.files import write_json
from arena.records.reader import load_evals, read_run
from arena.report.build import render_html
from arena.report.content import compose_report
from arena.report.panels import Tile, map_panel
from arena.report.stability import stability_figure
from tests.report.test_panels import assert_labelled_inside, drawn  # noqa: F401
from tests.synthetic import MANIFEST, Size, write_cell, write_run

SIZE = Size(steps=20, groups=2, turns=2, tokens=4, eval_episodes=128)
POINT = "stress/lr-2-updates-1"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """cispo collapses at the tier's rate and was not run at twice of it; grpo holds at both."""
    run = write_run(tmp_path_factory.mktemp("s") / "r", SIZE, ["sokoban"], ["cispo", "grpo"], seeds=[0])
    write_cell(run / POINT, "sokoban", "grpo", 0, SIZE)
    write_json(run / POINT / "manifest.json", MANIFEST)
    points = [{"learning_rate": r, "updates": 1, "run": where} for r, where in ((1, "."), (2, POINT))]
    grid = {
        "schema_version": 1,
        "envs": ["sokoban"],
        "algos": ["cispo", "grpo"],
        "seeds": [0],
        "points": points,
    }
    write_json(run / "stress.json", grid)
    return run


def gain(run, algo):
    evals = load_evals([c for c in read_run(run).cells if c.algo == algo])
    success = evals[evals.temperature == 0.5].groupby("step").success.mean()
    return f"{100 * (success[20] - success[0]):+.1f}"


def test_the_map_has_a_section_with_its_words_and_its_numbers(run):
    report = compose_report(read_run(run))
    (section,) = (s for s in report.sections if s.id == "stability")
    (figure,) = section.figures
    assert (section.title, figure.title) == ("Stability map", "Sokoban")
    assert [p.title for p in figure.panels] == ["grpo: margin >= 2x", "cispo: margin < 1x"]
    grpo, cispo = figure.panels
    assert cispo.alt.endswith(
        f"Margin < 1x. learning rate 1x, updates 1x: {gain(run, 'cispo')}, 1/1 collapsed. "
        "learning rate 2x, updates 1x: beyond."
    )
    assert f"learning rate 2x, updates 1x: {gain(run / POINT, 'grpo')}, 0/1 collapsed." in grpo.alt
    assert [(g.title, g.rows) for g in figure.table.groups][1] == (
        "cispo: margin < 1x (1 of 1 seeds; one seed gives no interval; it takes 3)",
        (
            ("1x", "1x", "1", "1", "0", "0", gain(run, "cispo")),
            ("2x", "1x", "0", "0", "0", "1", "—"),
        ),
    )
    page = render_html(report)
    assert "cispo: margin &lt; 1x" in page


def test_a_seed_whose_cell_crashed_leaves_no_margin(tmp_path):
    run = write_run(tmp_path / "r", SIZE, ["sokoban"], ["grpo"], seeds=[0])
    write_cell(run, "sokoban", "grpo", 1, SIZE, last_step=5)
    grid = StressGrid(run, ("sokoban",), ("grpo",), (0, 1), (Point(1.0, 1, "."),))
    figure = stability_figure("sokoban", stabilities(grid))
    (panel,) = figure.panels
    assert panel.title == "grpo: margin — (1 of 2 seeds, 1 cell crashed)"
    assert "Margin not known: 1 of 2 seeds, 1 cell crashed." in panel.alt
    assert [g.title for g in figure.table.groups] == [panel.title]
    assert "mean over finished seeds" in figure.caption


def test_other_runs_have_no_map(built):
    report = compose_report(read_run(built.run))
    assert not any(s.id == "stability" for s in report.sections)


@pytest.mark.parametrize("columns", [1, 3, 5])
def test_the_numbers_of_a_map_stand_in_their_tiles(drawn, columns):  # noqa: F811
    tiles = [
        [
            Tile((f"{row}.{column}", "10/10 collapsed", "1 lost, 1 beyond"), "#ffffff")
            for column in range(columns)
        ]
        for row in range(4)
    ]
    map_panel(tiles, ["1x", "2x", "4x", "8x"], [f"updates {k}x" for k in range(columns)], "learning rate")
    canvas, texts, boxes = drawn[0]
    assert_labelled_inside(canvas, texts, boxes)
    axes = canvas.axes[0]
    assert len(axes.texts) == 4 * columns
    for text in axes.texts:
        x, y = text.get_position()
        assert text.get_text().startswith(f"{y - 0.5:.0f}.{x - 0.5:.0f}\n")
        (left, bottom), (right, top) = axes.transData.transform([(x - 0.5, y + 0.5), (x + 0.5, y - 0.5)])
        box = text.get_window_extent()
        assert left <= box.x0
        assert box.x1 <= right
        assert bottom <= box.y0
        assert box.y1 <= top

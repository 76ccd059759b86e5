"""Ticks and numbers that a reader meets."""

import pandas as pd
import pytest

from arena.analysis.statistics import spread_over_seeds
from arena.report import panels
from arena.report.panels import Journey, Scale, journey_panel, line_panel, log_label, log_ticks, short_number
from arena.report.style import method_styles
from arena.report.wording import count, listing, percent, seeds_range, with_spread


@pytest.mark.parametrize(
    ("limits", "ticks"),
    [
        ((0.7, 1.4), [0.8, 1, 1.2]),
        ((0.19, 6), [0.2, 0.5, 1, 2, 5]),
        ((2e-6, 0.5), [1e-5, 1e-4, 1e-3, 1e-2, 1e-1]),
        ((1e-10, 1), [1e-10, 1e-8, 1e-6, 1e-4, 1e-2, 1]),
    ],
)
def test_log_ticks(limits, ticks):
    assert log_ticks(*limits) == pytest.approx(ticks)


def test_log_labels():
    values = (2e-10, 1.5e-4, 5e-4, 0.001, 0.0012, 0.5, 20, 100_000, 1e13)
    shown = ["2e-10", "1.5e-4", "5e-4", "0.001", "0.0012", "0.5", "20", "100 k", "1e13"]
    assert [log_label(v) for v in values] == shown


@pytest.fixture
def drawn(monkeypatch):
    """The canvases of the panels drawn in a test, laid out."""
    canvases = []

    def keep(canvas):
        canvas.draw_without_rendering()
        labels = [t for a in canvas.axes for axis in (a.xaxis, a.yaxis) for t in labels_in_view(axis)]
        boxes = [t.get_window_extent() for t in labels]
        canvases.append((canvas, [t.get_text() for t in labels], boxes))
        return ""

    monkeypatch.setattr(panels, "to_svg", keep)
    return canvases


def labels_in_view(axis):
    low, high = axis.get_view_interval()
    return [tick.label1 for tick in axis.get_major_ticks() if low <= tick.get_loc() <= high]


def assert_labelled_inside(canvas, texts, boxes):
    assert texts
    assert all(texts)
    for text, box in zip(texts, boxes, strict=True):
        assert box.x0 >= 0, text
        assert box.y0 >= 0, text
        assert box.x1 <= canvas.bbox.x1, text
        assert box.y1 <= canvas.bbox.y1, text


@pytest.mark.parametrize(
    "limits", [(1.1e-4, 8e-4), (1.5e-4, 0.02), (2e-6, 0.5), (1.1e-10, 9e-10), (0.001, 0.009), (2e4, 9e5)]
)
@pytest.mark.parametrize("last", [30, 1200])
def test_every_tick_of_a_log_panel_is_labelled_inside_it(drawn, limits, last):
    low, high = limits
    curve = pd.DataFrame({"algo": "grpo", "x": [0, last], "mean": [low, high], "low": low, "high": high})
    line_panel(curve, Scale("training step", (0, last), limits, log=True), method_styles(["grpo"]))
    assert_labelled_inside(*drawn[0])
    assert not any(line.get_clip_on() for line in drawn[0][0].axes[0].lines)


def test_the_last_tick_of_a_journey_is_inside_it(drawn):
    journey_panel(
        [Journey("grpo", 0.3, 1.0, 1.0, (1.0,))], Scale("success", (0, 1.0), (0, 1)), method_styles(["grpo"])
    )
    assert "100 %" in drawn[0][1]
    assert_labelled_inside(*drawn[0])


def test_short_number():
    assert [short_number(x) for x in (0, 7, 999, 12_000, 1_234_567)] == ["0", "7", "999", "12 k", "1.23 M"]


def test_spread_in_words():
    assert with_spread(spread_over_seeds([0.5]), percent) == "50.0\u00a0%"
    assert with_spread(spread_over_seeds([0.5, 0.6]), percent) == "55.0\u00a0%\n50.0–60.0"
    assert with_spread(spread_over_seeds([7.0, 7.0]), count) == "7"
    # mean 0.2, half width 4.3027 * 0.1 / sqrt(3) = 0.2484
    assert (
        with_spread(spread_over_seeds([0.1, 0.2, 0.3]), percent) == "20.0\u00a0%\n10.0–30.0\nCI -4.8 to 44.8"
    )
    assert with_spread(None, percent) == "—"


def test_listing():
    assert [listing(x) for x in (["a"], ["a", "b"], ["a", "b", "c"])] == ["a", "a and b", "a, b and c"]


def test_seeds_in_words():
    assert [seeds_range(x) for x in ([1, 1], [2, 2], [1, 3, 2])] == ["1 seed", "2 seeds", "1 to 3 seeds"]

"""The stability map of a stress test: a panel per method, learning rate against updates per rollout."""

from __future__ import annotations

from collections.abc import Sequence

from arena.analysis.margin import MapCell, Stability, read_grid, stabilities
from arena.records.reader import Run
from arena.report.document import Figure, LegendItem, Panel, RowGroup, Section, Table
from arena.report.panels import Tile, map_panel, patch_swatch
from arena.report.style import BLUE, VERMILLION, method_order, tint
from arena.report.wording import MISSING, env_title

#: A change of success by so much has the full colour, which has 30 % of white for the text to stand on.
_FULL, _WHITE = 0.5, 0.3
#: Of what was not run.
_BEYOND = "#e4e6e9"


def stability_section(run: Run) -> Section | None:
    """A map for each environment; None if the run is no stress test."""
    grid = read_grid(run.path)
    found = stabilities(grid) if grid else []
    figures = tuple(
        stability_figure(env, [s for s in found if s.env == env])
        for env in dict.fromkeys(s.env for s in found)
    )
    return Section("stability", "Stability map", "", figures) if figures else None


def stability_figure(env: str, found: Sequence[Stability]) -> Figure:
    """The map and margin of every method in one environment."""
    methods = method_order([s.algo for s in found])
    found = sorted(found, key=lambda s: methods.index(s.algo))
    caption = (
        "Rows: factors of the tier's learning rate; columns: factors of its updates per rollout (passes over it). In "
        "a cell: final success minus that of the start, in points, mean over finished seeds; then how many of these "
        "collapsed. Lost: fell to less than the start, or to less than half of the peak too late to say whether it "
        "stays. Beyond: not run, because the seed had failed at a lower rate. Margin: the factor of the learning rate "
        "up to which runs hold, between the last that holds and the first that fails; geometric mean over numbers of "
        "updates and seeds, given once every seed is complete."
    )
    legend = (
        LegendItem(patch_swatch(tint(BLUE, _WHITE)), "ends above the start"),
        LegendItem(patch_swatch(tint(VERMILLION, _WHITE)), "ends below the start"),
        LegendItem(patch_swatch(_BEYOND), "not run: failed at a lower learning rate"),
    )
    title = f"{env_title(env)}: stability map"
    panels = tuple(Panel(_title(s), _panel(s), _alt(s)) for s in found)
    return Figure(f"{env}-stability", env_title(env), caption, legend, panels, _table(title, found))


def _title(stability: Stability) -> str:
    why = f" ({stability.why_no_margin})" if stability.why_no_margin else ""
    return f"{stability.algo}: margin {stability.margin or MISSING}{why}"


def _panel(stability: Stability) -> str:
    rates = list(dict.fromkeys(cell.learning_rate for cell in stability.cells))
    tiles = [[_tile(cell) for cell in stability.cells if cell.learning_rate == rate] for rate in rates]
    counts = [cell.updates for cell in stability.cells if cell.learning_rate == rates[0]]
    columns = [f"updates {count}x" for count in counts]
    return map_panel(tiles, [f"{rate:g}x" for rate in rates], columns, "learning rate")


def _tile(cell: MapCell) -> Tile:
    if not cell.finished:
        return Tile(("beyond",), _BEYOND, hatched=True) if cell.beyond else Tile((MISSING,), None)
    others = ", ".join(_others(cell))
    lines = (_gain(cell), f"{cell.collapsed}/{cell.finished} collapsed", *([others] if others else []))
    return Tile(lines, _colour(cell.gain))


def _colour(gain: float | None) -> str | None:
    if gain is None:
        return None
    strength = min(1.0, abs(gain) / _FULL)
    return tint(BLUE if gain >= 0 else VERMILLION, 1 - (1 - _WHITE) * strength)


def _others(cell: MapCell) -> list[str]:
    return [f"{count} {word}" for count, word in ((cell.lost, "lost"), (cell.beyond, "beyond")) if count]


def _gain(cell: MapCell) -> str:
    return MISSING if cell.gain is None else f"{100 * cell.gain:+.1f}"


def _alt(stability: Stability) -> str:
    cells = [
        f"learning rate {c.learning_rate:g}x, updates {c.updates}x: {', '.join(_tile(c).lines)}."
        for c in stability.cells
    ]
    return (
        f"Stability map of {stability.algo} on {env_title(stability.env)}, final minus start in points and seeds "
        f"collapsed. Margin {stability.margin or f'not known: {stability.why_no_margin}'}. {' '.join(cells)}"
    )


def _table(title: str, found: Sequence[Stability]) -> Table:
    header = (
        "Learning rate",
        "Updates",
        "Seeds finished",
        "Collapsed",
        "Lost",
        "Beyond",
        "Final minus start, points",
    )
    groups = tuple(RowGroup(_heading(s), tuple(_row(cell) for cell in s.cells)) for s in found)
    return Table(title, header, groups)


def _heading(stability: Stability) -> str:
    if stability.margin is None:
        return _title(stability)
    return f"{_title(stability)} ({stability.seeds} of {stability.seeds} seeds; {stability.interval_text})"


def _row(cell: MapCell) -> tuple[str, ...]:
    counts = (cell.finished, cell.collapsed, cell.lost, cell.beyond)
    return (f"{cell.learning_rate:g}x", f"{cell.updates}x", *map(str, counts), _gain(cell))

"""How things look: one fixed colour, line and marker per method, and how figures become SVG.

Colours are Okabe and Ito's, which people with the common colour-vision deficiencies tell apart; line style
and marker say the same once more for print in grey.
"""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import product
from typing import Any

import matplotlib as mpl
import matplotlib.style
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

BLUE, SKY, GREEN, ORANGE, VERMILLION, PURPLE = (
    "#0072B2",
    "#56B4E9",
    "#009E73",
    "#E69F00",
    "#D55E00",
    "#CC79A7",
)

#: How Matplotlib names the outlines of letters in an SVG.
_FONT = "DejaVuSans"
_GLYPH = re.compile(rf'<path id="(?P<id>{_FONT}[^"]*)"[^>]*/>')

#: For what belongs to no method.
GREY = "#8a9099"

#: Ink and grid of figures. In the HTML they become CSS variables, so that figures follow the colour scheme.
INK, GRID = "#1f2328", "#d5d8dc"

#: Text on light colours, which are the same in both schemes.
ON_TILE = "#000000"

#: Inches. Drawn at about the size it is shown at, so that text keeps its size.
PANEL_WIDTH, PANEL_HEIGHT = 3.5, 2.25

RC: dict[str, Any] = {
    "axes.axisbelow": True,
    "axes.edgecolor": INK,
    "axes.grid": True,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.6,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.unicode_minus": True,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "font.family": "DejaVu Sans",
    "font.size": 8.0,
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.6,
    "lines.markersize": 4.0,
    "lines.dash_capstyle": "round",
    "svg.fonttype": "path",
    "svg.hashsalt": "arena",
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.major.size": 3.0,
    "xtick.major.width": 0.6,
    "ytick.major.size": 0.0,
    "ytick.minor.size": 0.0,
    "xtick.minor.size": 0.0,
}


def drawing_style() -> AbstractContextManager[None]:
    """Draw with matplotlib's defaults and `RC`, whatever the user's own settings are."""
    return mpl.style.context(["default", RC])


@dataclass(frozen=True)
class MethodStyle:
    """Colour, line style and marker of a method, in matplotlib's notation."""

    colour: str
    line: str
    marker: str


_KNOWN = {
    "grpo": MethodStyle(BLUE, "-", "o"),
    "sampo": MethodStyle(GREEN, "-", "s"),
    "actfocus": MethodStyle(PURPLE, "-", "^"),
    "cispo": MethodStyle(VERMILLION, "-", "D"),
    "gspo": MethodStyle(ORANGE, "-", "v"),
}

_OTHERS = [
    MethodStyle(colour, line, marker)
    for line, marker, colour in product(
        ("--", "-.", ":"), ("P", "X", "<", ">", "p", "h"), (SKY, ORANGE, BLUE, GREEN, PURPLE, VERMILLION)
    )
]


_KNOWN |= {
    name: MethodStyle(colour, line, marker)
    for name, colour, line, marker in (
        ("grpo-st", BLUE, "--", "P"), ("grpo-sm", BLUE, "-.", "X"), ("dr-grpo", SKY, "-", "p"),
        ("sapo-soft", VERMILLION, "--", "P"), ("gmpo", ORANGE, "--", "X"), ("gigpo", GREEN, "--", "P"),
        ("empg", SKY, "--", "h"), ("dapo", PURPLE, "--", "P"), ("dapo-gigpo", PURPLE, "-.", "X"),
        ("rloo", ORANGE, "-.", "h"), ("reinforce++", SKY, "-.", "<"), ("ppo", ORANGE, ":", "s"),
        ("ppo-turn", SKY, ":", "v"), ("ppo-actfocus", PURPLE, ":", "^"), ("sapo-sr", GREEN, ":", "D"),
    )
}  # fmt: skip


def method_style(name: str) -> MethodStyle:
    """The style of a method, the same in every report.

    Specs without a fixed style take one by a hash of the spec.
    """
    if name in _KNOWN:
        return _KNOWN[name]
    digest = hashlib.sha256(name.encode()).digest()
    return _OTHERS[int.from_bytes(digest[:4], "big") % len(_OTHERS)]


def method_order(names: list[str]) -> list[str]:
    """Methods with a fixed style in its order, then the others by name."""
    known = list(_KNOWN)
    return sorted(set(names), key=lambda n: (known.index(n) if n in known else len(known), n))


def tint(colour: str, share: float) -> str:
    """`colour` mixed with `share` of white."""
    red, green, blue = (c + (1 - c) * share for c in mpl.colors.to_rgb(colour))
    return mpl.colors.to_hex((red, green, blue))


def new_canvas(width: float = PANEL_WIDTH, height: float = PANEL_HEIGHT) -> tuple[Canvas, Axes]:
    """A figure with one axes whose margins do not depend on its content, so that panels line up."""
    canvas = Canvas(figsize=(width, height))
    axes = canvas.add_axes((0.49 / width, 0.42 / height, 1 - 0.66 / width, 1 - 0.50 / height))
    return canvas, axes


def to_svg(canvas: Canvas) -> str:
    """The figure as an `<svg>` element without prolog, metadata or date: the same bytes every time."""
    buffer = io.StringIO()
    canvas.savefig(
        buffer, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None}
    )
    text = buffer.getvalue()
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    return _slim(text[text.index("<svg") :].strip())


def _slim(svg: str) -> str:
    """Without white space between elements, comments and ids that nothing refers to; coordinates to a tenth of a
    point."""
    used = set(re.findall(r'(?:href="|url\()#([^")]+)', svg))
    svg = re.sub(r"<!--.*?-->", "", svg, flags=re.DOTALL)
    svg = re.sub(r' id="([^"]*)"', lambda found: found[0] if found[1] in used else "", svg)
    svg = re.sub(r' d="[^"]*"', lambda path: re.sub(r"(\.\d)\d+", r"\1", path[0]), svg)
    return re.sub(r">\s+<", "><", svg)


def shared_glyphs(glyphs: Mapping[str, str]) -> str:
    """The outlines of letters that the figures of a page refer to, to stand anywhere in it."""
    return f'<svg width="0" height="0" aria-hidden="true" class="glyphs"><defs>{"".join(glyphs.values())}</defs></svg>'


def for_html(svg: str, label: str, prefix: str, glyphs: dict[str, str]) -> str:
    """The SVG to be inlined: ids made unique by `prefix`, ink and grid as CSS variables.

    The outlines of its letters are moved into `glyphs`, by id: figures of a page share them. `label`, escaped for an
    attribute, is its text alternative; without one it is decoration.
    """

    def moved(found: re.Match[str]) -> str:
        glyphs.setdefault(found["id"], found[0])
        return ""

    svg = _GLYPH.sub(moved, svg).replace("<defs></defs>", "")
    svg = re.sub(r'\bid="', f'id="{prefix}-', svg)
    svg = re.sub(rf'href="#(?!{_FONT})', f'href="#{prefix}-', svg)
    svg = svg.replace("url(#", f"url(#{prefix}-")
    svg = svg.replace(INK, "var(--ink)").replace(GRID, "var(--grid)")
    svg = re.sub(r'\s(?:width|height)="[\d.]+pt"', "", svg, count=2)
    role = f'role="img" aria-label="{label}"' if label else 'aria-hidden="true"'
    return svg.replace("<svg", f"<svg {role}", 1)

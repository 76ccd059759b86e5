"""How things look: colour, line and marker of each method, and how figures become SVG.

Six of the colours are Okabe and Ito's, which people with the common colour-vision deficiencies tell apart; line style
and marker say the same once more for them and for print in grey.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Any

import matplotlib as mpl
import matplotlib.style
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from numpy.typing import NDArray

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


#: Named methods, in report order. Each has a colour of its own.
_NAMED = {
    name: MethodStyle(colour, line, marker)
    for name, colour, line, marker in (
        ("grpo", BLUE, "-", "o"), ("sampo", GREEN, "-", "s"), ("actfocus", PURPLE, "-", "^"),
        ("cispo", VERMILLION, "-", "D"), ("gspo", ORANGE, "-", "v"),
        ("grpo-st", "#5050D0", "--", "P"), ("grpo-sm", "#8078F8", "-.", "X"), ("dr-grpo", "#206860", "-", "p"),
        ("sapo-soft", "#9038B8", "--", "P"), ("gmpo", "#988800", "--", "X"), ("gigpo", SKY, "--", "P"),
        ("empg", "#706000", "--", "h"), ("dapo", "#B81058", "--", "P"), ("dapo-gigpo", "#F88068", "-.", "X"),
        ("rloo", "#80C000", "-.", "h"), ("reinforce++", "#008000", "-.", "<"), ("ppo", "#A04018", ":", "s"),
        ("ppo-turn", "#C840A0", ":", "v"), ("ppo-actfocus", "#F080F8", ":", "^"), ("sapo-sr", "#68C098", ":", "D"),
    )
}  # fmt: skip

#: Colours of methods, no two nearer than 0.1 in OKLab, nor one to `GREY` or `INK`: six are Okabe and Ito's, the others
#: each the colour farthest from all before, of those with a contrast above 2.1 to white and 2.6 to the dark paper
#: and a chroma of at most 0.2. Four are nobody's.
PALETTE = (*(style.colour for style in _NAMED.values()), "#805870", "#B8A0E8", "#E84868", "#C8A890")

#: Lines and markers of other methods, in their order.
_LOOKS = tuple(product(("--", "-.", ":"), ("P", "X", "<", ">", "p", "h")))


def method_styles(names: Iterable[str]) -> dict[str, MethodStyle]:
    """The styles of the methods of one report, in report order.

    A named method has the same in every report. Each other takes the colour farthest from those of the methods before
    it; colours repeat, on other lines, only where there are more methods than colours.
    """
    order = method_order(list(names))
    styles = {name: _NAMED[name] for name in order if name in _NAMED}
    for place, name in enumerate(name for name in order if name not in _NAMED):
        taken = [style.colour for style in styles.values()]
        far = {c: (-taken.count(c), min((distance(c, t) for t in taken), default=0.0)) for c in PALETTE}
        colour = max(PALETTE, key=far.__getitem__)
        first = place % len(_LOOKS)
        looks = (MethodStyle(colour, *look) for look in (*_LOOKS[first:], *_LOOKS[:first]))
        styles[name] = next(look for look in looks if look not in styles.values())
    return styles


def distance(a: str, b: str) -> float:
    """How different two colours look: their Euclidean distance in OKLab (B. Ottosson, 2020), black to white 1."""
    return float(np.linalg.norm(_oklab(a) - _oklab(b)))


@cache
def _oklab(colour: str) -> NDArray[np.float64]:
    rgb = np.array(mpl.colors.to_rgb(colour))
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    return _TO_LAB @ np.cbrt(_TO_CONES @ linear)


_TO_CONES = np.array(
    [
        [0.4122214708, 0.5363325363, 0.0514459929],
        [0.2119034982, 0.6806995451, 0.1073969566],
        [0.0883024619, 0.2817188376, 0.6299787005],
    ]
)
_TO_LAB = np.array(
    [
        [0.2104542553, 0.7936177850, -0.0040720468],
        [1.9779984951, -2.4285922050, 0.4505937099],
        [0.0259040371, 0.7827717662, -0.8086757660],
    ]
)


def method_order(names: list[str]) -> list[str]:
    """Named methods in their order, then the others by name."""
    known = list(_NAMED)
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

"""Goals: drawn from a generated catalogue, and the ceiling and sentence that all goals share."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

from arena.envs.webshop.catalogue import Product
from arena.envs.webshop.reward import Goal

#: Ceilings are multiples of ten dollars below this; without two above the price there is none to speak of.
_CEILINGS = range(10, 1000, 10)
NO_CEILING = 1_000_000.0
_OPENINGS = ("I want to buy", "Find me", "I need", "Please get me")
#: Nouns without an article of their own.
_MASS = ("tea", "coffee")


def draw_ceiling(rng: np.random.Generator, price: float) -> float:
    """The larger of two of the next four multiples of ten above the price, as in the original."""
    above = [ceiling for ceiling in _CEILINGS if ceiling > price][:4]
    if len(above) < 2:
        return NO_CEILING
    return float(max(above[i] for i in rng.choice(len(above), size=2, replace=False)))


def ceiling_text(ceiling: float) -> str:
    """How the original's sentences end."""
    return "" if ceiling == NO_CEILING else f", and price lower than {ceiling:.2f} dollars"


def draw_goal(rng: np.random.Generator, products: tuple[Product, ...], attributes: int, options: int) -> Goal:
    """A goal that a random product meets: one to `attributes` of its attributes, at most `options` of its options.

    The product is the cheaper of two, so that a ceiling has something to exclude.
    """
    product = min((products[i] for i in rng.integers(len(products), size=2)), key=lambda drawn: drawn.price)
    count = int(rng.integers(1, attributes + 1))
    wanted = _some(rng, product.attributes, count)
    kinds = _some(rng, product.options, min(options, len(product.options)))
    chosen = tuple((kind, values[int(rng.integers(len(values)))]) for kind, values in kinds)
    ceiling = draw_ceiling(rng, product.price)
    opening = _OPENINGS[int(rng.integers(len(_OPENINGS)))]
    details = ", and ".join(f"{kind}: {value}" for kind, value in chosen)
    thing = f"{', '.join(wanted)} {product.query}"
    sentence = f"{opening} {_article(product.query, thing)} {thing}{' with ' if details else ''}{details}"
    values = tuple(value for _, value in chosen)
    return Goal(
        asin=product.asin,
        sentence=sentence + ceiling_text(ceiling),
        words=(*wanted, product.query, *values),
        query=product.query,
        category=product.category,
        nouns=product.nouns,
        attributes=wanted,
        options=values,
        ceiling=ceiling,
    )


def _article(noun: str, thing: str) -> str:
    if noun.endswith("s") or noun in _MASS:
        return "some"
    return "an" if thing[0] in "aeiou" else "a"


def _some(rng: np.random.Generator, items: tuple, count: int) -> tuple:
    """`count` of the items, in their order."""
    return tuple(items[i] for i in sorted(rng.choice(len(items), size=count, replace=False)))

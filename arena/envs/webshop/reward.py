"""The score of a purchase: WebShop's formula (Yao et al. 2022, section 3.2; `web_agent_site/engine/goal.py`).

    score = r_type x (attribute matches + option matches + [price <= ceiling]) / (attributes + options + 1)

Departures: nouns of a title come with the product (the original tags them with a spaCy model); the list of
base colours is our own; options of a goal that are a mapping are compared by value (the original compares the pair of
kind and value).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from rapidfuzz.fuzz import token_set_ratio
from rapidfuzz.utils import default_process

from arena.envs.webshop.catalogue import Product

#: A fuzzy match is a `token_set_ratio` above this.
MATCH = 85
_BASE_COLORS = (
    *(
        "aqua",
        "beige",
        "black",
        "blue",
        "bronze",
        "brown",
        "burgundy",
        "charcoal",
        "coral",
        "cream",
        "gold",
        "gray",
    ),
    *(
        "green",
        "grey",
        "ivory",
        "khaki",
        "lavender",
        "magenta",
        "maroon",
        "mint",
        "navy",
        "olive",
        "orange",
        "pink",
    ),
    *("purple", "red", "rose", "silver", "tan", "teal", "turquoise", "violet", "white", "wine", "yellow"),
)


@dataclass(frozen=True)
class Goal:
    """What is asked for: the sentence, and what a purchase is compared with.

    `asin` is the product it was made from, `options` are values without their kinds, `ceiling` is in dollars, `words`
    is what a shopper would search for.
    """

    asin: str
    sentence: str
    words: tuple[str, ...]
    query: str
    category: str
    nouns: tuple[str, ...]
    attributes: tuple[str, ...]
    options: tuple[str, ...]
    ceiling: float

    @property
    def content(self) -> str:
        """What is asked for, the ceiling apart: a generated catalogue's splits are disjoint by it."""
        return " ".join([*sorted(self.attributes), self.query, *sorted(self.options)])


def score(product: Product, goal: Goal, chosen: tuple[str, ...]) -> float:
    """The score in [0, 1] of buying `product` with the chosen option values; 1 is success."""
    matches = (
        attribute_matches(product, goal) + option_matches(chosen, goal) + (product.price <= goal.ceiling)
    )
    return type_factor(product, goal) * (matches / (len(goal.attributes) + len(goal.options) + 1))


def type_factor(product: Product, goal: Goal) -> float:
    """r_type: whether the product is the kind of thing that is asked for.

    1 for the same search, two common elements of the category path or more than a fifth of the goal's nouns, else
    0.5; whatever the category, 0.1 below a tenth of the nouns and 0 without a common noun.
    """
    common = set(product.nouns) & set(goal.nouns)
    title = len(common) / len(goal.nouns) if goal.nouns else 0.2
    if title == 0:
        return 0.0
    if title < 0.1:
        return 0.1
    shared = len(_path(product.category) & _path(goal.category))
    return 1.0 if product.query == goal.query or shared >= 2 or title > 0.2 else 0.5


def attribute_matches(product: Product, goal: Goal) -> int:
    """Attributes of the goal that the product has, fuzzily, or whose text its title, features or description has."""
    return sum(
        any(resembles(own, wanted) for own in product.attributes)
        or any(wanted in text for text in product.texts)
        for wanted in goal.attributes
    )


def option_matches(chosen: tuple[str, ...], goal: Goal) -> int:
    """Options of the goal that some chosen value resembles, colours reduced to base colours first."""
    return sum(any(same_option(value, wanted) for value in chosen) for wanted in goal.options)


@lru_cache(maxsize=100_000)
def same_option(value: str, wanted: str) -> bool:
    """Whether an option's value resembles a wanted one."""
    return resembles(base_color(value), base_color(wanted))


@lru_cache(maxsize=100_000)
def resembles(text: str, wanted: str) -> bool:
    """A fuzzy match: capitals and punctuation aside, as thefuzz compares, which rounds the score."""
    return round(token_set_ratio(text, wanted, processor=default_process)) > MATCH


def base_color(text: str) -> str:
    """The first base colour, in alphabetical order, whose name occurs in the text, else the text."""
    return next((color for color in _BASE_COLORS if color in text), text)


def _path(category: str) -> set[str]:
    return {part.strip() for part in category.split("›")}

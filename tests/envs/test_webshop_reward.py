"""WebShop's score on worked examples: every factor by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arena.envs.webshop.catalogue import Product
from arena.envs.webshop.goals import NO_CEILING
from arena.envs.webshop.reward import (
    Goal,
    attribute_matches,
    base_color,
    option_matches,
    same_option,
    score,
    type_factor,
)

SHIRT = Product(
    asin="B000000001",
    title="Arvo Soft Cotton Shirt",
    query="men's shirts",
    category="Clothing › Men › Shirts",
    nouns=("arvo", "shirt"),
    attributes=("soft cotton", "machine wash"),
    options=(("color", ("navy blue", "dark red")), ("size", ("small", "large"))),
    price=19.99,
    price_tag="$19.99",
    features=("Button Closure", "Imported"),
    description="A shirt with Long Sleeves.",
)


def goal(**changes):
    fields = {
        "asin": "B000000001",
        "sentence": "a shirt",
        "words": ("shirt",),
        "query": "men's shirts",
        "category": "Clothing › Men › Shirts",
        "nouns": ("shirt",),
        "attributes": ("machine wash",),
        "options": ("red", "small"),
        "ceiling": 30.0,
    }
    return Goal(**fields | changes)


@pytest.mark.parametrize(
    ("changes", "chosen", "expected"),
    [
        # All of one attribute, two options and the price: (1 + 2 + 1) / 4.
        ({}, ("dark red", "small"), 1.0),
        # One option missing, then both, then a wrong one beside a right one.
        ({}, ("dark red",), 3 / 4),
        ({}, (), 2 / 4),
        ({}, ("navy blue", "small"), 3 / 4),
        # Too dear: the price alone is lost. At the ceiling it is not.
        ({"ceiling": 10.0}, ("dark red", "small"), 3 / 4),
        ({"ceiling": 19.99}, ("dark red", "small"), 1.0),
        ({"ceiling": NO_CEILING}, ("dark red", "small"), 1.0),
        # An attribute that the product has not.
        ({"attributes": ("machine wash", "wrinkle free")}, ("dark red", "small"), 4 / 5),
        # No options asked for: (1 + 0 + 1) / 2, whatever is chosen.
        ({"options": ()}, (), 1.0),
        ({"options": ()}, ("navy blue",), 1.0),
        # Another search and path, a title of no common noun: the kind is wrong and nothing counts.
        (
            {"query": "lamps", "category": "Home › Lamps", "nouns": ("lamp",)},
            ("dark red", "small"),
            0.0,
        ),
        # One of five nouns, no more: half of everything; half of three quarters without the size.
        (
            {"query": "x", "category": "y", "nouns": ("shirt", "b", "c", "d", "e")},
            ("dark red", "small"),
            0.5,
        ),
        (
            {"query": "x", "category": "y", "nouns": ("shirt", "b", "c", "d", "e")},
            ("dark red",),
            0.375,
        ),
    ],
)
def test_the_score_by_hand(changes, chosen, expected):
    assert score(SHIRT, goal(**changes), chosen) == expected


ELEVEN = ("shirt", *"bcdefghijk")


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"query": "x", "category": "y"}, 1.0),  # All nouns: more than a fifth.
        ({"query": "x", "category": "y", "nouns": ("shirt", "b", "c", "d")}, 1.0),  # 1/4 > 0.2.
        (
            {"query": "x", "category": "y", "nouns": ("shirt", "b", "c", "d", "e")},
            0.5,
        ),  # 1/5 is not.
        ({"category": "y", "nouns": ("shirt", "b", "c", "d", "e")}, 1.0),  # The same search.
        # Two common elements of the path, in any order; one is not enough.
        (
            {"query": "x", "category": "Men › Clothing", "nouns": ("shirt", "b", "c", "d", "e")},
            1.0,
        ),
        ({"query": "x", "category": "Men › Hats", "nouns": ("shirt", "b", "c", "d", "e")}, 0.5),
        # Below a tenth of the nouns, whatever the search says; exactly a tenth is not below.
        ({"nouns": ELEVEN}, 0.1),
        ({"nouns": ELEVEN[:-1]}, 1.0),
        ({"query": "x", "category": "y", "nouns": ELEVEN[:-1]}, 0.5),
        # No common noun at all, whatever the search says.
        ({"nouns": ("lamp",)}, 0.0),
        # A noun that the goal's title repeats counts twice below and once above the line: 1 of 5.
        ({"query": "x", "category": "y", "nouns": ("shirt", "shirt", "b", "c", "d")}, 0.5),
        # A title without nouns counts as a fifth: half, unless the search or the path agrees.
        ({"nouns": (), "query": "x", "category": "y"}, 0.5),
        ({"nouns": ()}, 1.0),
    ],
)
def test_the_type_factor(changes, expected):
    assert type_factor(SHIRT, goal(**changes)) == expected


@pytest.mark.parametrize(
    ("attribute", "found"),
    [
        ("machine wash", True),
        ("machine washable", True),  # 24 of 28 letters in common: a ratio of 86.
        ("cotton", True),  # A subset of the words of "soft cotton": 100.
        ("button closure", True),  # In a feature, whatever its capitals.
        ("long sleeves", True),  # In the description.
        ("arvo", True),  # In the title.
        ("hand wash", False),
        ("wool", False),
    ],
)
def test_attributes_match_fuzzily_or_in_the_texts(attribute, found):
    assert attribute_matches(SHIRT, goal(attributes=(attribute,))) == found


@pytest.mark.parametrize(
    ("value", "wanted", "same"),
    [
        ("navy blue", "blue", True),
        ("dark red", "light red", True),  # Both are red.
        ("deep sea green", "green", True),
        ("navy blue", "red", False),
        ("x-large", "large", True),  # "large" is a subset of the words "x" and "large".
        ("small", "large", False),
        ("12 ounce (pack of 1)", "12 ounce (pack of 1)", True),
        ("a01-fits", "a01-fit", True),
    ],
)
def test_options_match_fuzzily_by_base_colour(value, wanted, same):
    assert same_option(value, wanted) is same


def test_colours_are_normalised():
    assert base_color("navy blue") == "blue"
    assert base_color("light grey | white") == "grey"
    assert base_color("size 9") == "size 9"


def test_each_wanted_option_needs_a_value_of_its_own_kind_of_match():
    assert option_matches(("dark red", "small"), goal()) == 2
    assert option_matches(("dark red", "light red"), goal()) == 1
    # One value may serve two wanted options, as in the original.
    assert option_matches(("dark red",), goal(options=("red", "wine red"))) == 2


@given(
    st.lists(st.sampled_from(["dark red", "navy blue", "small", "large", "pink"]), max_size=4),
    st.lists(st.sampled_from(["red", "blue", "small", "medium"]), max_size=3, unique=True),
    st.lists(
        st.sampled_from(["machine wash", "cotton", "wool", "imported"]), min_size=1, max_size=3, unique=True
    ),
    st.sampled_from([10.0, 30.0]),
)
def test_the_score_is_a_share_and_one_only_if_everything_matches(chosen, options, attributes, ceiling):
    wanted = goal(options=tuple(options), attributes=tuple(attributes), ceiling=ceiling)
    gained = score(SHIRT, wanted, tuple(chosen))
    everything = (
        attribute_matches(SHIRT, wanted) == len(attributes)
        and option_matches(tuple(chosen), wanted) == len(options)
        and SHIRT.price <= ceiling
    )
    assert 0 <= gained <= 1
    assert (gained == 1) == everything
    # More choices never lower it.
    assert score(SHIRT, wanted, (*chosen, "small")) >= gained

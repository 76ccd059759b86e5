"""The colours of methods: told apart within a report, the same for named methods in every report."""

from itertools import combinations

import pytest
from matplotlib.colors import to_rgb

from arena.algorithms.catalog import CATALOG
from arena.report.style import GREY, INK, PALETTE, distance, method_order, method_styles

#: White and the dark paper of report.css, and the least contrast to each.
PAPERS = {"#ffffff": 2.1, "#15181c": 2.6}


def colours(*names):
    return [style.colour for style in method_styles(names).values()]


def luminance(colour):
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(colour)]
    return sum(weight * c for weight, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def test_distances_of_colours_by_ottosson():
    assert distance("#000000", "#ffffff") == pytest.approx(1, abs=1e-4)
    # Of his page on OKLab, in the coordinates of CSS Color 4: red 0.62796, 0.22486, 0.12585.
    assert distance("#000000", "#ff0000") == pytest.approx(
        (0.62796**2 + 0.22486**2 + 0.12585**2) ** 0.5, abs=1e-4
    )
    assert distance("#0072b2", "#0072B2") == 0


def test_no_two_colours_of_the_palette_are_alike_and_all_are_seen_on_both_papers():
    assert len(set(PALETTE)) == 24
    assert min(distance(a, b) for a, b in combinations((*PALETTE, GREY, INK), 2)) > 0.1
    for colour in PALETTE:
        for paper, least in PAPERS.items():
            low, high = sorted((luminance(colour), luminance(paper)))
            assert (high + 0.05) / (low + 0.05) > least, (colour, paper)


def test_methods_of_the_catalog_have_their_own_colour_whatever_else_is_in_the_report():
    everything = method_styles(CATALOG)
    assert set(everything) == set(CATALOG)
    assert len({style.colour for style in everything.values()}) == len(CATALOG)
    assert everything["grpo"].colour == "#0072B2"
    for name in CATALOG:
        assert method_styles(["aa", name, "grpo+seqmask"])[name] == everything[name]


def test_other_methods_take_a_colour_that_no_method_of_the_report_has():
    one, other = method_styles(["grpo", "cispo+seqmask"]).values()
    assert distance(one.colour, other.colour) > 0.3
    many = colours("grpo", "cispo", *(f"gspo:clip_high={k}" for k in range(22)))
    assert len(set(many)) == 24
    assert method_styles(["b", "a", "grpo"]) == method_styles(["grpo", "a", "b"])


def test_of_more_methods_than_colours_no_two_look_the_same():
    styles = method_styles([f"m{k:03}" for k in range(300)])
    assert len(set(styles.values())) == 300
    assert len({style.colour for style in styles.values()}) == 24


def test_methods_stand_in_one_order():
    assert method_order(["zz", "cispo", "grpo", "aa", "grpo"]) == ["grpo", "cispo", "aa", "zz"]
    assert list(method_styles(["zz", "cispo", "grpo"])) == ["grpo", "cispo", "zz"]

"""The list of claims, its page, and the tables that the papers print."""

import pkgutil
from importlib import import_module, resources
from pathlib import Path

import pytest

from arena.claims import CLAIMS, Claim, papers, pool
from arena.claims.page import render
from arena.claims.papers.staleness import FRESH, STALE
from arena.claims.published import number, rows
from arena.errors import UsageError
from arena.recipe import parse_overrides, resolve

ROOT = Path(__file__).parents[2]
MODULES = [m.name for m in pkgutil.iter_modules(papers.__path__, "arena.claims.papers.")]


def test_every_file_with_a_claim_is_listed_under_its_name():
    found = [module.CLAIM for name in MODULES if hasattr(module := import_module(name), "CLAIM")]
    assert sorted(c.name for c in found) == sorted(CLAIMS)
    assert all(isinstance(c, Claim) and CLAIMS[c.name] is c for c in found)
    for claim in found:
        assert claim.name.replace("-", "_") in [name.rpartition(".")[2] for name in MODULES]


@pytest.mark.parametrize("claim", CLAIMS.values(), ids=CLAIMS)
def test_without_cells_a_claim_is_not_run_and_names_commands_for_all(claim):
    outcome = claim.test(pool(()))
    assert (outcome.verdict, outcome.effect) == ("not run", None)
    algos = {algo for each in outcome.missing for algo in each.need.algos}
    assert algos == {algo for need in claim.needs for algo in need.algos}
    labels = [part.label for part in claim.parts]
    assert len(set(labels)) == len(labels)


def test_the_page_is_up_to_date():
    page = (ROOT / "docs" / "claims.md").read_text()
    assert page == render(), "run: python -m arena.claims.page > docs/claims.md"
    assert [line[3:] for line in page.splitlines() if line.startswith("## ")] == list(CLAIMS)


TABLES = sorted(
    p.name.removesuffix(".csv") for p in (resources.files("arena.claims") / "published").iterdir()
)


def test_published_tables_parse_with_every_row_full():
    assert len(TABLES) == 7
    for table in TABLES:
        found = rows(table)
        assert found
        assert all(None not in row and None not in row.values() for row in found)


def test_a_published_number_is_the_one_in_the_table():
    assert number("x", "arlarena_table3", "average", method="SAMPO").value == "60.21"
    cispo = number(
        "x", "arlarena_table4_seqmask_alfworld", "success", method="CISPO", variant="sequence mask"
    )
    assert (cispo.label, cispo.value, cispo.table) == ("x", "78.88", "arlarena_table4_seqmask_alfworld")
    with pytest.raises(UsageError, match=r"published table arlarena_table3: 0 rows have .*; it takes one\."):
        number("x", "arlarena_table3", "average", method="sampo")
    with pytest.raises(UsageError, match="4 rows have"):
        number("x", "arlarena_table4_seqmask_alfworld", "success", method="CISPO")


def test_both_sides_of_staleness_see_the_same_number_of_episodes_in_as_many_updates():
    fresh, stale = (resolve("cpu-stress", "sokoban", "grpo", 0, parse_overrides(c)) for c in (FRESH, STALE))

    def totals(recipe):
        updates = recipe.steps * recipe.optim.epochs * recipe.optim.minibatches
        return recipe.steps * recipe.rollout.episodes, updates, recipe.steps // recipe.eval.every

    assert totals(fresh) == totals(stale) == totals(resolve("cpu-stress", "sokoban", "grpo", 0))
    assert stale.optim.minibatches == 4 * fresh.optim.minibatches

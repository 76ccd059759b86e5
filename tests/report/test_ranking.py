"""The ranking of the first page, from hand-made cells."""

import math

import pandas as pd
import pytest

from arena.report.ranking import ranking_table, rankings


def summary(finals, state="done", collapse_step=math.nan):
    """`finals`: (algo, env) -> final success of seeds 0, 1, ..."""
    return pd.DataFrame(
        {"env": e, "algo": a, "seed": s, "state": state, "final": v, "collapse_step": collapse_step}
        for (a, e), values in finals.items()
        for s, v in enumerate(values)
    )


def test_methods_are_ranked_by_the_middle_half_of_their_cells():
    (found,) = rankings(
        summary(
            {
                ("grpo", "sokoban"): (0.1, 0.5),
                ("grpo", "webshop"): (0.7, 0.9),
                ("sampo", "sokoban"): (0.0, 0.6),
                ("sampo", "webshop"): (0.8, 0.8),
            }
        )
    )
    assert (found.envs, found.seeds, found.of) == (("sokoban", "webshop"), (0, 1), 2)
    # The smallest and the largest of four are cut: (0.5 + 0.7) / 2 and (0.6 + 0.8) / 2.
    assert [(p.algo, p.rank.rank, round(p.iqm.value, 9)) for p in found.places] == [
        ("sampo", 1, 0.7),
        ("grpo", 2, 0.6),
    ]
    assert [round(p.mean.mean, 9) for p in found.places] == [0.55, 0.55]
    # Two seeds: neither interval.
    assert all(p.iqm.interval is p.rank.shares is p.mean.interval is None for p in found.places)


def test_three_seeds_give_intervals_and_equal_methods_share_a_place():
    same = (0.2, 0.4, 0.6)
    table = ranking_table(
        summary({("a", "sokoban"): same, ("b", "sokoban"): same, ("c", "sokoban"): (0.9, 0.9, 0.9)})
    )
    (group,) = table.groups
    assert group.title == "Sokoban, seeds 0, 1 and 2"
    c, a, b = group.rows
    assert c[:4] == ("c", "1\nCI 1 to 1", "100.0\u00a0%", "90.0")  # no spread, no interval
    assert (a[0], a[1], b[0], b[1]) == ("a", "2.5\nCI 2.5 to 2.5", "b", "2.5\nCI 2.5 to 2.5")
    assert a[2] == "0.0\u00a0%"
    # Student: 4.3027 x 0.2 / sqrt(3) = 0.4968 on each side of 0.4.
    assert a[4] == "40.0\nCI -9.7 to 89.7"


def test_few_seeds_make_place_first_and_iqm_too_sure_and_the_caption_says_so():
    table = ranking_table(summary({(m, "sokoban"): (0.5, 0.6, 0.7) for m in ("a", "b")}))
    assert "With few seeds place, first and IQM are too sure" in table.caption
    assert "too sure" not in ranking_table(summary({("a", "sokoban"): (0.5,)})).caption


def test_environments_with_enough_seeds_are_ranked_beside_all():
    table = ranking_table(
        summary({(m, e): (0.5,) * n for m in ("a", "b") for e, n in (("sokoban", 3), ("webshop", 2))})
    )
    assert [g.title for g in table.groups] == [
        "Sokoban and WebShop, seeds 0 and 1: 2 seeds give no interval; it takes 3",
        "Sokoban, seeds 0, 1 and 2",
    ]


def test_only_what_every_method_finished_counts():
    rows = pd.concat(
        [
            summary({("a", "sokoban"): (0.5, 0.5), ("b", "sokoban"): (0.4, 0.6), ("a", "webshop"): (1.0,)}),
            summary({("c", "sokoban"): (0.9,)}, state="failed", collapse_step=7),
        ]
    )
    table = ranking_table(rows)
    (group,) = table.groups
    assert group.title.startswith("Sokoban, seeds 0 and 1: ")
    assert [row[0] for row in group.rows] == ["a", "b"]
    assert group.rows[0][5:] == ("0 of 2 cells", "—")
    assert table.caption.endswith("Not ranked, without a finished cell: c.")
    assert ranking_table(rows[rows.algo == "c"]).groups == ()


def test_collapses_stand_beside_the_rank():
    rows = summary({("a", "sokoban"): (0.1, 0.1), ("b", "sokoban"): (0.5, 0.5)})
    rows.loc[rows.algo == "a", "collapse_step"] = [26, 28]
    (group,) = ranking_table(rows).groups
    assert [row[5:] for row in group.rows] == [("0 of 2 cells", "—"), ("2 of 2 cells", "26–28")]


@pytest.mark.parametrize("state", ["running", "failed"])
def test_without_a_finished_cell_nothing_is_ranked(state):
    assert rankings(summary({("a", "sokoban"): (0.5, 0.6)}, state=state)) == []

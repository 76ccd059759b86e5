"""Correlations by hand and against scipy, intervals that cover, and nothing where nothing was recorded."""

from dataclasses import replace

import duckdb
import numpy as np
import pandas as pd
import pytest
from scipy.stats import pearsonr, spearmanr

from arena.algorithms.catalog import CATALOG, get_algorithm
from arena.analysis import energy
from arena.analysis.energy import (
    actfocus_effect,
    action_counts,
    action_shares,
    correlations,
    gradient_ratios,
    task_table,
    without_actfocus,
)


def episodes_of(rewards, energies, step=1):
    """Episodes of one step; a row of `rewards` and `energies` per group."""
    group = np.repeat(np.arange(len(rewards)), [len(r) for r in rewards])
    return pd.DataFrame(
        {
            "step": step,
            "group_id": group,
            "task_seed": 100 + group,
            "reward": np.concatenate(rewards).astype(float),
            "energy_action": np.concatenate(energies).astype(float),
        }
    )


def task_rows(episodes):
    return task_table(duckdb.connect().from_df(episodes))


def tasks_of(variance, action, step=1, env="sokoban", algo="grpo", seed=0):
    """A step's tasks of one cell, other measures missing."""
    frame = pd.DataFrame({"step": step, "group_id": np.arange(len(variance)), "reward_variance": variance})
    frame = frame.assign(**dict.fromkeys(energy.MEASURES, np.nan)).assign(energy_action=action)
    return frame.assign(env=env, algo=algo, seed=seed)


def row_of(found, level, coefficient="pearson", period="run", measure="energy_action"):
    chosen = found[(found.level == level) & (found.coefficient == coefficient)]
    (row,) = chosen[(chosen.period == period) & (chosen.measure == measure)].itertuples()
    return row


def test_a_task_is_a_group_with_the_mean_of_its_rollouts():
    found = task_rows(episodes_of([[0, 1], [1, 1, 1], [4]], [[-2, -4], [np.nan, -6, -8], [-1]]))
    assert found.rollouts.tolist() == [2, 3, 1]
    assert found.task_seed.tolist() == [100, 101, 102]
    assert found.energy_action.tolist() == [-3, -7, -1]
    # of 0 and 1: 0.5; of three equal ones 0; of one rollout none
    assert found.reward_variance.tolist()[:2] == [0.5, 0.0]
    assert np.isnan(found.reward_variance[2])
    assert found.energy_think.isna().all()  # the column is not there


def test_the_order_of_rewards_does_not_break_ties():
    rewards = [[0.1, 0.7, 0.3, 10.9], [10.9, 0.3, 0.1, 0.7], [0.3, 10.9, 0.7, 0.1]]
    assert task_rows(episodes_of(rewards, np.zeros((3, 4)))).reward_variance.nunique() == 1


def test_one_step_by_hand():
    # Deviations of energy -1, 0, 1 and of variance -1, 1, 0: product 1, squares 2 and 2. Ranks are the values.
    found = correlations(tasks_of([1, 3, 2], [-9, -8, -7]), draws=50)
    assert row_of(found, "cell").value == pytest.approx(0.5)
    assert row_of(found, "cell", "spearman").value == pytest.approx(0.5)
    assert row_of(found, "cell", period="start").value == pytest.approx(0.5)
    assert row_of(found, "cell").tasks == 3


def test_one_step_with_ties_against_scipy():
    rng = np.random.default_rng(3)
    action = rng.normal(size=20)
    variance = np.round(action + rng.normal(size=20))
    found = correlations(tasks_of(variance, action), draws=50)
    assert row_of(found, "cell").value == pytest.approx(pearsonr(action, variance)[0])
    assert row_of(found, "cell", "spearman").value == pytest.approx(spearmanr(action, variance)[0])


def test_levels_of_steps_seeds_and_environments_make_no_correlation():
    # Within each step the correlation is -1; across them energy and variance rise together.
    parts = [
        tasks_of(np.array([2, 1, 0]) + 10 * k, np.array([0, 1, 2]) + 10 * k, step, env, seed=seed)
        for k, (env, seed, step) in enumerate((e, s, t) for e in "ab" for s in (0, 1) for t in (1, 2))
    ]
    found = correlations(pd.concat(parts), draws=20)
    assert found[found.measure == "energy_action"].value.tolist() == pytest.approx(
        [-1] * len(found[found.measure == "energy_action"])
    )


def test_steps_add_their_sums_and_levels_average():
    # Pearson of seed 0: products 1 + 2, squares 2 + 2 and 2 + 2, so 3/4; of seed 1: -1. Environment b: 1.
    parts = [
        tasks_of([1, 3, 2], [-9, -8, -7]),
        tasks_of([5, 6, 7], [0, 1, 2], step=2),
        tasks_of([3, 2, 1], [0, 1, 2], seed=1),
        tasks_of([1, 2, 3], [0, 1, 2], env="b"),
    ]
    found = correlations(pd.concat(parts), draws=20)
    of_env = found[(found.env == "sokoban") & (found.level == "env")]
    assert row_of(of_env, "env").value == pytest.approx((0.75 - 1) / 2)
    assert row_of(found, "all").value == pytest.approx((-0.125 + 1) / 2)
    assert (row_of(of_env, "env").tasks, row_of(of_env, "env").seeds) == (9, 2)
    assert (row_of(found, "all").tasks, row_of(found, "all").seeds) == (12, 1)


def test_the_start_is_the_first_steps_only():
    late = energy.START_STEPS + 1
    found = correlations(pd.concat([tasks_of([1, 2], [1, 2]), tasks_of([1, 2], [2, 1], step=late)]), draws=5)
    assert row_of(found, "cell", period="start").value == pytest.approx(1)
    assert row_of(found, "cell", period="run").value == pytest.approx(0)


def test_a_constant_is_no_correlation_and_a_constant_step_does_not_count():
    flat = tasks_of([0.25, 0.25, 0.25], [1, 2, 3])
    for tasks in (flat, tasks_of([1, 2, 3], [-8.1, -8.1, -8.1])):
        found = correlations(tasks, draws=20)
        assert found.value.isna().all()
        assert row_of(found, "all").seeds == row_of(found, "cell").tasks == 0
    both = correlations(pd.concat([flat, tasks_of([1, 2, 4], [1, 2, 4], step=2)]), draws=20)
    assert row_of(both, "cell").value == pytest.approx(1)
    assert row_of(both, "cell").tasks == 3


def test_missing_energies_are_left_out():
    found = correlations(tasks_of([1, 3, 2, 9], [-9, -8, -7, np.nan]), draws=20)
    assert row_of(found, "cell").value == pytest.approx(0.5)
    assert found[found.measure == "energy_think"].value.isna().all()
    assert correlations(tasks_of([np.nan] * 2, [1, 2]), draws=5).value.isna().all()
    assert correlations(tasks_of([], [])).empty


def test_one_seed_has_an_interval_over_tasks_and_none_over_seeds():
    rng = np.random.default_rng(0)
    action = rng.normal(size=30)
    found = correlations(tasks_of(action + rng.normal(size=30), action), draws=200)
    cell, env = row_of(found, "cell"), row_of(found, "env")
    assert cell.low < cell.value < cell.high
    assert env.value == pytest.approx(cell.value)
    assert np.isnan(env.low)
    assert env.note == "one seed gives no interval; it takes 3"
    assert cell.note == ""


def test_same_tasks_same_interval_whatever_the_method():
    rng = np.random.default_rng(0)
    action, variance = rng.normal(size=(2, 12))
    parts = [tasks_of(variance, action, algo=a) for a in ("grpo", "cispo")]
    found = correlations(pd.concat(parts), draws=100)
    ends = found[found.level == "cell"].groupby("algo")[["value", "low", "high"]]
    a, b = (rows.reset_index(drop=True) for _, rows in ends)
    pd.testing.assert_frame_equal(a, b)
    alone = correlations(parts[0], draws=100)
    assert row_of(alone, "cell").low == row_of(found[found.algo != "cispo"], "cell").low


def test_intervals_cover(monkeypatch):
    monkeypatch.setattr(energy, "MEASURES", ("energy_action",))
    rng, hits, widths = np.random.default_rng(1), {"cell": 0, "env": 0}, []
    for _ in range(40):
        parts = []
        for seed in range(3):
            shared, own = rng.normal(size=(2, 40))
            parts.append(tasks_of(0.6 * shared + 0.8 * own, shared - 14 * seed, seed=seed))
        found = correlations(pd.concat(parts), draws=200)
        for level in hits:
            chosen = row_of(found[(found.seed == 0) | (found.level == "env")], level)
            hits[level] += chosen.low <= 0.6 <= chosen.high
        widths.append(chosen.high - chosen.low)
    # 38 of 40 are meant; fewer than 34 happen three times in a thousand.
    assert min(hits.values()) >= 34
    # Of one cell 3.92 (1 - 0.6^2) / sqrt(40) = 0.4; over three narrower, by less than root 3, as tasks count twice.
    assert 0.4 / 3**0.5 < np.mean(widths) < 0.4


def tokens_of(roles, tags, **more):
    return pd.DataFrame({"step": 1, "epoch": 0, "role": roles, "tag": tags, **more})


def counts(tokens):
    found = action_counts(duckdb.connect().from_df(tokens))
    return found.assign(env="sokoban", algo="grpo", seed=0)


def test_action_share_with_and_without_tags():
    roles = ["think"] * 4 + ["action"] * 3 + ["eos"]
    tags = [True, False, False, True, True, False, True, False]
    once = tokens_of(roles, tags)
    late = tokens_of(["action"], [False]).assign(step=energy.START_STEPS + 1)
    shares = action_shares(counts(pd.concat([once, once.assign(epoch=1), late]))).set_index("period")
    assert shares.with_tags.to_dict() == {"start": 3 / 8, "run": 4 / 9}
    assert shares.without_tags.to_dict() == {"start": 1 / 4, "run": 2 / 5}


def test_action_share_without_tags_recorded():
    for tokens in (tokens_of(["action"], [None]), tokens_of(["action"], [None]).drop(columns="tag")):
        shares = action_shares(counts(tokens))
        assert shares.with_tags.tolist() == [1, 1]
        assert shares.without_tags.isna().all()


def steps_of(algo, seed, think, action, mu=None):
    return pd.DataFrame(
        {"env": "sokoban", "algo": algo, "seed": seed, "grad_norm_think": think, "grad_norm_action": action}
    ).assign(weight_mu=mu)


def test_gradient_ratio_is_a_geometric_mean_and_compared_by_seed():
    steps = pd.concat(
        [
            steps_of("grpo", 0, [1.0, 4.0, None], [2.0, 2.0, 9.0]),  # 2 and 1/2: 1
            steps_of("actfocus", 0, [1.0, 1.0, 0.0], [8.0, 2.0, 1.0], mu=-8.0),  # 8 and 2: 4
            steps_of("grpo", 1, [1.0], [3.0]),
            steps_of("actfocus", 1, [1.0], [27.0], mu=-8.0),  # 9 times
            steps_of("cispo", 0, [None], [None]),
        ]
    )
    ratios = gradient_ratios(steps).set_index(["algo", "seed"])
    assert np.exp(ratios.log_ratio[("grpo", 0)]) == pytest.approx(1)
    assert np.exp(ratios.log_ratio[("actfocus", 0)]) == pytest.approx(4)
    assert ratios.think[("grpo", 0)] == pytest.approx(2)
    assert np.isnan(ratios.log_ratio[("cispo", 0)])
    assert ratios.actfocus.to_dict()[("actfocus", 1)]
    (effect,) = actfocus_effect(ratios.reset_index()).itertuples()
    assert (effect.algo, effect.base, effect.seeds) == ("actfocus", "grpo", 2)
    assert effect.times == pytest.approx(6)  # of 4 and 9
    assert np.isnan(effect.low)


def test_no_gradients_recorded_no_effect():
    ratios = gradient_ratios(steps_of("actfocus", 0, [None], [None], mu=-8.0))
    assert ratios.log_ratio.isna().all()
    assert actfocus_effect(ratios).empty


def test_the_method_without_actfocus():
    assert without_actfocus("gspo+actfocus:alpha=0.3+dynamic") == "gspo+dynamic"
    assert without_actfocus("actfocus:alpha=0.3+seqmask") == "grpo+seqmask"
    assert without_actfocus("actfocus:alpha=0.3:clip_low=0.1:beta=0+seqmask") == "grpo:clip_low=0.1+seqmask"
    assert without_actfocus("ppo-actfocus:clip_low=0.1") == "ppo:clip_low=0.1"
    assert without_actfocus("grpo") is None
    named = [n for n in CATALOG if "actfocus" in n]
    assert named
    for name in named:
        base = get_algorithm(without_actfocus(name))
        assert base == replace(get_algorithm(name), weighting=None)

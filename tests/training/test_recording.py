"""From a batch and an update to rows, on numbers small enough to check by hand."""

from dataclasses import replace
from math import log

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

from arena.algorithms.advantages import Advantages
from arena.algorithms.weighting import EnergyStatistics
from arena.envs.protocol import parse_response
from arena.policy.sampler import Sample
from arena.policy.scoring import Rows, Scores
from arena.records.schema import ROLES, TABLES
from arena.training.batch import Batch, Group
from arena.training.recording import (
    count_nonfinite,
    episode_rows,
    step_metrics,
    token_columns,
    turn_rows,
    write_step_tables,
)
from arena.training.rollout import Episode, Response, Turn
from arena.training.update import TokenUpdates, UpdateResult
from tests.training.conftest import tiny

THINK, ACTION, OTHER, EOS = (ROLES.index(name) for name in ("think", "action", "other", "eos"))


def turn(text, roles, tags, ids, reward=0.0, truncated=False, admissible=True, anchor="s"):
    response = Response(text, parse_response(text), roles, tags)
    logprobs = [-1.0] * len(ids)
    return Turn("at", [9, 9], Sample(ids, logprobs, truncated), response, admissible, reward, anchor)


VALID = "<think>a</think><action>up</action>"
#: Three groups of two episodes; the second group is not trained on.
EPISODES = [
    Episode(
        5,
        (
            turn(VALID, [THINK, ACTION, EOS], [False, False, False], [3, 4, 1], reward=0.5),
            turn("up", [OTHER, OTHER], [False, False], [5, 6], truncated=True, admissible=False, anchor="t"),
        ),
        0.5,
        True,
        True,
    ),
    Episode(5, (turn(VALID, [THINK, ACTION], [True, False], [7, 8], reward=0.0),), 0.0, False, False),
]
GROUPS = [
    Group(0, 0, tuple(EPISODES), kept=True, filled=False),
    Group(1, 0, (EPISODES[1], EPISODES[1]), kept=False, filled=False),
    Group(2, 1, (EPISODES[1], EPISODES[1]), kept=False, filled=True),
]


def grid(*rows):
    return torch.tensor([[*row, *[0.0] * (3 - len(row))] for row in rows], dtype=torch.float32)


ZERO = grid(*[[0.0]] * 5)
MASK = torch.tensor([[1, 1, 1], [1, 1, 0], [1, 1, 0], [1, 1, 0], [1, 1, 0]]).bool()
OLD = grid([-1, -2, -3], [-1, -1], [-2, -2], [-1, -1], [-1, -1])
REFERENCE = OLD + grid([log(2), 0, 0], [0, 0], [0, 0], [0, 0], [0, 0])
BATCH = Batch(
    rows=Rows(
        prompt_ids=torch.tensor([[9, 9]]),
        prompt_length=torch.tensor([2]),
        prompt=torch.zeros(5, dtype=torch.long),
        response_ids=torch.tensor([[3, 4, 1], [5, 6, 0], [7, 8, 0], [7, 8, 0], [7, 8, 0]]),
        mask=MASK,
    ),
    group=torch.tensor([0, 0, 0, 2, 2]),
    episode=torch.tensor([0, 0, 1, 4, 5]),
    turn=torch.tensor([0, 1, 0, 0, 0]),
    role=grid([THINK, ACTION, EOS], [OTHER, OTHER], [THINK, ACTION], [THINK, ACTION], [THINK, ACTION]).long(),
    tag=torch.tensor([[0, 0, 0], [0, 0, 0], [1, 0, 0], [1, 0, 0], [1, 0, 0]]).bool(),
    sampler_logprob=OLD + grid([0.25, 0, 0], [0, 0], [0, -0.5], [0, 0], [0, 0]),
    advantages=Advantages(
        total=torch.tensor([0.7, 0.6, -0.7, 0.0, 0.0]).double(),
        episode=torch.tensor([0.7, 0.7, -0.7, 0.0, 0.0]).double(),
        step=None,
        format=torch.tensor([0.0, -0.1, 0.0, 0.0, 0.0]).double(),
    ),
    old=Scores(OLD, grid([1, 2, 3], [4, 5], [6, 7], [6, 7], [6, 7]), ZERO, ZERO),
    reference=Scores(
        REFERENCE,
        ZERO,
        grid([-1, -2, -30], [-4, -5], [-60, -7], [-60, -7], [-60, -7]),
        grid(*[[-10, -20, 0]] * 5) * MASK,
    ),
    weight=MASK.float(),
    energy_statistics=EnergyStatistics(-5.0, 2.0),
)


def updates(epochs=1):
    """Rows 0, 2 and 4 in mini-batch 0 (ratio 1), rows 1 and 3 in mini-batch 1; in a second epoch all differ."""
    parts = []
    for epoch in range(epochs):
        for number, rows in enumerate(([0, 2, 4], [1, 3])):
            row, position = MASK[rows].nonzero(as_tuple=True)
            row = torch.tensor(rows)[row]
            log_ratio = torch.full((len(row),), log(2.0) * number)
            log_ratio[(row == 3) & (position == 1)] = log(0.25)
            log_ratio = log_ratio - epoch
            old = OLD[row, position]
            parts.append(
                TokenUpdates(
                    torch.full_like(row, epoch),
                    torch.full_like(row, number),
                    row,
                    position,
                    old + log_ratio,
                    log_ratio,
                    log_ratio.exp().clamp(0.8, 1.2),
                    (row == 3) & (position == 1),
                    row == 1,
                    row == 4,
                    0.5 * torch.ones(len(row)) * (position == 0),
                )
            )
    count = 2 * epochs
    return UpdateResult(
        TokenUpdates.concatenate(parts),
        [0.1, 0.3] * epochs,
        [0.02, 0.04] * epochs,
        [],
        [1.0, 3.0] * epochs,
        count - 2,
        {},
    )


def test_generation_metrics_cover_every_group():
    m = step_metrics(GROUPS, BATCH, updates())
    # Group 0 has a valid and an invalid turn in its first episode; every other episode one valid turn.
    assert m["valid_format"] == pytest.approx(6 / 7)
    assert m["success"] == pytest.approx(1 / 6)
    assert m["reward_mean"] == pytest.approx(0.5 / 6)
    assert m["reward_std"] == pytest.approx(np.std([0.5, 0, 0, 0, 0, 0]))
    assert m["group_reward_std"] == pytest.approx(0.5 / 2**0.5 / 3)
    assert m["zero_spread_groups"] == pytest.approx(2 / 3)
    assert m["turns_mean"] == pytest.approx(7 / 6)
    assert m["tokens_sampled"] == 15
    assert m["response_tokens_mean"] == pytest.approx(15 / 7)
    assert m["tokens_prompt"] == 14
    assert m["truncated_episodes"] == pytest.approx(5 / 6)
    assert m["truncated_responses"] == pytest.approx(1 / 7)
    assert (m["groups_generated"], m["groups_kept"], m["groups_filled"]) == (3, 1, 1)
    assert m["generation_batches"] == 2


def test_batch_metrics():
    m = step_metrics(GROUPS, BATCH, updates())
    assert m["tokens_trained"] == 11
    assert m["entropy"] == pytest.approx((1 + 2 + 3 + 4 + 5 + 3 * 13) / 11)
    assert m["entropy_think"] == pytest.approx((1 + 3 * 6) / 4)
    assert m["entropy_action"] == pytest.approx((2 + 3 * 7) / 4)
    # Tags are left out: -60 is the energy of a tag.
    assert m["energy_think"] == pytest.approx(-1.0)
    assert m["energy_action"] == pytest.approx((-2 - 3 * 7) / 4)
    assert (m["weight_mu"], m["weight_sigma"]) == (-5.0, 2.0)
    assert m["advantage_abs"] == pytest.approx((3 * 0.7 + 2 * 0.6 + 2 * 0.7) / 11)
    assert m["sampler_gap_max"] == pytest.approx(0.5)
    assert m["sampler_gap_mean"] == pytest.approx(0.75 / 11)


def test_metrics_of_absent_tokens_are_missing():
    everything_other = replace(BATCH, role=torch.full_like(BATCH.role, OTHER), energy_statistics=None)
    m = step_metrics(GROUPS, everything_other, updates())
    for name in (
        "entropy_think",
        "entropy_action",
        "energy_think",
        "energy_action",
        "weight_mu",
        "weight_sigma",
    ):
        assert m[name] is None


def test_update_metrics():
    m = step_metrics(GROUPS, BATCH, updates())
    # Seven tokens of ratio 1 in the first mini-batch, then 2, 2, 2 and 1/4.
    ratios = [1.0] * 7 + [2.0] * 3 + [0.25]
    assert m["ratio_mean"] == pytest.approx(sum(ratios) / 11)
    assert (m["ratio_max"], m["ratio_min"]) == pytest.approx((2.0, 0.25))
    assert m["kl_behaviour_k3"] == pytest.approx(sum(r - 1 - log(r) for r in ratios) / 11)
    assert m["kl_behaviour_k1"] == pytest.approx(-sum(log(r) for r in ratios) / 11)
    # Over the first mini-batch: three of its seven tokens have 1/2, and one lies log 2 below the reference.
    assert m["kl_ref_k3"] == pytest.approx(1.5 / 7)
    assert m["kl_ref_k1"] == pytest.approx(-log(2) / 7)
    assert m["first_log_ratio_max"] == 0.0
    assert m["clipped_low"] == pytest.approx(1 / 11)
    assert m["clipped_high"] == pytest.approx(2 / 11)
    assert m["masked"] == pytest.approx(2 / 11)
    # The advantage of row 3 is 0: only row 1 is out of band.
    assert m["out_of_band_low"] == 0.0
    assert m["out_of_band_high"] == pytest.approx(2 / 11)
    assert (m["updates"], m["skipped_updates"]) == (2, 0)
    assert m["policy_loss"] == pytest.approx(0.2)
    assert m["kl_loss"] == pytest.approx(0.03)
    assert (m["grad_norm"], m["grad_norm_max"]) == (2.0, 3.0)
    assert m["grad_norm_think"] is None


def test_every_metric_is_a_column():
    names = {c.name for c in TABLES["steps"].columns}
    assert set(step_metrics(GROUPS, BATCH, updates())) <= names


def test_nonfinite_metrics_are_counted():
    assert count_nonfinite({"a": 1.0, "b": None, "c": 3, "d": float("nan"), "e": np.float64("inf")}) == 2


def test_turn_rows():
    rows = turn_rows(4, GROUPS, BATCH, updates(epochs=2), penalty=0.1)
    assert [(r["group_id"], r["episode_id"], r["turn"]) for r in rows] == [
        (0, 0, 0), (0, 0, 1), (0, 1, 0), (1, 2, 0), (1, 3, 0), (2, 4, 0), (2, 5, 0)
    ]  # fmt: skip
    first, second, third, rejected = rows[:4]
    assert first["step"] == 4
    assert (first["prompt"], first["response"], first["action"]) == ("at", VALID, "up")
    assert (second["response"], second["action"], second["valid"]) == ("up", None, False)
    assert (first["format_penalty"], second["format_penalty"]) == (0.0, -0.1)
    assert (first["admissible"], second["admissible"]) == (True, False)
    assert (first["anchor"], second["anchor"]) == ("s", "t")
    assert (first["reward"], first["response_tokens"], second["truncated"]) == (0.5, 3, True)
    assert (second["advantage"], second["advantage_format"]) == pytest.approx((0.6, -0.1))
    assert second["advantage_step"] is None
    # Of the last epoch, where every log ratio is one lower.
    assert first["sequence_log_ratio"] == pytest.approx(-1.0)
    assert second["sequence_log_ratio"] == pytest.approx(log(2) - 1)
    assert rows[5]["sequence_log_ratio"] == pytest.approx((log(2) + log(0.25)) / 2 - 1)
    assert [r["masked"] for r in rows[:3] + rows[5:]] == [False, False, False, False, True]
    assert not {"advantage", "advantage_step", "advantage_format", "sequence_log_ratio", "masked"} & set(
        rejected
    )
    assert third["valid"]


def test_step_part_of_turns():
    parts = replace(BATCH.advantages, step=torch.tensor([0.5, -0.5, 0.25, 0.0, 0.0]).double())
    rows = turn_rows(1, GROUPS, replace(BATCH, advantages=parts), updates(), penalty=0.1)
    assert [r.get("advantage_step") for r in rows] == [0.5, -0.5, 0.25, None, None, 0.0, 0.0]


def test_episode_rows():
    rows = episode_rows(4, GROUPS, BATCH, penalty=0.1)
    assert [r["episode_id"] for r in rows] == list(range(6))
    assert [r["kept"] for r in rows] == [True, True, False, False, True, True]
    assert [r["filled"] for r in rows] == [False] * 4 + [True] * 2
    assert [r["generation_batch"] for r in rows] == [0] * 4 + [1] * 2
    first, second = rows[:2]
    assert (first["reward"], first["format_penalty"], first["success"]) == (0.5, -0.1, True)
    assert (first["turns"], first["valid_turns"], first["response_tokens"]) == (2, 1, 5)
    assert (first["terminated"], first["truncated"], second["truncated"]) == (True, False, True)
    assert first["advantage"] == pytest.approx(0.7)
    # Over both turns of the episode, tags left out.
    assert first["energy_think"] == pytest.approx(-1.0)
    assert first["energy_action"] == pytest.approx(-2.0)
    assert first["energy_all"] == pytest.approx((-1 - 2 - 30 - 4 - 5) / 5)
    assert first["centred_energy_think"] == pytest.approx(-10.0)
    assert first["centred_energy_action"] == pytest.approx(-20.0)
    assert (first["entropy_think"], first["entropy_action"]) == (1.0, 2.0)
    # The only thought token of episode 1 is a tag.
    assert second["energy_think"] is None
    assert second["energy_action"] == pytest.approx(-7.0)
    assert rows[2]["advantage"] is None
    assert "energy_all" not in rows[2]


def test_token_columns():
    columns = token_columns(4, BATCH, updates(), np.array([0, 2]))
    assert set(columns) == {c.name for c in TABLES["tokens"].columns}
    n = 11
    assert all(len(values) == n for values in columns.values())
    assert columns["minibatch"].tolist() == [0] * 7 + [1] * 4
    assert columns["episode_id"].tolist() == [0, 0, 0, 1, 1, 5, 5, 0, 0, 4, 4]
    assert columns["turn"].tolist() == [0] * 7 + [1, 1, 0, 0]
    assert columns["position"].tolist() == [0, 1, 2, 0, 1, 0, 1, 0, 1, 0, 1]
    assert columns["token_id"].tolist() == [3, 4, 1, 7, 8, 7, 8, 5, 6, 7, 8]
    assert columns["role"].to_pylist()[:3] == ["think", "action", "eos"]
    assert columns["tag"].tolist() == [False, False, False, True, False, True, False] + [False] * 2 + [
        True,
        False,
    ]
    assert columns["advantage"].tolist() == pytest.approx(
        [0.7] * 3 + [-0.7] * 2 + [0.0] * 2 + [0.6] * 2 + [0.0] * 2
    )
    assert columns["advantage_sign"].tolist() == [1] * 3 + [-1] * 2 + [0] * 2 + [1] * 2 + [0] * 2
    assert columns["entropy"].tolist() == [1, 2, 3, 6, 7, 6, 7, 4, 5, 6, 7]
    assert columns["energy"].tolist() == [-1, -2, -30, -60, -7, -60, -7, -4, -5, -60, -7]
    assert columns["ref_logprob"][0] == pytest.approx(-1 + log(2))
    assert columns["sampler_logprob"][0] == pytest.approx(-0.75)
    assert np.exp(columns["log_ratio"]).tolist() == pytest.approx([1.0] * 7 + [2.0] * 3 + [0.25])
    assert columns["logprob"][7] == pytest.approx(-1 + log(2))
    assert columns["masked"].tolist() == [False] * 5 + [True] * 2 + [False] * 4


def test_token_columns_of_some_groups():
    columns = token_columns(4, BATCH, updates(epochs=2), np.array([2]))
    assert set(columns["group_id"].tolist()) == {2}
    assert len(columns["epoch"]) == 2 * 4


@pytest.mark.parametrize(("fraction", "groups"), [(1.0, {0, 2}), (0.5, {0}), (0.51, {0, 2}), (0.0, set())])
def test_files_of_a_step(tmp_path, fraction, groups):
    recipe = tiny(record={"token_fraction": fraction})
    assert write_step_tables(tmp_path, 4, GROUPS, BATCH, updates(), recipe) == 0
    tables = {
        name: pq.read_table(tmp_path / name / "step-00004.parquet")
        for name in ("episodes", "turns", "tokens")
    }
    assert [len(tables[name]) for name in ("episodes", "turns")] == [6, 7]
    assert set(tables["tokens"]["group_id"].to_pylist()) == groups
    assert tables["episodes"]["energy_all"].null_count == 2


def test_nonfinite_values_of_files_are_counted(tmp_path):
    result = updates()
    result.tokens.kl_ref[:3] = torch.inf
    bad = replace(
        BATCH, advantages=replace(BATCH.advantages, total=torch.tensor([torch.inf, 0, 0, 0, 0]).double())
    )
    # Three kl_ref; the advantage of three tokens and of their turn.
    assert write_step_tables(tmp_path, 4, GROUPS, bad, result, tiny()) == 3 + 3 + 1
    tokens = pq.read_table(tmp_path / "tokens/step-00004.parquet")
    assert tokens["kl_ref"].null_count == tokens["advantage"].null_count == 3

"""A cell end to end: identical twice, identical after any SIGKILL, and records that fit together."""

import json
import os
import signal
import subprocess
import sys
import time
from math import log
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from arena.algorithms.catalog import get_algorithm
from arena.errors import UsageError
from arena.policy.model import build_model, load_policy
from arena.policy.scoring import Scores
from arena.policy.tokenizer import RESERVED, build_tokenizer
from arena.recipe import ModelConfig
from arena.records.files import read_status
from arena.records.schema import TABLES
from arena.seeding import EVAL_SEED_START
from arena.training import cell as cell_module
from arena.training.bc import clone
from arena.training.cell import generate, run_cell
from arena.training.checkpoint import STATE_FILE
from arena.training.rollout import Episode, Roller
from tests.training.conftest import silent, tiny

PER_STEP = ("episodes", "turns", "tokens")


def records(directory: Path) -> dict[str, pa.Table]:
    """Every Parquet file of a cell by its relative path, timings left out."""
    found = {}
    for path in sorted(directory.rglob("*.parquet")):
        name = path.relative_to(directory)
        table = TABLES[name.parts[0].removesuffix(".parquet")]
        found[str(name)] = pq.read_table(path).drop_columns(list(table.timings))
    return found


def assert_same_cell(directory: Path, expected: Path) -> None:
    """Same records in content, same weights, optimiser state and status."""
    got, wanted = records(directory), records(expected)
    assert list(got) == list(wanted)
    for name in wanted:
        assert got[name].equals(wanted[name], check_metadata=True), name
    assert (directory / "model/model.safetensors").read_bytes() == (
        expected / "model/model.safetensors"
    ).read_bytes()
    states = [torch.load(d / STATE_FILE, weights_only=True) for d in (directory, expected)]
    assert states[0]["tokens_sampled"] == states[1]["tokens_sampled"]
    for name, value in states[1]["optimizer"]["state"].items():
        for key in value:
            assert torch.equal(states[0]["optimizer"]["state"][name][key], value[key])
    first, second = read_status(directory), read_status(expected)
    assert (first.state, first.step, first.success) == (second.state, second.step, second.success)


def frame(directory: Path, table: str) -> pd.DataFrame:
    if TABLES[table].per_step_files:
        return pd.concat([pq.read_table(p).to_pandas() for p in sorted((directory / table).iterdir())])
    return pq.read_table(directory / f"{table}.parquet").to_pandas()


def test_the_same_recipe_gives_the_same_cell(grpo_cell, start, tmp_path):
    told = []
    run_cell(tiny(), tmp_path, start, lambda *state: told.append(state))
    assert_same_cell(tmp_path, grpo_cell)
    assert [(step, steps, *phase) for step, steps, _, *phase in told] == [
        (1, 3), (1, 3, "evaluation"), (2, 3), (2, 3, "evaluation"), (3, 3)
    ]  # fmt: skip
    assert told[-1][2] == read_status(tmp_path).success


def test_another_seed_gives_another_cell(grpo_cell, start, tmp_path):
    run_cell(tiny(steps=1, seed=1), tmp_path, start, silent)
    seeds = [
        set(pq.read_table(d / "episodes/step-00001.parquet")["task_seed"].to_pylist())
        for d in (tmp_path, grpo_cell)
    ]
    assert not seeds[0] & seeds[1]


def test_evaluation_and_recording_do_not_touch_training(grpo_cell, start, tmp_path):
    run_cell(tiny(eval={"every": 1, "episodes": 2}, record={"enabled": False}), tmp_path, start, silent)
    got, expected = records(tmp_path), records(grpo_cell)
    assert set(got) == {"steps.parquet", "evals.parquet"}
    assert got["steps.parquet"].equals(expected["steps.parquet"])
    weights = [load_policy(d / "model")[0].state_dict() for d in (tmp_path, grpo_cell)]
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[1])


def test_streams_do_not_depend_on_the_method(grpo_cell, start, tmp_path):
    sampled = ["task_seed", "reward", "success", "turns", "valid_turns", "response_tokens"]
    text = ["episode_id", "turn", "prompt", "response", "anchor"]
    for spec in ("actfocus", "sampo"):
        run_cell(tiny(spec, steps=1), tmp_path / spec, start, silent)
        for table, columns in (("episodes", sampled), ("turns", text)):
            got, expected = (
                pq.read_table(d / table / "step-00001.parquet") for d in (tmp_path / spec, grpo_cell)
            )
            assert got.select(columns).equals(expected.select(columns))
    # And yet the methods differ.
    weights = [load_policy(tmp_path / spec / "model")[0].lm_head.weight for spec in ("actfocus", "sampo")]
    assert not torch.equal(*weights)


# ---------------------------------------------------------------- SIGKILL


class Killable:
    """The other end of tests/training/killable.py."""

    def __init__(self, log: Path) -> None:
        self.log = log
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.training.killable"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log.open("w"),
            text=True,
            cwd=Path(__file__).parents[2],
            env={**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1"},
        )

    def line(self) -> str:
        text = self.process.stdout.readline().strip()
        assert text, f"the killable process has ended: {self.log.read_text()[-2000:]}"
        return text

    def run(self, recipe, directory, start, file=None, when="before", nth=1, delay=None) -> int:
        """The exit code of a child, negative for a signal; `delay` kills it after so many seconds."""
        order = {
            "recipe": recipe.model_dump(mode="json"),
            "directory": str(directory),
            "start": start and str(start),
            "file": file,
            "when": when,
            "nth": nth,
            "delay": delay,
        }
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()
        return int(self.line())


@pytest.fixture(scope="module")
def killable(tmp_path_factory):
    server = Killable(tmp_path_factory.mktemp("killable") / "stderr")
    assert server.line() == "ready"
    yield server
    server.process.stdin.close()
    server.process.wait()
    server.process.stdout.close()


#: The files of a three-step cell in the order of their making; the process dies at one after the other.
MOMENTS = [
    ("status.json", "after", 1),
    ("tokens/step-00001.parquet", "before", 1),
    ("steps.parquet", "after", 1),
    (STATE_FILE, "before", 1),
    # From here on there is a checkpoint of step 1, and no evaluation of the cell's own yet.
    (STATE_FILE, "after", 1),
    ("evals.parquet", "before", 1),
    ("evals.parquet", "after", 1),
    (STATE_FILE, "after", 1),
    ("steps.parquet", "after", 1),
    (STATE_FILE, "after", 1),
    # All steps are done: the last status comes after the model.
    ("status.json", "before", 2),
]


def test_a_cell_killed_at_every_kind_of_file_ends_identical(killable, grpo_cell, start, tmp_path):
    for file, when, nth in MOMENTS:
        assert killable.run(tiny(), tmp_path, start, file, when, nth) == -signal.SIGKILL, (file, when)
        assert read_status(tmp_path) is None or read_status(tmp_path).state == "running"
    assert killable.run(tiny(), tmp_path, start) == 0
    assert_same_cell(tmp_path, grpo_cell)


def test_a_cell_killed_at_any_moment_ends_identical(killable, grpo_cell, start, tmp_path):
    """With a checkpoint at every second step and at the last: what is lost is made again, and the same."""
    recipe = tiny(checkpoint={"every": 2})
    began = time.monotonic()
    assert killable.run(recipe, tmp_path / "timed", start) == 0
    duration = time.monotonic() - began
    assert_same_cell(tmp_path / "timed", grpo_cell)
    delays = [share * duration for share in (0.2, 0.5, 0.75)]
    codes = [killable.run(recipe, tmp_path / "cell", start, delay=delay) for delay in delays]
    assert codes[0] == -signal.SIGKILL
    run_cell(recipe, tmp_path / "cell", start, silent)
    assert_same_cell(tmp_path / "cell", grpo_cell)


@pytest.mark.parametrize("spec", ["ppo", "sapo-sr"])
def test_values_survive_a_kill(killable, start, tmp_path, spec):
    recipe = tiny(spec)
    run_cell(recipe, tmp_path / "whole", start, silent)
    assert killable.run(recipe, tmp_path / "killed", start, STATE_FILE, "after", 2) == -signal.SIGKILL
    assert killable.run(recipe, tmp_path / "killed", start) == 0
    assert_same_cell(tmp_path / "killed", tmp_path / "whole")
    steps, turns = frame(tmp_path / "whole", "steps"), frame(tmp_path / "whole", "turns")
    assert steps["value_loss"].notna().all()
    assert turns["value"].notna().all()
    assert (turns[turns.step == 1]["value"] == 0).all()  # values begin at 0
    assert (turns[turns.step == 3]["value"] != 0).any()
    if spec == "sapo-sr":
        assert turns.groupby("step")["group_id"].nunique().tolist() == [8, 8, 8]  # one episode a task
        assert steps["group_reward_std"].isna().all()


def test_records_of_trajectories(tmp_path):
    recipe = tiny("gspo", steps=1, rollout={"layout": "trajectory"}, optim={"sequence": "trajectory"})
    clone(recipe, tmp_path / "bc", silent)
    run_cell(recipe, tmp_path / "cell", tmp_path / "bc", silent)
    tokens, turns = frame(tmp_path / "cell", "tokens"), frame(tmp_path / "cell", "turns")
    assert set(tokens["role"]) <= {"think", "action", "other", "eos"}
    per_turn = tokens.groupby(["episode_id", "turn"])
    counted = per_turn.size().rename("n").reset_index().merge(turns, on=["episode_id", "turn"])
    assert len(counted) == len(turns)
    assert (counted["n"] == counted["response_tokens"]).all()
    assert (per_turn["position"].max() + 1 == per_turn.size()).all()
    # The first turn has the whole prompt, later ones the observation alone.
    assert turns["prompt"].str.startswith(" frozen_lake").tolist() == (turns["turn"] == 0).tolist()
    # One ratio for the whole episode in each update.
    assert (tokens.groupby(["minibatch", "episode_id"])["ratio_applied"].nunique() <= 1).all()
    assert tokens["log_ratio"].nunique() > 10


def test_a_killed_start_is_made_anew(killable, tmp_path):
    recipe, whole, killed = tiny(bc={"steps": 12, "episodes": 12}), tmp_path / "whole", tmp_path / "killed"
    clone(recipe, whole, silent)
    for file in ("evals.parquet", "demonstrations.parquet", "bc.json"):
        assert killable.run(recipe, killed, None, file, "after") == -signal.SIGKILL
        assert read_status(killed).state == "running"
    assert killable.run(recipe, killed, None) == 0
    for name in ("model/model.safetensors", "model/tokenizer.json", "bc.json", "status.json"):
        assert (killed / name).read_bytes() == (whole / name).read_bytes()
    for name in ("evals.parquet", "demonstrations.parquet"):
        assert pq.read_table(killed / name).equals(pq.read_table(whole / name))


def test_a_finished_cell_is_left_as_it_is_and_loses_what_lies_beyond_it(start, tmp_path):
    run_cell(tiny(steps=1), tmp_path, start, silent)
    before = records(tmp_path)
    for table in PER_STEP:
        first = tmp_path / table / "step-00001.parquet"
        (tmp_path / table / "step-00002.parquet").write_bytes(first.read_bytes())
        (tmp_path / table / ".step-00002.parquet.123.tmp").write_bytes(b"half")
    run_cell(tiny(steps=1), tmp_path, start, silent)
    after = records(tmp_path)
    assert list(after) == list(before)
    assert all(after[name].equals(before[name]) for name in before)
    assert [p.name for table in PER_STEP for p in (tmp_path / table).iterdir()] == ["step-00001.parquet"] * 3


# ---------------------------------------------------------------- records


def test_files_of_a_cell(grpo_cell):
    recipe = json.loads((grpo_cell / "recipe.json").read_text())
    assert recipe == {**tiny().model_dump(mode="json"), "hash": tiny().hash}
    status = read_status(grpo_cell)
    assert (status.state, status.step, status.steps, status.hash) == ("done", 3, 3, tiny().hash)
    for table in PER_STEP:
        names = sorted(p.name for p in (grpo_cell / table).iterdir())
        assert names == [f"step-{k:05d}.parquet" for k in (1, 2, 3)]
        for name in names:
            assert pq.ParquetFile(grpo_cell / table / name).num_row_groups == 1
    leftovers = [p for p in grpo_cell.rglob("*") if p.name.startswith(".") or p.name.endswith(".tmp")]
    assert leftovers == []


#: Columns that are null in a run of plain GRPO.
NULL = {"weight_mu", "weight_sigma", "grad_norm_think", "grad_norm_action", "advantage_step"}
NULL |= {"value_loss", "value_explained", "value"}
#: Columns that are null in some rows: no action, no action token.
SOMETIMES = {"action", "energy_action", "centred_energy_action", "entropy_action", "seconds_checkpoint"}
SOMETIMES |= {"energy_think", "centred_energy_think", "entropy_think"}


@pytest.mark.parametrize("table", ["steps", "evals", *PER_STEP])
def test_no_column_is_missing_without_a_reason(grpo_cell, table):
    rows = frame(grpo_cell, table)
    assert list(rows.columns) == [c.name for c in TABLES[table].columns]
    empty = {name for name in rows.columns if rows[name].isna().all()}
    assert empty == NULL & set(rows.columns)
    assert {name for name in rows.columns if rows[name].isna().any()} - empty <= SOMETIMES


def test_steps_count_what_the_other_tables_hold(grpo_cell):
    steps, episodes, turns, tokens = (frame(grpo_cell, t) for t in ("steps", "episodes", "turns", "tokens"))
    assert steps["step"].tolist() == [1, 2, 3]
    assert steps["updates"].tolist() == [2, 2, 2]
    assert steps["nonfinite"].tolist() == [0, 0, 0]
    assert steps["learning_rate"].tolist() == [1e-3] * 3
    assert steps["tokens_sampled_total"].tolist() == steps["tokens_sampled"].cumsum().tolist()
    for row in steps.itertuples():
        e, t, k = (x[x["step"] == row.step] for x in (episodes, turns, tokens))
        assert len(e) == 8
        assert len(t) == e["turns"].sum()
        assert len(k) == t["response_tokens"].sum() == row.tokens_sampled == row.tokens_trained
        assert (row.groups_generated, row.groups_kept, row.groups_filled, row.generation_batches) == (
            2,
            2,
            0,
            1,
        )
        assert row.success == e["success"].mean()
        assert row.reward_mean == pytest.approx(e["reward"].mean())
        assert row.valid_format == pytest.approx(t["valid"].mean())
        assert row.truncated_episodes == e["truncated"].mean()
        assert row.truncated_responses == pytest.approx(t["truncated"].mean())
        assert row.turns_mean == e["turns"].mean()
        assert row.response_tokens_mean == pytest.approx(t["response_tokens"].mean())
        spread = e.groupby("group_id")["reward"].std()
        assert row.group_reward_std == pytest.approx(spread.mean())
        assert row.zero_spread_groups == (spread == 0).mean()
        first = k[(k["epoch"] == 0) & (k["minibatch"] == 0)]
        assert row.kl_ref_k3 == pytest.approx(first["kl_ref"].mean(), rel=1e-5)
        assert row.kl_ref_k1 == pytest.approx((first["logprob"] - first["ref_logprob"]).mean(), abs=1e-7)
        moved = k["log_ratio"].astype(float)
        assert row.kl_behaviour_k3 == pytest.approx((np.exp(moved) - 1 - moved).mean(), rel=1e-4)
        assert row.kl_behaviour_k1 == pytest.approx(-moved.mean(), abs=1e-7)
        ratio = np.exp(k["log_ratio"].astype(float))
        assert row.ratio_mean == pytest.approx(ratio.mean())
        assert (row.ratio_max, row.ratio_min) == pytest.approx((ratio.max(), ratio.min()))
        assert row.clipped_low == pytest.approx(k["clipped_low"].mean())
        assert row.clipped_high == pytest.approx(k["clipped_high"].mean())
        assert row.out_of_band_low == pytest.approx(((k["advantage"] < 0) & (ratio < 0.8)).mean())
        assert row.out_of_band_high == pytest.approx(((k["advantage"] > 0) & (ratio > 1.2)).mean())
        assert row.advantage_abs == pytest.approx(k["advantage"].abs().mean())
        assert row.entropy == pytest.approx(k["entropy"].mean(), rel=1e-5)
        assert row.entropy_action == pytest.approx(k.loc[k["role"] == "action", "entropy"].mean(), rel=1e-5)
        body = k[~k["tag"]]
        assert row.energy_think == pytest.approx(body.loc[body["role"] == "think", "energy"].mean(), rel=1e-5)
        gap = (k["sampler_logprob"] - k["old_logprob"]).abs()
        assert row.sampler_gap_max == pytest.approx(gap.max())
        assert 0 < row.sampler_gap_mean <= row.sampler_gap_max < 5e-5
        assert row.first_log_ratio_max == pytest.approx(first["log_ratio"].abs().max())
        assert row.loss == pytest.approx(row.policy_loss + 0.01 * row.kl_loss)


def test_losses_can_be_recomputed_from_the_tokens(grpo_cell):
    steps, tokens = frame(grpo_cell, "steps"), frame(grpo_cell, "tokens")
    for row in steps.itertuples():
        k = tokens[tokens["step"] == row.step].copy()
        ratio = np.exp(k["log_ratio"].astype(float))
        k["surrogate"] = np.minimum(ratio * k["advantage"], ratio.clip(0.8, 1.2) * k["advantage"])
        by_minibatch = k.groupby("minibatch")
        assert sorted(by_minibatch.groups) == [0, 1]
        assert row.policy_loss == pytest.approx(-by_minibatch["surrogate"].mean().mean(), rel=1e-4, abs=1e-7)
        assert row.kl_loss == pytest.approx(by_minibatch["kl_ref"].mean().mean(), rel=1e-4)


def test_the_cell_learns_something_to_record(grpo_cell):
    """The case is not empty: mixed groups, clipped tokens on both sides, invalid turns."""
    steps = frame(grpo_cell, "steps")
    assert steps["zero_spread_groups"][0] < 1
    assert (steps["clipped_low"] > 0).any()
    assert (steps["clipped_high"] > 0).any()
    assert steps["valid_format"].between(0.05, 0.95).all()


def test_first_update_and_first_step(grpo_cell):
    steps, tokens = frame(grpo_cell, "steps"), frame(grpo_cell, "tokens")
    assert (steps["first_log_ratio_max"] <= 1e-5).all()
    first = tokens[(tokens["step"] == 1) & (tokens["minibatch"] == 0)]
    assert first["kl_ref"].abs().max() <= 1e-10
    assert (first["logprob"] - first["ref_logprob"]).abs().max() <= 1e-5
    # Later updates have moved away.
    assert tokens.loc[tokens["minibatch"] == 1, "log_ratio"].abs().max() > 1e-2
    assert (
        tokens.loc[tokens["step"] == 1, "old_logprob"] - tokens.loc[tokens["step"] == 1, "ref_logprob"]
    ).abs().max() <= 1e-5


def test_tokens_turns_and_episodes_join(grpo_cell):
    episodes, turns, tokens = (frame(grpo_cell, t) for t in ("episodes", "turns", "tokens"))
    keys = ["step", "group_id", "episode_id", "turn"]
    _, tokenizer = load_policy(grpo_cell / "model")
    by_turn = dict(list(tokens.groupby(keys)))
    assert len(by_turn) == len(turns)
    for turn in turns.itertuples():
        k = by_turn[turn.step, turn.group_id, turn.episode_id, turn.turn].sort_values("position")
        assert k["position"].tolist() == list(range(turn.response_tokens))
        assert k["advantage"].nunique() == 1
        assert k["advantage"].iloc[0] == pytest.approx(turn.advantage, rel=1e-6)
        assert (k["advantage_sign"] == np.sign(turn.advantage)).all()
        assert turn.sequence_log_ratio == pytest.approx(k["log_ratio"].mean(), abs=1e-6)
        ended = k["role"].iloc[-1] == "eos"
        assert ended != turn.truncated
        body = k["token_id"][:-1] if ended else k["token_id"]
        assert tokenizer.decode(body.tolist()) == turn.response
        assert (k["role"] == "eos").sum() == ended
        if isinstance(turn.action, str):
            assert "action" in set(k["role"])
        elif "<action>" not in turn.response:
            assert "action" not in set(k["role"])
        assert turn.valid == (turn.format_penalty == 0)
        assert turn.format_penalty in (0.0, -0.1)
    for episode in episodes.itertuples():
        t = turns[(turns["step"] == episode.step) & (turns["episode_id"] == episode.episode_id)]
        assert t["turn"].tolist() == list(range(episode.turns))
        assert episode.group_id == episode.episode_id // 4
        assert set(t["group_id"]) == {episode.group_id}
        assert episode.reward == pytest.approx(t["reward"].sum())
        assert episode.format_penalty == pytest.approx(t["format_penalty"].sum())
        assert episode.valid_turns == t["valid"].sum()
        assert episode.response_tokens == t["response_tokens"].sum()
        assert episode.truncated != episode.terminated
        assert (episode.kept, episode.filled) == (True, False)
        assert t["advantage"].tolist() == pytest.approx((episode.advantage + t["format_penalty"]).tolist())
        assert t["advantage_format"].tolist() == t["format_penalty"].tolist()
        k = tokens[
            (tokens["step"] == episode.step) & (tokens["episode_id"] == episode.episode_id) & ~tokens["tag"]
        ]
        assert episode.energy_all == pytest.approx(k["energy"].mean(), rel=1e-5)
        thought = k[k["role"] == "think"]
        if len(thought):
            assert episode.energy_think == pytest.approx(thought["energy"].mean(), rel=1e-5)
            assert episode.entropy_think == pytest.approx(thought["entropy"].mean(), rel=1e-4, abs=1e-6)
    for _, group in episodes.groupby(["step", "group_id"]):
        assert group["task_seed"].nunique() == 1
        reward, std = group["reward"], group["reward"].std()
        expected = (reward - reward.mean()) / (std + 1e-6) if std > 0 else 0 * reward
        assert group["advantage"].tolist() == pytest.approx(expected.tolist())
        assert group["advantage"].abs().max() <= 3 / 4**0.5
    assert episodes.groupby("step")["task_seed"].nunique().tolist() == [2, 2, 2]
    assert (episodes["task_seed"] < EVAL_SEED_START).all()


def test_token_columns_follow_from_each_other(grpo_cell, start):
    k = frame(grpo_cell, "tokens")
    assert (k["log_ratio"] - (k["logprob"] - k["old_logprob"])).abs().max() < 1e-6
    d = (k["ref_logprob"] - k["logprob"]).astype(float)
    assert np.abs(k["kl_ref"] - (np.exp(d) - d - 1)).max() < 1e-5
    ratio = np.exp(k["log_ratio"].astype(float))
    assert (k["clipped_low"] == ((k["advantage"] < 0) & (ratio < 0.8))).all()
    assert (k["clipped_high"] == ((k["advantage"] > 0) & (ratio > 1.2))).all()
    applied = np.where(k["clipped_low"], 0.8, np.where(k["clipped_high"], 1.2, ratio))
    assert np.abs(k["ratio_applied"] - applied).max() < 1e-5 * ratio.max()
    assert (k["weight"] == 1).all()
    assert not k["masked"].any()
    assert (k["entropy"] > -1e-6).all()
    vocabulary = json.loads((start / "bc.json").read_text())["vocabulary"]
    assert k["entropy"].max() <= log(vocabulary - len(RESERVED))
    assert (k["logprob"] <= 0).all()
    assert set(k["role"]) == {"think", "action", "other", "eos"}


def test_evaluations(grpo_cell, start):
    evals = frame(grpo_cell, "evals")
    sizes = evals.groupby(["step", "temperature"]).size()
    at = [(0, 0.0), (0, 0.5), (0, 1.0), (2, 0.5), (2, 1.0), (3, 0.5), (3, 1.0)]
    assert list(sizes.index) == at
    assert set(sizes) == {4}
    assert evals[evals["step"] == 0].equals(pq.read_table(start / "evals.parquet").to_pandas())
    by_episode = evals.groupby("episode")["task_seed"]
    assert (by_episode.nunique() == 1).all()
    assert evals["task_seed"].nunique() == 4
    assert (evals["task_seed"] >= EVAL_SEED_START).all()
    last = evals[(evals["step"] == 3) & (evals["temperature"] == 0.5)]
    assert read_status(grpo_cell).success == last["success"].mean()


def test_warm_up_raises_the_learning_rate(start, tmp_path):
    run_cell(tiny(steps=2, optim={"warmup": 3}, record={"enabled": False}), tmp_path, start, silent)
    assert frame(tmp_path, "steps")["learning_rate"].tolist() == pytest.approx([0.25e-3, 0.5e-3])


# ---------------------------------------------------------------- several epochs, filters, weights


@pytest.fixture(scope="module")
def sampo_cell(start, tmp_path_factory):
    """One step with two epochs, a filter and gigpo."""
    directory = tmp_path_factory.mktemp("cells") / "sampo"
    run_cell(
        tiny("sampo+seqmask:delta=0.01", steps=1, optim={"epochs": 2}, parts={"dynamic": {}}),
        directory,
        start,
        silent,
    )
    return directory


def test_every_epoch_records_every_trained_token(sampo_cell):
    steps, turns, tokens = (frame(sampo_cell, t) for t in ("steps", "turns", "tokens"))
    trained = turns[turns["advantage"].notna()]
    assert len(tokens) == 2 * trained["response_tokens"].sum() == 2 * steps["tokens_trained"][0]
    assert steps["updates"].tolist() == [4]
    keys = ["episode_id", "turn", "position"]
    first, second = (tokens[tokens["epoch"] == e].sort_values(keys) for e in (0, 1))
    assert first[keys].values.tolist() == second[keys].values.tolist()
    assert not first.duplicated(keys).any()
    for name in (
        "token_id",
        "old_logprob",
        "ref_logprob",
        "advantage",
        "energy",
        "entropy",
        "weight",
        "role",
    ):
        assert first[name].tolist() == second[name].tolist()
    # The second pass splits the rows anew, and sees another policy.
    assert first["minibatch"].tolist() != second["minibatch"].tolist()
    assert (first["logprob"].to_numpy() != second["logprob"].to_numpy()).mean() > 0.9
    last = second.groupby(["episode_id", "turn"])
    joined = trained.set_index(["episode_id", "turn"])
    assert joined["sequence_log_ratio"].tolist() == pytest.approx(last["log_ratio"].mean().tolist(), abs=1e-6)
    assert joined["masked"].tolist() == last["masked"].any().tolist()


def test_sequence_level_columns(sampo_cell):
    turns, tokens = frame(sampo_cell, "turns"), frame(sampo_cell, "tokens")
    sequences = tokens.groupby(["epoch", "episode_id", "turn"])
    # Every token of a sequence meets the same fate.
    for name in ("masked", "clipped_low", "clipped_high"):
        assert (sequences[name].nunique() == 1).all()
    s = np.exp(sequences["log_ratio"].mean())
    advantage = sequences["advantage"].first()
    # Ratios at the border of the range may fall on either side in single precision.
    clear = (s - 0.997).abs().gt(1e-5) & (s - 1.004).abs().gt(1e-5)
    low, high = (advantage < 0) & (s < 0.997), (advantage > 0) & (s > 1.004)
    assert low.any()
    assert high.any()
    assert (sequences["clipped_low"].first() == low)[clear].all()
    assert (sequences["clipped_high"].first() == high)[clear].all()
    masked = sequences["masked"].first()
    assert (masked == ((advantage < 0) & (-np.log(s) > 0.01))).all()
    assert masked.any()
    applied = np.where(low, 0.997, np.where(high, 1.004, s))
    assert np.abs(sequences["ratio_applied"].mean() - applied).max() < 1e-5
    total = turns["advantage"] - turns["advantage_format"] - turns["advantage_step"]
    assert total.groupby(turns["episode_id"]).agg(np.ptp).max() < 1e-9


def test_step_part_is_that_of_the_recorded_anchors(sampo_cell):
    turns = frame(sampo_cell, "turns")
    to_go = {}
    for key, episode in turns.groupby(["group_id", "episode_id"]):
        running = 0.0
        for row in episode.sort_values("turn", ascending=False).itertuples():
            running = row.reward + 0.95 * running
            to_go[key[1], row.turn] = running + row.format_penalty
    turns["to_go"] = [to_go[e, t] for e, t in zip(turns["episode_id"], turns["turn"], strict=True)]
    assert turns["advantage_step"].abs().max() > 0.1
    for _, visits in turns.groupby(["group_id", "anchor"]):
        std = visits["to_go"].std() if len(visits) > 1 else 0.0
        expected = (
            (visits["to_go"] - visits["to_go"].mean()) / (std + 1e-6) if std > 1e-9 else 0 * visits["to_go"]
        )
        assert visits["advantage_step"].tolist() == pytest.approx(expected.tolist(), abs=1e-6)


def test_actfocus_records_its_weights(start, tmp_path):
    run_cell(tiny("actfocus", steps=1, record={"token_fraction": 0.5}), tmp_path, start, silent)
    steps, tokens = frame(tmp_path, "steps"), frame(tmp_path, "tokens")
    assert set(tokens["group_id"]) == {0}  # the first half of two groups
    mu, sigma = steps["weight_mu"][0], steps["weight_sigma"][0]
    assert sigma > 0
    action = tokens["role"] == "action"
    assert action.any()
    z = (tokens["energy"] - mu) / (sigma + 1e-6)
    expected = np.where(action, 1 + 0.5 / (1 + np.exp(-z)), 0.1)
    assert np.abs(tokens["weight"] - expected).max() < 1e-5


def episode(success: bool, reward: float | None = None) -> Episode:
    return Episode(0, (), float(success) if reward is None else reward, success, True)


#: A model for a roller that does not sample.
UNUSED = build_model(
    ModelConfig(hidden_size=8, num_layers=1, num_heads=1, num_kv_heads=1, intermediate_size=8),
    build_tokenizer(()),
    0,
)


class Script(Roller):
    """A roller whose groups have the given outcomes, "+" mixed, "1" all successful, "0" all failed."""

    def __init__(self, *rounds: str) -> None:
        self.rounds, self.calls = list(rounds), []

    def noise(self, episodes, seed):
        self.calls.append({"noise": seed})
        return torch.zeros(episodes, 7, 32)

    def run(self, model, tasks, temperature, noise, dynamics):
        self.calls[-1] |= {"tasks": tasks, "dynamics": dynamics, "temperature": temperature.tolist()}
        outcomes = self.rounds[len(self.calls) - 1]
        return [episode({"+": k == 0, "1": True, "0": False}[kind]) for kind in outcomes for k in range(4)]


def plan(spec, *rounds, step=1, groups=2):
    script = Script(*rounds)
    recipe = tiny(spec, rollout={"groups": groups})
    made = generate(step, get_algorithm(spec), recipe, script, UNUSED)
    assert [g.group_id for g in made] == list(range(len(made)))
    letters = "".join("k" if g.kept else "f" if g.filled else "-" for g in made)
    assert sum(g.trained for g in made) == groups
    return letters, [g.generation_batch for g in made], script


@pytest.mark.parametrize(
    ("rounds", "fate", "batches"),
    [
        (["++"], "kk", [0, 0]),
        (["+0", "+1"], "k-k-", [0, 0, 1, 1]),
        # A third mixed group is not trained on: two were wanted.
        (["0+", "++"], "-kk-", [0, 0, 1, 1]),
        (["00", "11", "0+"], "f----k", [0, 0, 1, 1, 2, 2]),
        (["01", "10", "00"], "ff----", [0, 0, 1, 1, 2, 2]),
    ],
)
def test_dynamic_filter_keeps_resamples_and_fills(rounds, fate, batches):
    letters, generation, script = plan("grpo+dynamic:cold_start=0", *rounds)
    assert (letters, generation) == (fate, batches)
    assert len(script.calls) == len(rounds)


def test_rounds_have_tasks_and_noise_of_their_own():
    _, _, script = plan("grpo+dynamic:cold_start=0", "00", "00", "00")
    assert len({call["noise"] for call in script.calls}) == 3
    tasks = [t for call in script.calls for t in call["tasks"]]
    assert len(set(tasks)) == 6
    assert len({d for call in script.calls for d in call["dynamics"]}) == 24
    for call in script.calls:
        assert call["tasks"] == [call["tasks"][0]] * 4 + [call["tasks"][4]] * 4
        assert call["temperature"] == [1.0] * 8
    # The first round is that of a method without a filter.
    assert plan("grpo", "00")[2].calls == script.calls[:1]


def test_no_filter_before_the_cold_start_is_over():
    assert plan("grpo+dynamic:cold_start=2", "01", step=2)[0] == "kk"
    assert plan("grpo+dynamic:cold_start=2", "+1", "0+", step=3)[0] == "k--k"
    assert plan("grpo", "01")[0] == "kk"


def test_fewer_rounds():
    letters, _, script = plan("grpo+dynamic:cold_start=0:max_batches=1", "0+")
    assert (letters, len(script.calls)) == ("fk", 1)


def test_rejected_groups_are_recorded_and_not_trained_on(start, tmp_path, monkeypatch):
    """A rule that keeps the third group alone: one kept, one filled, the rest rejected."""
    seen = []

    def keeps(self, rewards, successes):
        seen.append(len(rewards))
        return len(seen) == 3

    monkeypatch.setattr(get_algorithm("sampo").filter.__class__, "keeps", keeps)
    run_cell(tiny("sampo:cold_start=0:max_batches=2", steps=1), tmp_path, start, silent)
    steps, episodes, turns, tokens = (frame(tmp_path, t) for t in ("steps", "episodes", "turns", "tokens"))
    row = steps.iloc[0]
    assert (row["groups_generated"], row["groups_kept"], row["groups_filled"]) == (4, 1, 1)
    assert row["generation_batches"] == 2
    fate = episodes.groupby("group_id")[["kept", "filled"]].first()
    assert fate["kept"].tolist() == [True, False, True, False]
    assert fate["filled"].tolist() == [True, False, False, False]
    assert episodes["generation_batch"].tolist() == [0] * 8 + [1] * 8
    assert set(tokens["group_id"]) == {0, 2}
    assert episodes["advantage"].isna().tolist() == (~episodes["kept"]).tolist()
    assert episodes["energy_all"].isna().tolist() == (~episodes["kept"]).tolist()
    for name in ("advantage", "advantage_step", "advantage_format", "sequence_log_ratio", "masked"):
        assert turns[name].isna().tolist() == (~turns["group_id"].isin([0, 2])).tolist()
    trained = turns["group_id"].isin([0, 2])
    assert row["tokens_trained"] == turns.loc[trained, "response_tokens"].sum() == len(tokens)
    assert row["tokens_sampled"] == turns["response_tokens"].sum() > row["tokens_trained"]
    assert row["success"] == episodes["success"].mean()


def scored(largest):
    """Scores of two tokens, one of an energy of this size."""
    none = torch.zeros(1, 2)
    return Scores(torch.tensor([[-1.0, -3.0]]), none, torch.tensor([[-largest, 1.0]]), none)


def test_rounding_in_the_first_mini_batch_may_grow_with_the_logits():
    cell_module._check_first_minibatch(9.9e-4, scored(1000.0))
    with pytest.raises(RuntimeError, match=r"log ratio. 1.10e-03, allowed is 1e-03"):
        cell_module._check_first_minibatch(1.1e-3, scored(1000.0))


@pytest.mark.parametrize("gap", [1.01e-4, float("inf"), float("nan")])
def test_a_first_mini_batch_off_policy_stops_the_cell(gap):
    cell_module._check_first_minibatch(1e-4, scored(50.0))
    with pytest.raises(RuntimeError, match=f"first mini-batch has .log ratio. {gap:.2e}, allowed is 1e-04"):
        cell_module._check_first_minibatch(gap, scored(50.0))


def test_a_fixed_length_is_the_cap_of_the_recipe(start, tmp_path):
    cell = cell_module._Cell.open(tiny("dr-grpo"), tmp_path, start)
    assert cell.algorithm.aggregation.length == tiny().rollout.max_response_tokens == 32


def test_code_that_changed_since_the_run_was_planned_stops_the_cell(start, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text("x = 1")
    recipe = tiny("./mine.py:x", code={"./mine.py": "of other days"})
    with pytest.raises(
        UsageError, match=r"the code of './mine.py:x' changed .*: restore it .* --name .*--fresh"
    ):
        run_cell(recipe, tmp_path / "cell", start, silent)
    assert not (tmp_path / "cell").exists()

"""No check fires on correct records, and each fires on its fault, at the right step and with the right value."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from arena.analysis.detectors import DETECTORS
from arena.analysis.detectors.base import CellRecords, Status, Verdict
from arena.analysis.detectors.examine import examine
from arena.records.reader import read_run
from tests.analysis.detectors.records import healthy, planted, setting
from tests.synthetic import Size, write_run

CHECKS = [detector for detector in DETECTORS.values() if detector.kind == "check"]
HISTORY = {"env": {"history": 2}}


def judged(name: str, records: CellRecords) -> Verdict:
    ((_, verdict),) = examine(records, [DETECTORS[name]])
    return verdict


def fault(verdict: Verdict) -> tuple[Status, tuple[int, ...], tuple[float, ...]]:
    return verdict.status, verdict.steps, verdict.values


def test_every_check_judges_correct_records_and_finds_nothing():
    verdicts = {d.name: verdict for d, verdict in examine(healthy(**HISTORY), CHECKS)}
    expected = dict.fromkeys(verdicts, "ok") | {"unsampled-weight": "degenerate"}  # all tokens are sampled
    assert {name: str(v.status) for name, v in verdicts.items()} == expected


@pytest.mark.parametrize("algo", ["grpo", "sampo"])
def test_no_check_fires_on_a_synthetic_run(tmp_path, algo):
    run = read_run(write_run(tmp_path, Size(steps=3), ("sokoban",), (algo,), (0,)))
    verdicts = examine(CellRecords.of(run.cells[0]), CHECKS)
    assert [d.name for d, verdict in verdicts if verdict.alarm] == []
    assert sum(verdict.status == Status.OK for _, verdict in verdicts) >= 4


@pytest.mark.parametrize("detector", CHECKS, ids=lambda d: d.name)
def test_without_records_every_check_is_skipped_and_says_what_it_needs(detector):
    verdict = judged(detector.name, CellRecords())
    assert verdict.status == Status.SKIPPED
    assert all(need in verdict.summary for need in detector.needs)


@pytest.mark.parametrize("algo", ["./mine.py:method", "ppo", "sapo-sr", "reinforce++", "dr-grpo", "rloo"])
def test_an_advantage_without_a_bound_is_not_judged(algo):
    records = planted(_with_algo(algo), "episodes", setting("advantage", 9.0, step=2, episode_id=3))
    assert judged("advantage-bound", records).status == Status.DEGENERATE


@pytest.mark.parametrize("algo", ["grpo", "grpo:clip_low=0.1", "gspo+dynamic", "empg", "ppo+empg:zeta=0.1"])
def test_an_advantage_beyond_the_bound_of_its_group(algo):
    # Four values: 3/sqrt(4) = 1.5.
    records = planted(_with_algo(algo), "episodes", setting("advantage", -1.6, step=2, episode_id=3))
    verdict = judged("advantage-bound", records)
    assert fault(verdict) == (Status.CRITICAL, (2,), (1.6,))
    assert "first 1.6 where 4 values allow 1.5" in verdict.summary


def test_a_group_of_one_has_no_advantage():
    records = planted(healthy(), "episodes", lambda f: f[~((f.step == 1) & f.episode_id.between(1, 3))])
    assert fault(judged("advantage-bound", records)) == (Status.CRITICAL, (1,), (1.5,))


def _with_steps(turns):
    """GiGPO's step part: the first turns of a group have one anchor, so four visits; the bound is 1.5."""
    return turns.assign(advantage_step=np.where(turns.turn == 0, turns.advantage, 0.0))


def test_gigpos_step_part_is_judged_among_the_visits_of_an_anchor():
    records = planted(healthy("gigpo"), "turns", _with_steps)
    assert judged("advantage-bound", records).status == Status.OK
    assert judged("advantage-mean", records).status == Status.OK
    # An anchor of one visit: bound 0. The three left behind have mean -0.5 and a largest |A| of 0.5.
    alone = planted(records, "turns", setting("anchor", "alone", step=2, episode_id=0, turn=0))
    assert fault(judged("advantage-bound", alone)) == (Status.CRITICAL, (2,), (1.5,))
    assert fault(judged("advantage-mean", alone)) == (Status.CRITICAL, (2,), (1.0,))


@pytest.mark.parametrize("name", ["advantage-bound", "advantage-mean"])
def test_advantages_are_judged_by_what_their_rule_reads(name):
    """GRPO's of the episodes alone; of GiGPO the step part too, which other records may lack."""
    grpo, gigpo = healthy(), healthy("gigpo")
    alone = replace(grpo, tables={"episodes": grpo.tables["episodes"]})
    assert judged(name, alone).status == Status.OK
    for records in (gigpo, replace(gigpo, tables={"episodes": gigpo.tables["episodes"]})):
        verdict = judged(name, records)
        assert verdict.status == Status.SKIPPED
        assert "turns.advantage_step" in verdict.summary


@pytest.mark.parametrize("algo", ["grpo", "dr-grpo", "rloo", "gspo+gigpo", "empg"])
def test_a_mean_within_the_group_that_is_not_0(algo):
    correct = planted(_with_algo(algo), "turns", _with_steps)
    records = planted(correct, "episodes", setting("advantage", -0.1, step=2, episode_id=1))
    verdict = judged("advantage-mean", records)  # (1.5 - 0.1 - 0.5 - 0.5) / 4, of the largest, 1.5
    assert (verdict.status, verdict.steps) == (Status.CRITICAL, (2,))
    assert verdict.values == pytest.approx([0.1 / 1.5])


def test_a_mean_of_zeros_says_nothing():
    records = planted(healthy(), "episodes", lambda frame: frame.assign(advantage=0.0))
    assert judged("advantage-mean", records).status == Status.DEGENERATE


@pytest.mark.parametrize(
    ("column", "value"), [("role", "observation"), ("role", "prompt"), ("sampler_logprob", np.nan)]
)
def test_weight_on_a_token_that_was_not_sampled(column, value):
    records = planted(healthy(), "tokens", setting(column, value, step=2, position=0, turn=1, group_id=1))
    assert fault(judged("unsampled-weight", records)) == (Status.CRITICAL, (2,), (4.0,))
    without = planted(records, "tokens", setting("weight", 0.0, step=2, position=0, turn=1, group_id=1))
    assert judged("unsampled-weight", without).status == Status.OK


def test_records_of_sampled_tokens_only_do_not_say_whether_others_are_trained():
    verdict = judged("unsampled-weight", healthy())
    assert (verdict.status, verdict.summary) == (Status.DEGENERATE, "the records hold sampled tokens only")


def test_a_history_that_does_not_extend_the_earlier_prompt():
    records = planted(
        healthy(**HISTORY), "turns", setting("prompt", " rules state1", step=2, turn=1, group_id=0)
    )
    verdict = judged("prompt-prefix", records)
    assert fault(verdict) == (Status.CRITICAL, (2,), (4.0,))
    assert "4 of 16 later prompts" in verdict.summary
    assert judged("prompt-prefix", planted(records, "turns", lambda f: f[f.step == 1])).status == Status.OK


def test_a_history_in_the_full_style_changes_its_last_heading():
    first = "rules\n\nCurrent observation:\nA\n"
    second = "rules\n\nEarlier observation:\nA\nYour action: up\n\nCurrent observation:\nB\n"
    records = planted(
        healthy(**HISTORY), "turns", lambda f: f.assign(prompt=np.where(f.turn == 0, first, second))
    )
    assert judged("prompt-prefix", records).status == Status.OK


def test_turns_beyond_the_history_are_not_judged_and_layout_turn_without_one_is_not():
    turns = setting("prompt", " rules state1", turn=1)
    assert judged("prompt-prefix", planted(healthy(), "turns", turns)).status == Status.DEGENERATE
    longer = planted(
        healthy(env={"history": 1}),
        "turns",
        lambda f: f.assign(turn=f.turn + 1, prompt=" rules state1 up state2"),
    )
    assert (
        judged("prompt-prefix", longer).status == Status.CRITICAL
    )  # turn 0, that turn 1 extends, is missing


def test_a_trajectory_repeats_no_prompt_and_misses_no_turn():
    layout = {"rollout": {"layout": "trajectory"}}
    records = planted(healthy(**layout), "turns", setting("prompt", " state1", turn=1))
    assert judged("prompt-prefix", records).status == Status.OK
    again = planted(
        records, "turns", setting("prompt", " rules state0 up state1", step=2, turn=1, group_id=1)
    )
    assert fault(judged("prompt-prefix", again)) == (Status.CRITICAL, (2,), (4.0,))
    gap = planted(records, "turns", setting("turn", 2, step=2, turn=1, episode_id=5))
    assert fault(judged("prompt-prefix", gap)) == (Status.CRITICAL, (2,), (1.0,))


@pytest.mark.parametrize(
    ("table", "change", "value"),
    [
        ("episodes", setting("task_seed", 99, step=2, episode_id=5), 1),  # two tasks in a group
        (
            "episodes",
            setting("episode_id", 4, step=2, episode_id=5),
            1 + 2,
        ),  # and its turns and tokens have none
        ("episodes", lambda f: f[~((f.step == 2) & (f.episode_id == 5))], 1 + 2),  # a smaller group
        ("turns", setting("group_id", 0, step=2, episode_id=5, turn=1), 1),
        ("tokens", setting("group_id", 0, step=2, episode_id=5), 1),
    ],
)
def test_ids_that_do_not_agree(table, change, value):
    assert fault(judged("group-ids", planted(healthy(), table, change))) == (
        Status.CRITICAL, (2,), (value,),
    )  # fmt: skip


def test_a_copy_of_an_improbable_rollout():
    def copy(tokens):
        at = tokens.step == 2
        tokens.loc[at & (tokens.episode_id == 7), "token_id"] = tokens.token_id[
            at & (tokens.episode_id == 6)
        ].values
        return tokens

    records = planted(healthy(), "tokens", copy)
    assert fault(judged("duplicate-rollouts", records)) == (Status.CRITICAL, (2,), (1.0,))
    # In another group it is another task's; the same tokens at other places are another rollout.
    apart = planted(records, "tokens", lambda f: f.assign(group_id=f.episode_id))
    assert judged("duplicate-rollouts", apart).status == Status.DEGENERATE
    moved = planted(
        records, "tokens", lambda f: f.assign(turn=np.where(f.episode_id == 7, 1 - f.turn, f.turn))
    )
    assert judged("duplicate-rollouts", moved).status == Status.OK


def test_copies_of_a_policy_that_is_certain_are_honest():
    records = planted(healthy(), "tokens", lambda f: f.assign(token_id=1, sampler_logprob=-0.01))
    assert judged("duplicate-rollouts", records).status == Status.DEGENERATE


def test_the_epochs_of_a_rollout_are_not_copies():
    records = planted(
        healthy(), "tokens", lambda f: f.assign(epoch=1 - f.episode_id % 2, episode_id=f.episode_id // 2 * 2)
    )
    assert judged("duplicate-rollouts", records).status == Status.OK


def test_a_gradient_of_0_where_tokens_push():
    records = planted(healthy(), "steps", setting("grad_norm", 0.0, step=2))
    assert fault(judged("zero-gradient", records)) == (Status.CRITICAL, (2,), (0.0,))
    for honest in (
        {"old_logprob": 0.0},  # certain tokens
        {"weight": 0.0},
        {"masked": True},
        {"minibatch": 1},
        {"token_id": 1},  # everybody says the same: the advantages of a group cancel
    ):
        changed = planted(records, "tokens", lambda f, honest=honest: f.assign(**honest))
        assert judged("zero-gradient", changed).status == Status.OK, honest


@pytest.mark.parametrize(("algo", "status"), [("grpo", Status.CRITICAL), ("ppo", Status.OK)])
def test_unequal_returns_without_advantage(algo, status):
    records = planted(_with_algo(algo), "episodes", setting("advantage", 0.0, step=2, group_id=1))
    verdict = judged("zero-gradient", records)
    assert verdict.status == status
    if status == Status.CRITICAL:
        assert (verdict.steps, verdict.values) == ((2,), (0.5,))


def test_equal_returns_have_nothing_to_learn_from():
    records = planted(healthy(), "episodes", lambda f: f.assign(reward=0.3, advantage=0.0))
    records = planted(records, "tokens", lambda f: f.assign(advantage=0.0))
    assert judged("zero-gradient", records).status == Status.DEGENERATE


def test_every_response_cut():
    records = planted(healthy(), "steps", setting("truncated_responses", 1.0, step=2))
    assert fault(judged("all-truncated", records)) == (Status.CRITICAL, (2,), (1.0,))


@pytest.mark.parametrize("change", [("role", "other"), ("weight", 0.0)])
def test_an_end_token_that_is_not_trained(change):
    records = planted(healthy(), "tokens", setting(*change, step=2, position=4, episode_id=3))
    assert fault(judged("eos-trained", records)) == (Status.CRITICAL, (2,), (2.0,))
    cut = planted(records, "turns", setting("truncated", True, step=2, episode_id=3))
    assert judged("eos-trained", cut).status == Status.OK


def test_where_all_responses_were_cut_no_end_token_is_expected():
    records = planted(healthy(), "turns", lambda f: f.assign(truncated=True))
    assert judged("eos-trained", records).status == Status.DEGENERATE


def test_a_ratio_that_does_not_begin_at_1_and_a_kl_that_does_not_begin_at_0():
    ratio = planted(healthy(), "steps", setting("first_log_ratio_max", 0.05, step=2))
    assert fault(judged("first-minibatch", ratio)) == (Status.CRITICAL, (2,), (0.05,))
    both = planted(ratio, "steps", setting("kl_ref_k3", 2e-3, step=1))
    assert fault(judged("first-minibatch", both)) == (Status.CRITICAL, (1, 2), (2e-3, 0.05))


def test_a_run_read_from_a_later_step_has_no_first_kl():
    records = planted(healthy(), "steps", lambda f: f.assign(step=f.step + 1, kl_ref_k3=0.5))
    assert judged("first-minibatch", records).status == Status.OK


def test_a_training_task_of_the_evaluation():
    records = planted(healthy(), "evals", lambda f: f.assign(task_seed=[11, 5]))  # step 2, group 1
    assert fault(judged("eval-overlap", records)) == (Status.CRITICAL, (2,), (4.0,))


def test_a_value_that_is_not_finite():
    verdict = judged("nonfinite", planted(healthy(), "steps", setting("nonfinite", 3, step=2)))
    assert fault(verdict) == (Status.CRITICAL, (2,), (3.0,))
    assert verdict.summary == "3 values of 1 steps are not finite"


def _with_algo(algo: str) -> CellRecords:
    """The records under another spec; that of a user's file is not read."""
    records = healthy()
    assert records.recipe is not None
    return replace(records, recipe=records.recipe.model_copy(update={"algorithm": algo}))

"""The summary's sentences, from hand-made cells: what they claim and what they leave open."""

import math
from pathlib import Path

import pandas as pd

from arena.records.reader import Run, load_evals, read_run
from arena.report.findings import _repeats, caveats, finding
from arena.report.wording import NBSP
from arena.seeding import eval_task_seed
from tests.synthetic import Size, write_cell

PERCENT = f"{NBSP}%"


def cell(algo, seed, final, peak=None, start=0.3, best_start=0.4, state="done", **more):
    peak = max(final, start) if peak is None else peak
    row = {"env": "sokoban", "algo": algo, "seed": seed, "state": state, "temperature": 0.5}
    row |= {"start": start, "best_start": best_start, "peak": peak, "final": final, "drop": peak - final}
    row |= {"gain": final - best_start, "drop_noise": 0.05, "gain_noise": 0.05}
    return (
        row
        | {
            "degraded": peak - final > 0.15,
            "improved": final - best_start > 0.1,
            "collapse_step": math.nan,
            "late_fall": False,
        }
        | more
    )


def sentences(*cells):
    return finding("sokoban", pd.DataFrame(cells)).sentences


def test_a_clear_winner_and_a_collapse():
    told = sentences(
        cell("sampo", 0, 0.60),
        cell("sampo", 1, 0.70),
        cell("cispo", 0, 0.10, peak=0.50),
        cell("cispo", 1, 0.20, peak=0.40),
    )
    assert told == (
        f"sampo ended highest at T{NBSP}={NBSP}0.5: 65.0{PERCENT} (60.0–70.0 over 2 seeds), "
        f"from 30.0{PERCENT} at the start.",
        "Over 2 seeds its range is above that of every other method.",
        "Above the start at its best temperature by more than evaluation noise in every seed: sampo "
        "(by 25.0 points).",
        f"cispo fell after its peak, from 45.0{PERCENT} to 15.0{PERCENT}: 30.0 points, more than evaluation "
        "noise in 2 of 2 seeds.",
    )


def test_collapses_are_left_to_their_own_list():
    told = sentences(
        cell("cispo", 0, 0.1, peak=0.6, collapse_step=28),
        cell("cispo", 1, 0.1, peak=0.6, collapse_step=26),
        cell("cispo", 2, 0.4, peak=0.6),
    )
    assert told[-1].endswith("noise in 3 of 3 seeds.")


def test_a_fall_at_the_end_is_told_apart_from_a_collapse():
    told = sentences(
        cell("cispo", 0, 0.1, peak=0.6, collapse_step=28),
        cell("cispo", 1, 0.1, peak=0.6, late_fall=True),
        cell("cispo", 2, 0.4, peak=0.6),
    )
    assert told[-1].endswith(
        "noise in 3 of 3 seeds. In 1 of 3 seeds it ended below half of its peak, and training "
        "success does not show a lasting fall: too late to say whether it stays."
    )
    told = sentences(cell("cispo", 0, 0.1, peak=0.6, late_fall=True), cell("cispo", 1, 0.3, late_fall=None))
    assert told[-1].count("collapsed") == 0
    assert "noise in 1 of 2 seeds. In 1 of 2 seeds it ended below half" in told[-1]


def test_of_two_seeds_no_more_is_said_than_whether_they_overlap():
    told = sentences(
        cell("sampo", 0, 0.4), cell("sampo", 1, 0.6), cell("grpo", 0, 0.45), cell("grpo", 1, 0.45)
    )
    assert told[1] == "Over 2 seeds its range overlaps that of grpo."
    assert told[2].startswith("No method ended above the start at its best temperature")
    assert told[3] == "No method fell from its peak by more than evaluation noise."


def test_from_three_seeds_on_differences_are_paired_as_compare_pairs_them():
    finals = {
        "sampo": (0.50, 0.60, 0.71),  # overlaps grpo, and is above it by 0.05, 0.04, 0.06 in each seed
        "grpo": (0.45, 0.56, 0.65),
        "cispo": (0.55, 0.50, 0.55),
        "gspo": (0.40, 0.50, 0.61),
    }
    told = sentences(*(cell(m, s, v) for m, values in finals.items() for s, v in enumerate(values)))
    # Half intervals 4.3027 s / sqrt(3), in points: s = 1 gives 2.48; of -5, 10 and 16 s = 10.82, 26.9.
    assert told[1] == (
        "sampo, paired over 3 seeds: better than grpo (by 5.0, CI 2.5 to 7.5); no difference that 3 seeds can show "
        "from cispo (by 7.0, CI -19.9 to 33.9); above gspo (by 10.0) by the same in every seed, so without an interval."
    )


def test_one_seed_settles_nothing():
    told = sentences(cell("sampo", 0, 0.6), cell("grpo", 0, 0.45))
    assert "(one seed)" in told[0]
    assert told[1] == "With one seed the order of the methods is not settled."


def test_a_single_method_is_not_the_highest():
    told = sentences(cell("grpo", 0, 0.6), cell("grpo", 1, 0.7))
    assert told[0].startswith("grpo ended at")
    assert len(told) == 3


def test_unfinished_and_unmatched_cells_are_said_first():
    told = sentences(cell("sampo", 0, 0.6), cell("sampo", 1, 0.6), cell("grpo", 0, 0.5, state="failed"))
    assert told[:3] == (
        "Not all cells are finished; unfinished ones are read as far as they went.",
        "The methods do not cover the same seeds, so their means are not matched.",
        "No seed is finished by every method, so none is named the highest.",
    )


def test_only_seeds_that_all_methods_finished_are_compared():
    told = sentences(
        cell("sampo", 0, 0.5), cell("sampo", 1, 0.9, best_start=0.6), cell("grpo", 0, 0.6, best_start=0.4)
    )
    assert told[1] == (
        f"Over what all methods finished, seed 0: grpo ended highest at T{NBSP}={NBSP}0.5: 60.0{PERCENT} "
        f"(one seed), from 30.0{PERCENT} at the start."
    )
    assert told[2] == "With one seed the order of the methods is not settled."
    # Over the start of its own seeds.
    assert told[3].endswith("grpo (by 20.0 points).")


def test_a_method_without_evaluations_leaves_no_winner():
    told = sentences(cell("sampo", 0, 0.5), cell("grpo", 0, float("nan"), state="running"))
    assert told[1] == "No seed is finished by every method, so none is named the highest."


def test_equal_means_have_no_single_winner():
    tied = [cell("grpo", 0, 0.6), cell("grpo", 1, 0.7), cell("sampo", 0, 0.7), cell("sampo", 1, 0.6)]
    assert sentences(*tied)[0].startswith(f"grpo and sampo ended equal at T{NBSP}={NBSP}0.5: 65.0{PERCENT} (")
    told = sentences(*tied, cell("cispo", 0, 0.1), cell("cispo", 1, 0.1))
    assert told[0].startswith("grpo and sampo ended equal and highest at")
    assert told[1] == "Over 2 seeds their range is above that of every other method."


def test_without_evaluations_nothing_is_claimed():
    assert sentences(cell("grpo", 0, float("nan"))) == ("No cell has an evaluation yet.",)


def test_a_fall_that_may_be_noise_is_not_passed_as_none():
    told = sentences(
        cell("grpo", 0, 0.1, peak=0.9, degraded=None, late_fall=None), cell("grpo", 1, 0.6, late_fall=False)
    )
    assert told[-1] == (
        "In 1 of 2 cells a fall could not be judged: their evaluation has a single task, which says nothing of noise."
    )


def noted(rows, seeds=(0, 1, 2)):
    """The caveats of hand-made cells, whose run and records are empty."""
    cells = [cell(m, s, 0.5, **more) for m, more in rows for s in seeds]
    none = pd.DataFrame(columns=["env", "algo", "seed", "temperature", "step"])
    return caveats(Run(Path("r"), {}, (), ()), pd.DataFrame(cells), pd.DataFrame(), none)


def test_the_spread_of_tokens_is_that_of_finished_cells():
    (told,) = (n for n in noted([("grpo", {"tokens": 10.0}), ("sampo", {"tokens": 12.0})]) if "tokens" in n)
    assert told.endswith("the most and the least differ: Sokoban 1.2 times.")
    stopped = {"tokens": 2.0, "state": "failed"}
    told = noted([("grpo", {"tokens": 10.0}), ("sampo", {"tokens": 10.0}), ("cispo", stopped)])
    assert not any("tokens" in note for note in told)


def test_which_intervals_are_students_is_said_where_there_are_any():
    methods = [("grpo", {"tokens": 1.0})]
    (told,) = noted(methods)
    assert "Student's of means over seeds and of differences" in told
    assert "the bootstrap's, which is too narrow for few seeds, of place, IQM and" in told
    (few,) = noted(methods, seeds=(0, 1))
    assert few.startswith("2 seeds per method: below 3 seeds no interval is given")


def test_tasks_that_repeat_are_named_before_a_number_is_quoted(tmp_path):
    size = Size(steps=1, groups=1, turns=1, tokens=2, eval_episodes=4, eval_every=1)
    for env in ("frozen_lake", "sokoban", "line"):
        write_cell(tmp_path, env, "grpo", 0, size)
    run = read_run(tmp_path)
    evals = load_evals(run.cells)
    assert [note[:43] for note in _repeats(run, evals)] == ["Whether evaluation tasks of Line repeat is "]
    # Three episodes of one lake and one of another: sqrt(0.25 x 10) / 4 = 0.395 in the place of 0.25.
    lakes = [eval_task_seed("frozen_lake", 0, i) for i in (0, 0, 0, 2)]
    seeds = [
        lakes[e] if env == "frozen_lake" else s for env, e, s in evals[["env", "episode", "task_seed"]].values
    ]
    told, _ = _repeats(run, evals.assign(task_seed=seeds))
    assert told == (
        "Of 4 evaluation tasks of FrozenLake 2 are distinct, the others repeat them: a standard error of up to 39.5 "
        "points of one evaluation. What is called more than evaluation noise allows for it."
    )

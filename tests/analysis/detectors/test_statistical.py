"""The statistical detectors on invented records: each sees its planted pattern when it is there, and never ahead."""

from __future__ import annotations

import dataclasses
from functools import cache

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arena.analysis.detectors.base import CellRecords, Detector, Status, Verdict
from arena.analysis.detectors.causal import SKIP, WINDOW
from arena.analysis.detectors.examine import examine
from arena.analysis.detectors.statistical import REJECTED, STATISTICAL

STEPS = 40
#: The step from which the pattern is planted.
AT = 25
ALL = STATISTICAL | REJECTED

#: A healthy run: each column of `steps` by level and relative noise (log-normal).
HEALTHY = {
    "kl_ref_k3": (0.05, 0.1),
    "kl_behaviour_k3": (2e-3, 0.3),
    "entropy": (0.5, 0.05),
    "grad_norm": (0.3, 0.2),
    "out_of_band_low": (4e-3, 0.3),
    "out_of_band_high": (3e-3, 0.3),
    "valid_format": (0.97, 0.005),
    "reward_mean": (0.5, 0.1),
    "group_reward_std": (0.4, 0.1),
    "zero_spread_groups": (0.2, 0.05),
    "response_tokens_mean": (30.0, 0.02),
    "sampler_gap_max": (0.02, 0.3),
}


@cache
def healthy(seed: int = 0) -> CellRecords:
    """A run in which nothing happens but noise."""
    rng = np.random.default_rng(seed)
    step = np.arange(1, STEPS + 1)
    columns = {name: level * np.exp(rng.normal(0, noise, STEPS)) for name, (level, noise) in HEALTHY.items()}
    steps = pd.DataFrame({"step": step, **columns})
    steps["valid_format"] = steps.valid_format.clip(upper=1)
    steps["sampler_gap_mean"] = 0.1 * steps.sampler_gap_max
    tables = {"tokens": _tokens(rng), "turns": _turns(rng), "episodes": _episodes(rng)}
    return CellRecords(steps=steps, tables=tables)


def _tokens(rng: np.random.Generator) -> pd.DataFrame:
    """24 sequences of four tokens a step in three mini-batches; ratios are 1 in the first."""
    step, sequence, position = (a.ravel() for a in np.indices((STEPS, 24, 4)))
    minibatch = sequence % 3
    return pd.DataFrame(
        {
            "step": step + 1,
            "epoch": 0,
            "minibatch": minibatch,
            "episode_id": sequence,
            "turn": 0,
            "position": position,
            "advantage": np.where(sequence // 3 % 2 == 0, 1.0, -1.0),
            "log_ratio": np.where(minibatch == 0, 0.0, rng.normal(0, 0.05, step.size)),
            "entropy": rng.gamma(2, 0.2, step.size),
            "kl_ref": rng.exponential(0.02, step.size),
        }
    )


def _turns(rng: np.random.Generator) -> pd.DataFrame:
    """20 responses of eight words a step."""
    words = np.array([f"w{i}" for i in range(40)])
    step = np.repeat(np.arange(1, STEPS + 1), 20)
    return pd.DataFrame({"step": step, "response": [" ".join(rng.choice(words, 8)) for _ in step]})


def _episodes(rng: np.random.Generator) -> pd.DataFrame:
    """32 episodes of four turns a step."""
    step = np.repeat(np.arange(1, STEPS + 1), 32)
    reward, invalid = rng.binomial(1, 0.5, step.size), rng.binomial(4, 0.2, step.size)
    return pd.DataFrame({"step": step, "reward": 1.0 * reward, "format_penalty": -0.1 * invalid, "turns": 4})


def _column(name: str, factor: float):
    def plant(records: CellRecords) -> CellRecords:
        steps = records.steps
        late = steps[name].where(steps.step < AT, steps[name] * factor)
        return dataclasses.replace(records, steps=steps.assign(**{name: late}))

    return plant


def _both(*plants):
    def plant(records: CellRecords) -> CellRecords:
        for one in plants:
            records = one(records)
        return records

    return plant


def _table(name: str, **columns):
    """Columns of a table from `AT` on: functions of its rows."""

    def plant(records: CellRecords) -> CellRecords:
        rows = records.tables[name]
        new = {c: rows[c].where(rows.step < AT, make(rows)) for c, make in columns.items()}
        return dataclasses.replace(records, tables={**records.tables, name: rows.assign(**new)})

    return plant


def _driving(rows: pd.DataFrame) -> pd.Series:
    return (rows.advantage < 0) & (rows.minibatch > 0)


#: What each detector is for, planted from `AT` on, and the step of its alarm.
PLANTED = {
    "negative-mass": (
        _table(
            "tokens",
            log_ratio=lambda t: t.log_ratio.mask(_driving(t), -1.0),
            kl_ref=lambda t: t.kl_ref.mask(_driving(t), 1.0),
        ),
        AT + 1,
    ),
    "out-of-band-low": (_column("out_of_band_low", 60), AT + 1),
    "out-of-band-high": (_column("out_of_band_high", 60), AT + 1),
    "kl-explosion": (_column("kl_behaviour_k3", 200), AT + 1),
    "reference-kl": (_column("kl_ref_k3", 30), AT + 1),
    "gradient-spikes": (_column("grad_norm", 40), AT + 2),
    "entropy-rise": (_column("entropy", 6), AT + 1),
    "entropy-fall": (_both(_column("entropy", 0.02), _column("reward_mean", 0.5)), AT + 1),
    "format-fall": (_column("valid_format", 0.6), AT + 1),
    "reward-spread-cliff": (_both(_column("group_reward_std", 0.2), _column("reward_mean", 0.5)), AT + 1),
    "zero-variance-groups": (_both(_column("zero_spread_groups", 4.7), _column("reward_mean", 0.5)), AT + 1),
    "length-blow-up": (_column("response_tokens_mean", 2.5), AT + 1),
    "length-collapse": (_column("response_tokens_mean", 0.4), AT + 1),
    "repetition": (_table("turns", response=lambda t: "so on and on so on and on so on and on"), AT + 1),
    "staleness": (
        _table("tokens", log_ratio=lambda t: t.log_ratio.mask((t.minibatch == 2) & (t.position > 0), -20.0)),
        AT + 1,
    ),
    "sampler-mismatch": (_column("sampler_gap_max", 50), AT + 1),
    "component-divergence": (
        _table("episodes", reward=lambda e: 0.1 * e.reward, format_penalty=lambda e: 0.1 * e.format_penalty),
        None,
    ),
    "resume": (_both(_column("entropy", 4), _column("kl_ref_k3", 0.01)), AT + 1),
}


def judge(detector: Detector, records: CellRecords) -> Verdict:
    ((_, verdict),) = examine(records, [detector])
    return verdict


def cut(records: CellRecords, last: int) -> CellRecords:
    """The records after step `last` taken away."""
    tables = {name: rows[rows.step <= last] for name, rows in records.tables.items()}
    return dataclasses.replace(records, steps=records.steps[records.steps.step <= last], tables=tables)


def test_components_are_compared_as_soon_as_there_are_means():
    episodes = PLANTED["component-divergence"][0](healthy()).tables["episodes"]
    early = episodes[episodes.step > AT - 10].assign(step=lambda rows: rows.step - (AT - 10))
    verdict = judge(ALL["component-divergence"], CellRecords(tables={"episodes": early}))
    assert 10 < verdict.step <= 15


def test_every_statistical_detector_has_a_pattern():
    assert set(PLANTED) == set(ALL)


@pytest.mark.parametrize("name", ALL)
def test_quiet_on_noise(name):
    found = [judge(ALL[name], healthy(seed)) for seed in range(5)]
    assert [v.status for v in found] == [Status.OK] * 5, found


@pytest.mark.parametrize("name", ALL)
def test_sees_its_pattern_at_its_step(name):
    plant, step = PLANTED[name]
    verdict = judge(ALL[name], plant(healthy()))
    assert verdict.status == Status.CRITICAL, verdict
    if step is None:  # a change of means is seen once enough steps are behind it
        assert AT < verdict.step <= AT + 5
    else:
        assert verdict.step == verdict.critical_step == step
    assert f"at step {verdict.critical_step}" in verdict.summary


@pytest.mark.parametrize("name", ALL)
@settings(max_examples=8, deadline=None)
@given(last=st.integers(1, STEPS), seed=st.integers(0, 3))
def test_what_comes_later_changes_nothing(name, last, seed):
    plant, _ = PLANTED[name]
    records = plant(healthy(seed))
    whole, part = judge(ALL[name], records), judge(ALL[name], cut(records, last))
    assert part.steps == tuple(step for step in whole.steps if step <= last)
    assert part.values == pytest.approx(whole.values[: len(part.steps)], rel=1e-12)
    critical = whole.critical_step
    assert part.critical_step == (critical if critical is not None and critical <= last else None)


def test_where_most_groups_have_one_return_from_the_start_more_of_them_cannot_be_seen():
    def share(start: float) -> Verdict:
        steps = healthy().steps
        shares = np.where(steps.step < AT, start, 1.0)
        records = CellRecords(steps=steps.assign(zero_spread_groups=shares, reward_mean=0.0))
        return judge(STATISTICAL["zero-variance-groups"], records)

    assert share(0.66).status == Status.CRITICAL
    verdict = share(0.75)
    assert verdict.status == Status.DEGENERATE
    assert verdict.summary == "0.75 of groups have one return at the start, and no share is 1.5 times that"


def test_a_sampler_that_differs_from_step_1_on_is_seen_from_the_mean():
    def mismatch(mean: float, steps: int = STEPS, **columns: object) -> Verdict:
        records = cut(healthy(), steps)
        gaps = {"sampler_gap_max": 1.0, "sampler_gap_mean": mean} | columns
        return judge(STATISTICAL["sampler-mismatch"], CellRecords(steps=records.steps.assign(**gaps)))

    verdict = mismatch(0.5)
    assert (verdict.status, verdict.step, verdict.critical_step) == (Status.CRITICAL, 2, 2)
    assert verdict.summary == "mean |sampler - trainer log-probability|: 0.5 at step 2"
    assert mismatch(0.5, steps=SKIP + WINDOW).status == Status.CRITICAL
    assert mismatch(0.06).status == Status.WARN
    # An engine in half precision: 0.036 in the mean, single tokens far off.
    assert mismatch(0.036).status == Status.OK
    # Both: the mean warns from step 2 on, the largest is critical from AT on.
    late = np.where(np.arange(1, STEPS + 1) < AT, 0.05, 2.0)
    both = mismatch(0.06, sampler_gap_max=late)
    assert (both.status, both.step, both.critical_step) == (Status.CRITICAL, 2, AT + 1)
    assert (both.values[0], both.values[-1]) == (0.06, 2.0)


@pytest.mark.parametrize("name", ALL)
def test_a_run_too_short_to_compare_is_not_ok(name):
    verdict = judge(ALL[name], cut(healthy(), SKIP + WINDOW))
    assert verdict.status == Status.DEGENERATE
    if name == "component-divergence":  # it compares means of its own, of which ten steps have one
        assert verdict.summary == "steps with a value: 1"
    else:
        assert "the first 10 are what later ones are compared with" in verdict.summary


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("negative-mass", lambda r: {"tokens": r.tables["tokens"].assign(advantage=1.0)}),
        ("staleness", lambda r: {"tokens": r.tables["tokens"].assign(log_ratio=0.0)}),
        ("repetition", lambda r: {"turns": r.tables["turns"].assign(response="too short")}),
        ("component-divergence", lambda r: {"episodes": r.tables["episodes"].assign(format_penalty=0.0)}),
    ],
)
def test_records_that_cannot_decide_are_not_ok(name, make):
    records = healthy()
    assert judge(ALL[name], dataclasses.replace(records, tables=make(records))).status == "degenerate"

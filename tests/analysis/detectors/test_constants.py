"""benchmarks/detector_constants.py: what constants come to, on series worked out by hand."""

from __future__ import annotations

import importlib
from pathlib import Path

import pandas as pd
import pytest

from arena.analysis.detectors.causal import Bound, Rule

RULE = Rule(what="a value", side="above", warn=Bound(limit=1), critical=Bound(limit=9))


@pytest.fixture
def constants(monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parents[3] / "benchmarks")
    return importlib.import_module("detector_constants")


def test_alarms_are_counted_by_label_and_onset(constants):
    def judged(level: float, label: str, onset: float = float("nan")):
        values = pd.Series([1.0] * 14 + [level] * 6, index=range(1, 21))
        return constants.Judged(RULE, values, None, label, onset)

    asked = [
        judged(1.5, "healthy"),
        judged(6.0, "healthy"),
        judged(6.0, "collapsed", onset=19),  # the alarm is at step 16, the second value out
        judged(6.0, "collapsed", onset=15),
        judged(1.5, "collapsed", onset=18),
    ]
    assert constants.counts(asked, "before", 3, 2.0) == {"false": 1, "hit": 2, "before": 1, "lead": 1.0}
    assert constants.counts(asked, "none", 0, 1.2) == {"false": 2, "hit": 3, "before": 2, "lead": 2.0}
    assert constants.counts(asked, "start", 8, 2.0)["hit"] == 0


def test_only_detectors_with_a_limit_of_what_collapses_runs_are_open(constants):
    assert {"reference-kl", "staleness", "component-divergence"} <= set(constants.OPEN)
    assert not {"entropy-rise", "sampler-mismatch", "resume"} & set(constants.OPEN)

"""Success of hand-made cells."""

import math

import pandas as pd

from arena.analysis.success import success_by_eval, with_tokens

IDENTITY = {"env": "e", "algo": "a", "seed": 0}


def scores(rows, episodes=100):
    """Rows of (temperature, step, success)."""
    frame = pd.DataFrame(rows, columns=["temperature", "step", "success"])
    return frame.assign(**IDENTITY, episodes=episodes)


def test_success_is_the_mean_over_the_episodes_of_an_evaluation():
    evals = pd.DataFrame(
        {
            "temperature": [0.5] * 4 + [1.0],
            "step": [0] * 4 + [0],
            "success": [True, False, False, False, True],
        }
    ).assign(**IDENTITY)
    table = success_by_eval(evals)
    assert table[["temperature", "step", "success", "episodes"]].values.tolist() == [
        [0.5, 0, 0.25, 4],
        [1.0, 0, 1.0, 1],
    ]


def test_tokens_before_each_evaluation():
    steps = pd.DataFrame({"step": [1, 2], "tokens_sampled_total": [100, 250]}).assign(**IDENTITY)
    table = with_tokens(scores([(0.5, 0, 0.1), (0.5, 2, 0.2), (0.5, 3, 0.2)]), steps)
    assert table.tokens.tolist()[:2] == [0, 250]
    assert math.isnan(table.tokens[2])

"""Every method works on a toy batch; a part that does not is named before anything is trained."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from arena.algorithms.catalog import CATALOG, get_algorithm
from arena.algorithms.clipping import Surrogate
from arena.algorithms.trial import try_out
from arena.errors import UsageError


class Part:
    """A part that does what it is told."""

    kind = summary = "part"

    def __init__(self, compute):
        self.compute = compute

    def __call__(self, *given):
        return self.compute(*given)


def no_arguments():
    return None


def squashed(width, logprob, old_logprob, advantage, units):
    """The clip of the README's example: of width 0 its ratio is 1, and its gradient not a number."""
    ratio = (width * ((logprob - old_logprob) / width).tanh()).exp()
    never = units.mask.new_zeros(units.mask.shape)
    return Surrogate(ratio * advantage, ratio.detach(), clipped_low=never, clipped_high=never)


def standing(logprob, *rest):
    return squashed(0.2, logprob.detach(), *rest)


@pytest.mark.parametrize("name", [*CATALOG, "cispo+seqmask", "grpo+tis", "gspo+empg+actfocus"])
def test_every_method_works(name):
    try_out(get_algorithm("dr-grpo:length=9" if name == "dr-grpo" else name))


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        (
            {"clip": Part(lambda *given: given[0])},
            "the clip of 'mine' must return Surrogate; it returned Tensor",
        ),
        ({"clip": Part(no_arguments)}, "the clip of 'mine' fails on a toy batch: TypeError"),
        (
            {"advantage": Part(lambda rewards: 3)},
            "the advantage of 'mine' must return Advantages; it returned int",
        ),
        ({"aggregation": Part(lambda values, *rest: values)}, "the loss of 'mine'"),
        (
            {"aggregation": Part(lambda values, *rest: values.sum() / torch.zeros(()))},
            "must be one finite number",
        ),
        ({"clip": Part(standing)}, "the loss of 'mine' has no gradient: the clip"),
        (
            {"clip": Part(lambda *given: squashed(0.0, *given))},
            r"the gradient of 'mine' must be finite; .*\[nan",
        ),
    ],
)
def test_a_part_that_does_not_work_is_named(parts, message):
    with pytest.raises(UsageError, match=message):
        try_out(replace(get_algorithm("grpo"), name="mine", **parts))


class Keeps:
    """A filter that does what it is told."""

    kind, summary, max_batches, cold_start = "keeps", "keeps", 2, 0

    def __init__(self, keeps):
        self.keeps = keeps


def test_a_filter_is_tried_too():
    def method(rule):
        return replace(get_algorithm("grpo"), name="mine", filter=rule)

    try_out(method(Keeps(lambda rewards, successes: any(successes))))
    try_out(method(Keeps(lambda rewards, successes: np.std(rewards) > 0.1)))  # numpy's bool is one, too
    with pytest.raises(UsageError, match="the filter of 'mine' must return bool; it returned float"):
        try_out(method(Keeps(lambda rewards, successes: sum(rewards))))
    without = Keeps(lambda rewards, successes: True)
    without.max_batches = None
    with pytest.raises(UsageError, match="the filter of 'mine' must return int; it returned NoneType"):
        try_out(method(without))


def test_a_missing_part_is_named():
    algorithm = replace(get_algorithm("grpo"), name="mine")
    object.__setattr__(algorithm, "clip", None)
    with pytest.raises(UsageError, match="the clip of 'mine' must be a part, given None"):
        try_out(algorithm)

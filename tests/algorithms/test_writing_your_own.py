"""The examples of docs/algorithms/writing-your-own.md: they do what the page says, under the rules it states."""

import re
from dataclasses import replace
from math import log
from pathlib import Path

import pytest
import torch

from arena.algorithms import LossInputs, denominators, get_algorithm, policy_loss
from arena.algorithms.advantages import TurnRewards
from arena.algorithms.aggregation import SequenceMean
from arena.algorithms.weighting import EnergyStatistics
from arena.launch.plan import Options, build

PAGE = Path(__file__).parents[2] / "docs" / "algorithms" / "writing-your-own.md"
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
METHODS = {
    "ranked": "advantage",
    "powered": "aggregation",
    "filtered": "filter",
    "masked": "mask",
    "weighted": "weighting",
}

#: Two sequences: one token of ratio 1.1, and three of ratios 1.05, 0.9 and 1, with garbage at padding.
INPUTS = LossInputs(
    logprob=torch.tensor([[log(1.1), 9.0, 9.0], [log(1.05), log(0.9), 0.0]]) - 2,
    old_logprob=torch.full((2, 3), -2.0),
    advantage=torch.tensor([[1.0, 26.0, 26.0], [-2.0, -2.0, -2.0]]),
    mask=torch.tensor([[True, False, False], [True, True, True]]),
)


@pytest.fixture(autouse=True)
def mine(tmp_path, monkeypatch):
    """Every example but the last, which is the one that calls the loss, in one file."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text("\n".join(BLOCKS[:-1]))


def made(name, parameters=""):
    return get_algorithm(f"./mine.py:{name}{parameters}")


def loss(algorithm, inputs=INPUTS):
    """The loss, and its gradient by log-probability."""
    logprob = inputs.logprob.clone().requires_grad_()
    out = policy_loss(replace(inputs, logprob=logprob), algorithm)
    (gradient,) = torch.autograd.grad(out.loss, logprob)
    return out, gradient


def test_every_block_replaces_one_part_and_can_be_planned():
    assert len(BLOCKS) == len(METHODS) + 1
    for name, part in METHODS.items():
        assert replace(made(name), **{part: getattr(get_algorithm("grpo"), part)}) == get_algorithm("grpo")
        assert getattr(made(name), part).summary
    specs = ",".join(f"./mine.py:{name}" for name in METHODS)
    assert len(build(Options(algos=f"grpo,{specs}", envs="sokoban", name="r")).cells) == 6


@pytest.mark.parametrize("name", METHODS)
def test_pieces_of_a_mini_batch_sum_to_it(name):
    algorithm = made(name)
    weight = torch.where(INPUTS.mask, torch.tensor([[0.5, 1.0, 1.0], [1.0, 2.0, 0.25]]), 0.0)
    given = replace(INPUTS, weight=weight, denominators=denominators(INPUTS.mask, weight))
    whole, gradient = loss(algorithm, given)
    total, parts = 0.0, []
    for rows in (slice(0, 1), slice(1, 2)):
        tensors = ("logprob", "old_logprob", "advantage", "mask", "weight")
        piece = replace(given, **{field: getattr(given, field)[rows] for field in tensors})
        out, part = loss(algorithm, piece)
        total += out.loss.item()
        parts.append(part)
    assert total == pytest.approx(whole.loss.item(), abs=1e-6)
    assert torch.allclose(torch.cat(parts), gradient)
    assert gradient[~INPUTS.mask].tolist() == [0.0, 0.0]


def test_the_advantage_rule():
    """Three episodes of one group, of returns 4, 1 and 1, the first of two turns; and a group of its own."""
    rewards = TurnRewards(
        episode=torch.tensor([0, 0, 1, 2, 3]),
        group=torch.tensor([0, 0, 0, 0, 1]),
        turn=torch.tensor([0, 1, 0, 0, 0]),
        reward=torch.tensor([1.0, 3.0, 1.0, 1.0, 50.0], dtype=torch.float64),
        penalty=torch.tensor([0.0, -0.1, 0.0, 0.0, 0.0], dtype=torch.float64),
        anchor=torch.arange(5),
    )
    got = made("ranked").advantage(rewards)
    assert got.episode.tolist() == pytest.approx([2 / 3, 2 / 3, -1 / 3, -1 / 3, 0.0])
    assert got.total.tolist() == pytest.approx([2 / 3, 2 / 3 - 0.1, -1 / 3, -1 / 3, 0.0])
    advantage = got.total.float()[[0, 2], None].expand(2, 3)
    out, _ = loss(made("ranked"), replace(INPUTS, advantage=advantage))
    assert out.loss.item() == pytest.approx(-(1.1 * 2 / 3 - (1.05 + 0.9 + 1) / 3) / 4)


def test_the_aggregation():
    sums = 1.1, -2 * (1.05 + 0.9 + 1)
    assert loss(made("powered"))[0].loss.item() == pytest.approx(-(sums[0] + sums[1] / 3**0.5) / 2)
    assert loss(made("powered", ":power=0"))[0].loss.item() == pytest.approx(-sum(sums) / 2)
    mean = replace(get_algorithm("grpo"), aggregation=SequenceMean())
    assert loss(made("powered", ":power=1"))[0].loss.item() == pytest.approx(loss(mean)[0].loss.item())


def test_the_filter():
    rule = made("filtered", ":high=0.5").filter
    assert [rule.keeps([0.0] * 4, [k < won for k in range(4)]) for won in range(5)] == [
        False, True, True, False, False,
    ]  # fmt: skip
    assert (rule.max_batches, rule.cold_start) == (2, 0)
    assert loss(made("filtered"))[0].loss.item() == loss(get_algorithm("grpo"))[0].loss.item()


def test_the_mask():
    """Mean log ratios are log 1.1 = 0.095 and (log 1.05 + log 0.9) / 3 = -0.019."""
    out, gradient = loss(made("masked"))
    assert out.masked.tolist() == [[True, False, False], [False, False, False]]
    assert out.loss.item() == pytest.approx(2 * (1.05 + 0.9 + 1) / 4)
    assert gradient[0].tolist() == [0.0, 0.0, 0.0]
    assert loss(made("masked", ":limit=0.01"))[0].masked.tolist() == INPUTS.mask.tolist()
    assert not loss(made("masked", ":limit=0.1"))[0].masked.any()


def test_the_weighting():
    action = torch.tensor([[True, False, False], [False, False, True]])
    statistics = EnergyStatistics(0.0, 1.0)
    weight = made("weighted", ":reasoning=0.25").weighting(action, torch.zeros(2, 3), statistics)
    assert weight.tolist() == [[1.0, 0.25, 0.25], [0.25, 0.25, 1.0]]
    out, _ = loss(made("weighted"), replace(INPUTS, weight=weight))
    assert out.loss.item() == pytest.approx(-(1.1 - 2 * (0.25 * 1.05 + 0.25 * 0.9 + 1)) / 2.5)


def test_the_check_runs(capsys):
    names = {}
    for block in BLOCKS:
        exec(block, names)
    # Sequence means of the log ratio are 0 and, over one token, 0: nothing is masked, ratios 1.105, 0.905 and 1.
    assert names["out"].loss.item() == pytest.approx(-(1.105171 + 0.904837 - 1) / 3)
    assert not names["out"].masked.any()
    assert names["inputs"].logprob.grad[1].tolist() == pytest.approx([1 / 3, 0.0])
    assert capsys.readouterr().out

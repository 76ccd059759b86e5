"""One row per turn or one per episode: the same token-level loss; and the page's example for other trainers runs."""

import re
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from arena.algorithms import LossInputs, get_algorithm, policy_loss
from arena.algorithms.catalog import CATALOG
from tests.algorithms.layouts import Layout, batches, both

SPECS = [name if name != "dr-grpo" else "dr-grpo:length=9" for name in CATALOG]
SPECS += ["cispo+seqmask", "gspo+actfocus", "grpo+tis"]
PAGE = Path(__file__).parents[2] / "docs" / "algorithms" / "README.md"


def inputs(x: Layout, unit: str) -> tuple[LossInputs, torch.Tensor]:
    """The layout's random numbers as a micro-batch: sequences are turns or episodes, whatever the rows are."""
    turn = x.turn if x.turn.dim() == 2 else x.turn[:, None].expand(x.mask.shape)
    episode = x.episode[:, None].expand(x.mask.shape)
    logprob = (-1 + 0.1 * x.values).requires_grad_()
    given = LossInputs(
        logprob,
        -1 + 0.1 * x.entropy,
        ((x.place % 5 - 2.0) * (1 + episode % 2)).double(),
        x.mask,
        sequence_id=episode if unit == "trajectory" else episode * 100 + turn,
        role=1 + (x.place % 2),
        energy=x.rewards,
        sampler_logprob=-1 + 0.05 * x.rewards,
    )
    return given, logprob


@settings(deadline=None, max_examples=30)
@given(batches(), st.integers(0, 100), st.sampled_from(SPECS), st.sampled_from(["turn", "trajectory"]))
def test_both_layouts_have_the_same_loss_and_gradient(episodes, seed, spec, unit):
    losses, gradients, ratios = [], [], []
    for x in both(episodes, seed):
        given, logprob = inputs(x, unit)
        out = policy_loss(given, get_algorithm(spec))
        out.loss.backward()
        losses.append(out.loss.item())
        assert logprob.grad is not None
        gradients.append(x.flat(logprob.grad))
        ratios.append(x.flat(torch.where(x.mask, out.ratio_applied, 0.0)))
    assert losses[0] == pytest.approx(losses[1], abs=1e-9)
    assert gradients[0] == pytest.approx(gradients[1], abs=1e-9)
    assert ratios[0] == pytest.approx(ratios[1], abs=1e-9)


def test_the_example_for_other_trainers_runs(capsys):
    (block,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    names: dict = {}
    exec(block, names)
    out = names["out"]
    # Sequence ratio exp(0.1) is beyond 1 + 0.004 on the sequences whose advantage is positive.
    assert out.clipped_high.any(1).tolist() == [True, True, False]
    assert out.log_ratio.tolist() == [
        pytest.approx([0.1] * 3),
        pytest.approx([0.1, 0.1, 0.0]),
        pytest.approx([0.1] * 3),
    ]
    assert names["new"].grad[2].abs().min() > 0
    assert names["new"].grad[:2].abs().max() == 0
    assert capsys.readouterr().out

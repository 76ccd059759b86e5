"""Arena's losses and advantages against TRL's GRPO trainer: where they agree, and both numbers where they part."""

from dataclasses import replace
from math import exp

import pytest
import torch

from arena.algorithms.advantages import GroupCentre, group_advantage
from arena.algorithms.aggregation import SequenceMean, denominators
from arena.algorithms.catalog import get_algorithm
from tests.peers.ours import (
    TOLERANCE,
    Batch,
    arena,
    arena_advantage,
    assert_agree,
    one_token,
    random_batch,
    two_lengths,
    with_an_empty_row,
)
from tests.peers.trl_trainer import trl_advantage, trl_loss

# TRL's config turns on a setting that transformers has since renamed.
pytestmark = pytest.mark.filterwarnings("ignore:`gradient_checkpointing` is deprecated:FutureWarning")

SEQUENCE = {"importance_sampling_level": "sequence"}
#: TRL's default weighs the KL by the ratio; see the difference below.
PLAIN_KL = {"use_bias_correction_kl": False}
SAPO_BY_SEQUENCE = replace(get_algorithm("sapo-soft"), aggregation=SequenceMean())


@pytest.mark.parametrize("kl_coef", [0.0, 0.04])
@pytest.mark.parametrize(
    ("method", "settings"),
    [
        ("grpo", {"loss_type": "bnpo"}),
        ("grpo", {"loss_type": "dapo"}),
        ("grpo:clip_low=0.1:clip_high=0.28", {"loss_type": "dapo", "epsilon": 0.1, "epsilon_high": 0.28}),
        ("grpo-st", {"loss_type": "grpo"}),
        ("dr-grpo:length=48", {"loss_type": "dr_grpo", "max_completion_length": 48}),
        (
            "gspo:clip_low=0.1:clip_high=0.15",
            {"loss_type": "grpo", "epsilon": 0.1, "epsilon_high": 0.15, **SEQUENCE},
        ),
        ("cispo", {"loss_type": "cispo", "epsilon_high": 1.2}),
        (SAPO_BY_SEQUENCE, {"loss_type": "sapo"}),
        (
            "cispo+seqmask:delta=0.05",
            {"loss_type": "cispo", "epsilon_high": 1.2, "off_policy_mask_threshold": 0.05},
        ),
        ("grpo-sm:delta=0.05", {"loss_type": "dapo", "off_policy_mask_threshold": 0.05}),
    ],
)
def test_losses_agree(trl, method, settings, kl_coef):
    """With and without the KL penalty, which both aggregate like the policy loss. GSPO's token form (Arena) and
    sequence form (TRL) are equal where a sequence has one advantage."""
    batch = random_batch()
    other = trl_loss(trl, batch, beta=kl_coef, **PLAIN_KL, **settings)
    assert_agree(arena(method, batch, kl_coef=kl_coef), other)


def test_the_sequence_mask_drops_some_sequences_of_the_batch():
    """Otherwise the agreement on it above would hold without a mask."""
    batch = random_batch()
    _, gradient = arena("cispo+seqmask:delta=0.05", batch)
    _, unmasked = arena("cispo", batch)
    assert (gradient != unmasked).any(1).tolist() == [False, False, False, True, False, False]


def test_truncated_importance_agrees(trl):
    """The ratio of trainer to sampler, as it comes out of TRL's truncation, scales the surrogate and not the KL."""
    batch = random_batch()
    sampler = batch.old_logprob - torch.linspace(-1.5, 1.5, 42, dtype=torch.float64).reshape(6, 7)
    ratio = (batch.old_logprob - sampler).exp().clamp(max=2)
    ours = arena("grpo+tis", batch, sampler_logprob=sampler, kl_coef=0.04)
    other = trl_loss(trl, batch, importance_sampling_ratio=ratio, beta=0.04, loss_type="dapo", **PLAIN_KL)
    assert_agree(ours, other)


def test_micro_batches_agree_where_the_whole_batch_is_counted(trl):
    """`dapo` divides by the tokens of the generation batch: Arena's denominators of the mini-batch."""
    batch = random_batch()
    totals = denominators(batch.mask, torch.ones_like(batch.logprob))
    for start, stop in ((0, 4), (4, 6)):
        piece = batch.rows(start, stop)
        other = trl_loss(trl, piece, items=23, loss_type="dapo", gradient_accumulation_steps=2)
        assert_agree(arena("grpo", piece, totals=totals), other)


@pytest.mark.parametrize(
    ("method", "settings"),
    [(group_advantage, {}), (GroupCentre(), {"scale_rewards": "none"})],
)
def test_advantages_agree(trl, method, settings):
    """Bessel-corrected both; returns are spread by hundreds, where TRL's larger epsilon does not show."""
    reward = [100.0, 0.0, 250.0, -900.0, 300.0, 500.0, 700.0, 700.0]
    mask = torch.ones(8, 1, dtype=torch.bool)
    ours = arena_advantage(method, reward, [0, 0, 0, 0, 1, 1, 1, 1], mask)[:, 0]
    torch.testing.assert_close(ours, trl_advantage(trl, reward, 4, **settings), rtol=TOLERANCE, atol=0)


# Differences. Each test pins both numbers and says which side follows the paper.


def test_ratios_are_not_bounded_in_trl(trl):
    """Log ratio 30 with A = -1: PPO has exp(30) = 1.1e13, as TRL; Arena (and verl) stop at exp(20) = 4.9e8 and pass
    no gradient beyond, so that no number overflows."""
    batch = one_token(30.0, -1.0)
    loss, gradient = arena("grpo", batch)
    assert loss == pytest.approx(exp(20))
    assert gradient.item() == 0.0
    loss, gradient = trl_loss(trl, batch, loss_type="dapo")
    assert loss == pytest.approx(exp(30))
    assert gradient.item() == pytest.approx(exp(30))


def test_accumulation_reweights_trls_means_of_micro_batches(trl):
    """One token with A = 1 and three with A = -1, at ratio 1, as two micro-batches. The token mean of the mini-batch
    is (3 - 1)/4 = 0.5, as GRPO's is over the batch and Arena's whatever the split; TRL's `bnpo` averages the
    micro-batches' means, -1 and 1."""
    batch = two_lengths()
    totals = denominators(batch.mask, torch.ones_like(batch.logprob))
    pieces = [batch.rows(0, 1), batch.rows(1, 2)]
    assert sum(arena("grpo", piece, totals=totals)[0] for piece in pieces) == pytest.approx(0.5)
    settings = {"loss_type": "bnpo", "gradient_accumulation_steps": 2}
    assert sum(trl_loss(trl, piece, **settings)[0] for piece in pieces) == pytest.approx(0.0)


def test_the_kl_is_not_weighed_by_the_ratio(trl):
    """At ratio 1 and d = log pi_ref - log pi = 1, a penalty of coefficient 1: k3 = e - 2 in both. GRPO has its
    gradient, 1 - e = -1.72, as Arena; TRL's default multiplies k3 by the ratio (DeepSeek-V3.2), whose gradient adds
    k3 and leaves -1, the unbiased gradient of the KL."""
    batch = one_token(0.0, 0.0)
    batch = replace(batch, ref_logprob=batch.logprob + 1)
    loss, gradient = arena("grpo", batch, kl_coef=1.0)
    assert loss == pytest.approx(exp(1) - 2)
    assert gradient.item() == pytest.approx(1 - exp(1))
    loss, gradient = trl_loss(trl, batch, beta=1.0, loss_type="dapo")
    assert loss == pytest.approx(exp(1) - 2)
    assert gradient.item() == pytest.approx(-1.0)


def test_rows_without_a_token_count_in_trl(trl):
    """A completion without a loss token (masked as truncated, say): TRL's sequence mean is over both rows, Arena's
    over the one that has a token, as verl's. The paper has no such row."""
    batch = with_an_empty_row()
    assert arena("grpo-st", batch)[0] == pytest.approx(-1.0)
    assert trl_loss(trl, batch, loss_type="grpo")[0] == pytest.approx(-0.5)


def test_cispo_bounds_by_a_ratio_in_trl_and_by_a_distance_from_1_here(trl):
    """At ratio 1 with A = 1 and the same `epsilon_high` of 0.2, which is TRL's default: CISPO's weight is
    clip(1, 0, 1 + 0.2) = 1, as Arena; TRL reads ScaleRL's absolute bound, min(1, 0.2). Its 1.2 is our 0.2."""
    batch = one_token(0.0, 1.0)
    assert arena("cispo", batch)[1].item() == pytest.approx(-1.0)
    assert trl_loss(trl, batch, loss_type="cispo")[1].item() == pytest.approx(-0.2)


def test_soft_sapo_is_a_token_mean_by_default(trl):
    """ARLArena's Table 1 has the token mean, and Arena with it; the method's own paper and TRL the sequence mean.
    One token with A = 1 and three with A = -1, at ratio 1: values 2 and -2/1.05."""
    batch = two_lengths()
    assert arena("sapo-soft", batch)[0] == pytest.approx((3 * 2 / 1.05 - 2) / 4)
    assert trl_loss(trl, batch, loss_type="sapo")[0] == pytest.approx((2 / 1.05 - 2) / 2)


def test_token_varying_advantages_take_gspos_token_form_here(trl):
    """Advantages 3 and 1 within a sequence at ratio 1: GSPO-token (its paper's Eq. 13) and Arena give each token its
    own, 1.5 and 0.5; in TRL's sequence form the one ratio carries their mean to both."""
    value = torch.full((1, 2), -1.0, dtype=torch.float64)
    advantage = torch.tensor([[3.0, 1.0]], dtype=torch.float64)
    batch = Batch(value, value, value, advantage, torch.ones(1, 2, dtype=torch.bool))
    assert arena("gspo", batch)[1].tolist() == [pytest.approx([-1.5, -0.5])]
    assert trl_loss(trl, batch, loss_type="grpo", **SEQUENCE)[1].tolist() == [pytest.approx([-1.0, -1.0])]


def test_standard_deviations_have_another_epsilon(trl):
    """Returns -1e-5, 0 and 1e-5, standard deviation 1e-5: Arena divides by 1.1e-5 (epsilon 1e-6, as verl), TRL by
    1.1e-4. The paper has none; the exact quotient is 1."""
    reward = [-1e-5, 0.0, 1e-5]
    ours = arena_advantage(group_advantage, reward, [0] * 3, torch.ones(3, 1, dtype=torch.bool))
    assert ours[2].item() == pytest.approx(1 / 1.1)
    assert trl_advantage(trl, reward, 3)[2].item() == pytest.approx(1 / 11)

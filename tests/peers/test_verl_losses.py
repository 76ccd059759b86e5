"""Arena's losses against verl's `core_algos`: equal losses and gradients, and where the two part, both numbers."""

from dataclasses import replace
from math import exp

import pytest
import torch

from arena.algorithms.aggregation import FixedLength, SequenceMean, TokenMean, denominators
from arena.algorithms.catalog import get_algorithm
from arena.algorithms.loss import kl_k3
from tests.peers.ours import (
    arena,
    assert_agree,
    loss_and_gradient,
    one_token,
    random_batch,
    two_lengths,
    with_an_empty_row,
)

#: verl's dual clip never acts: ratios stay below exp(20).
NO_DUAL_CLIP = 1e9

#: Arena's aggregation, verl's mode and the arguments of that mode.
AGGREGATIONS = [
    (TokenMean(), "token-mean", {}),
    (SequenceMean(), "seq-mean-token-mean", {}),
    (FixedLength(48), "seq-mean-token-sum-norm", {"loss_scale_factor": 48}),
    (FixedLength(1), "seq-mean-token-sum", {}),
]


def theirs(verl, name, batch, *, mode="token-mean", weights=None, totals=None, **settings):
    """verl's loss and gradient. `settings` are those of its actor, `totals` what spans the mini-batch."""
    config = verl.ActorConfig(
        strategy="fsdp", rollout_n=1, use_dynamic_bsz=True, global_batch_info=totals or {}, **settings
    )

    def loss(logprob):
        value, _ = verl.get_policy_loss_fn(name)(
            old_log_prob=batch.old_logprob,
            log_prob=logprob,
            advantages=batch.token_advantage,
            response_mask=batch.mask.double(),
            loss_agg_mode=mode,
            config=config,
            rollout_is_weights=weights,
        )
        return value

    return loss_and_gradient(loss, batch)


@pytest.mark.parametrize(("aggregation", "mode", "scale"), AGGREGATIONS)
@pytest.mark.parametrize(
    ("method", "name", "settings"),
    [
        (
            "grpo:clip_low=0.2:clip_high=0.28",
            "vanilla",
            {"clip_ratio_low": 0.2, "clip_ratio_high": 0.28, "clip_ratio_c": NO_DUAL_CLIP},
        ),
        (
            "gspo:clip_low=0.1:clip_high=0.15",
            "gspo",
            {"clip_ratio_low": 0.1, "clip_ratio_high": 0.15},
        ),
        ("cispo", "cispo", {"clip_ratio_low": 1.0, "clip_ratio_high": 0.2}),
        ("cispo:clip_low=0.3", "cispo", {"clip_ratio_low": 0.3, "clip_ratio_high": 0.2}),
    ],
)
def test_clips_agree_under_every_aggregation(verl, method, name, settings, aggregation, mode, scale):
    """verl takes the aggregation of its config for each of these losses; CISPO's value agrees too, not its gradient
    alone, since both take log pi itself."""
    batch = random_batch()
    ours = arena(replace(get_algorithm(method), aggregation=aggregation), batch)
    assert_agree(ours, theirs(verl, name, batch, mode=mode, totals=scale, **settings))


def test_the_batch_reaches_both_sides_of_each_clip(verl):
    """Otherwise the agreement above would hold for a loss without a clip."""
    batch = random_batch()
    for name, low, high in (("vanilla", 0.2, 0.28), ("gspo", 0.1, 0.15)):
        settings = {"clip_ratio_c": NO_DUAL_CLIP}
        clipped = theirs(verl, name, batch, clip_ratio_low=low, clip_ratio_high=high, **settings)
        lower = theirs(verl, name, batch, clip_ratio_low=0.99, clip_ratio_high=high, **settings)
        upper = theirs(verl, name, batch, clip_ratio_low=low, clip_ratio_high=9.0, **settings)
        assert (lower[1] != clipped[1]).any()
        assert (upper[1] != clipped[1]).any()


def test_soft_sapo_agrees_under_the_sequence_mean(verl):
    """verl aggregates this loss by the sequence mean whatever is asked, as its paper does."""
    batch = random_batch()
    ours = arena(replace(get_algorithm("sapo-soft"), aggregation=SequenceMean()), batch)
    assert_agree(ours, theirs(verl, "sapo", batch, mode="token-mean", tau_pos=1.0, tau_neg=1.05))
    other = replace(get_algorithm("sapo-soft:tau_pos=0.5:tau_neg=2"), aggregation=SequenceMean())
    assert_agree(arena(other, batch), theirs(verl, "sapo", batch, tau_pos=0.5, tau_neg=2.0))


def test_gmpo_agrees(verl):
    """verl has one value per sequence, Arena that value at each of its tokens: the same mean, the same gradient."""
    batch = random_batch()
    for clip in (0.4, 0.1):
        method = f"gmpo:clip_low={clip}:clip_high={clip}"
        settings = {"clip_ratio_low": clip, "clip_ratio_high": clip}
        assert_agree(arena(method, batch), theirs(verl, "geo_mean", batch, **settings))


def test_token_varying_advantages_agree(verl):
    """GSPO in its token form: each token's gradient is s A_t, in both."""
    batch = random_batch()
    varying = batch.token_advantage + torch.linspace(-0.3, 0.3, 7, dtype=torch.float64)
    batch = replace(batch, advantage=varying)
    settings = {"clip_ratio_low": 0.2, "clip_ratio_high": 0.2}
    assert_agree(
        arena("gspo:clip_low=0.2:clip_high=0.2", batch),
        theirs(verl, "gspo", batch, mode="seq-mean-token-mean", **settings),
    )
    assert_agree(arena("grpo", batch), theirs(verl, "vanilla", batch, clip_ratio_c=NO_DUAL_CLIP, **settings))


@pytest.mark.parametrize(
    ("method", "mode"),
    [
        ("grpo", "token-mean"),
        ("grpo-st", "seq-mean-token-mean"),
        ("dr-grpo:length=48", "seq-mean-token-sum-norm"),
    ],
)
def test_micro_batches_agree(verl, method, mode):
    """Each micro-batch given what spans the mini-batch, on both sides."""
    batch = random_batch()
    totals = denominators(batch.mask, torch.ones_like(batch.logprob))
    given = {"batch_num_tokens": 23, "global_batch_size": 6, "loss_scale_factor": 48}
    for start, stop in ((0, 4), (4, 6)):
        piece = batch.rows(start, stop)
        other = theirs(verl, "vanilla", piece, mode=mode, totals=given, clip_ratio_c=NO_DUAL_CLIP)
        assert_agree(arena(method, piece, totals=totals), other)


def test_truncated_importance_agrees(verl):
    """verl's `rollout_is` by token with its default threshold 2, in the loss of every clip that Arena has it for."""
    from verl.trainer.ppo.rollout_corr_helper import compute_rollout_correction_weights

    batch = random_batch()
    sampler = batch.old_logprob - torch.linspace(-1.5, 1.5, 42, dtype=torch.float64).reshape(6, 7)
    weights, _ = compute_rollout_correction_weights(
        batch.old_logprob - sampler, batch.mask.double(), "token", 2.0
    )
    assert weights.max() == 2
    assert 0 < weights[batch.mask].min() < 1
    ours = arena("grpo+tis", batch, sampler_logprob=sampler)
    assert_agree(ours, theirs(verl, "vanilla", batch, weights=weights, clip_ratio_c=NO_DUAL_CLIP))
    ours = arena("cispo+tis", batch, sampler_logprob=sampler)
    assert_agree(ours, theirs(verl, "cispo", batch, weights=weights, clip_ratio_low=1.0, clip_ratio_high=0.2))


@pytest.mark.parametrize("log_ratio", [25.0, -25.0])
@pytest.mark.parametrize("advantage", [1.0, -1.0])
@pytest.mark.parametrize(("method", "name"), [("grpo", "vanilla"), ("cispo", "cispo")])
def test_extreme_token_ratios_agree(verl, log_ratio, advantage, method, name):
    """Both bound the log ratio at 20: beyond, the clip's ratio passes no gradient and CISPO's weight is constant."""
    batch = one_token(log_ratio, advantage)
    settings = {"clip_ratio_low": 1.0 if name == "cispo" else 0.2, "clip_ratio_c": NO_DUAL_CLIP}
    ours, other = arena(method, batch), theirs(verl, name, batch, **settings)
    assert ours[0] == pytest.approx(other[0], rel=1e-6)
    assert ours[1].item() == pytest.approx(other[1].item(), rel=1e-6)


@pytest.mark.parametrize(("aggregation", "mode", "scale"), AGGREGATIONS)
def test_k3_agrees(verl, aggregation, mode, scale):
    """The KL penalty and its gradient, aggregated."""
    batch = random_batch()
    mask = batch.mask.double()
    algorithm = replace(get_algorithm("grpo"), aggregation=aggregation)
    flat = replace(batch, advantage=torch.zeros(6, dtype=torch.float64))

    def loss(logprob):
        kl = verl.kl_penalty(logprob, batch.ref_logprob, "low_var_kl")
        return 0.01 * verl.agg_loss(kl, mask, mode, **scale)

    assert_agree(arena(algorithm, flat, kl_coef=0.01), loss_and_gradient(loss, batch))


def test_rows_without_a_token_count_for_neither(verl):
    """Sequence means divide by the sequences that have a token, in both; for GMPO see below."""
    batch = with_an_empty_row()
    ours = arena("grpo-st", batch)
    assert ours[0] == -1.0
    assert_agree(ours, theirs(verl, "vanilla", batch, mode="seq-mean-token-mean"))


# Differences. Each test pins both numbers and says which side follows the paper.


def test_dual_clip_is_verls_alone(verl):
    """A = -2 at ratio exp(2) = 7.39: PPO, GRPO and DAPO have -min(wA, clip(w)A) = 14.78, and its gradient, as
    Arena; verl bounds the ratio at 3 where A < 0 (dual clip, arXiv 1912.09729), by default, and the gradient is
    gone."""
    batch = one_token(2.0, -2.0)
    loss, gradient = arena("grpo", batch)
    assert loss == pytest.approx(2 * exp(2))
    assert gradient.item() == pytest.approx(2 * exp(2))
    loss, gradient = theirs(verl, "vanilla", batch)
    assert loss == pytest.approx(6.0)
    assert gradient.item() == 0.0


def test_k3_is_not_bounded_at_10(verl):
    """d = log pi_ref - log pi = 3: the estimator is exp(3) - 4 = 16.09, as Arena; verl bounds it at 10, where a
    policy far from its reference is no longer pulled back."""
    logprob = torch.tensor([-4.0], dtype=torch.float64, requires_grad=True)
    reference = torch.tensor([-1.0], dtype=torch.float64)
    ours, bounded = kl_k3(logprob, reference), verl.kl_penalty(logprob, reference, "low_var_kl")
    assert ours.item() == pytest.approx(exp(3) - 4)
    assert bounded.item() == 10.0
    assert torch.autograd.grad(ours.sum(), logprob)[0].item() == pytest.approx(1 - exp(3))
    assert torch.autograd.grad(bounded.sum(), logprob)[0].item() == 0.0


def test_sequence_ratios_are_bounded_at_exp_20_and_not_at_exp_10(verl):
    """Mean log ratio 12 with A = -1: GSPO has no bound, Arena follows it up to exp(20); verl stops at exp(10)."""
    batch = one_token(12.0, -1.0)
    loss, gradient = arena("gspo", batch)
    assert loss == pytest.approx(exp(12))
    assert gradient.item() == pytest.approx(exp(12))
    loss, gradient = theirs(verl, "gspo", batch)
    assert loss == pytest.approx(exp(10))
    assert gradient.item() == 0.0


def test_gmpo_bounds_its_ratio_and_leaves_empty_rows_out(verl):
    """The paper has neither case. Log ratio 30 with A = -1: Arena exp(20), verl exp(30). A row without a token:
    Arena's mean is over the other one, verl's over both."""
    batch = one_token(30.0, -1.0)
    assert arena("gmpo", batch)[0] == pytest.approx(exp(20))
    assert theirs(verl, "geo_mean", batch)[0] == pytest.approx(exp(30))
    batch = with_an_empty_row()
    assert arena("gmpo", batch)[0] == pytest.approx(-1.0)
    assert theirs(verl, "geo_mean", batch)[0] == pytest.approx(-0.5)


def test_soft_sapo_is_a_token_mean_by_default(verl):
    """ARLArena's Table 1 has the token mean, and Arena with it; the method's own paper (arXiv 2511.20347) and verl
    have the sequence mean. One token with A = 1 and three with A = -1, at ratio 1: values 2 and -2/1.05."""
    batch = two_lengths()
    assert arena("sapo-soft", batch)[0] == pytest.approx((3 * 2 / 1.05 - 2) / 4)
    assert theirs(verl, "sapo", batch)[0] == pytest.approx((2 / 1.05 - 2) / 2)

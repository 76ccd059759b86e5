"""The policy loss and the KL loss: values and gradients by hand, and what they must not depend on."""

from dataclasses import replace
from math import exp, log
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from arena.algorithms.aggregation import denominators
from arena.algorithms.catalog import CATALOG, get_algorithm
from arena.algorithms.loss import LossInputs, kl_k3, kl_loss, policy_loss, token_weights
from arena.algorithms.weighting import energy_statistics

#: Every named method, and compositions that reach every modifier.
SPECS = [
    *("dr-grpo:length=48" if name == "dr-grpo" else name for name in CATALOG),
    "cispo+seqmask",
    "grpo+actfocus",
    "gspo+actfocus:alpha=0.3",
    "gmpo+actfocus",
    "actfocus+seqmask",
]

#: Two sequences: one token of ratio 1.5, and three of ratios 1.1, 0.5 and 1.
UNEVEN = {
    "logprob": torch.tensor([[log(1.5), 9.0, 9.0], [log(1.1), log(0.5), 0.0]]) - 2,
    "old_logprob": torch.full((2, 3), -2.0),
    "advantage": torch.tensor([[1.0, 26.0, 26.0], [-2.0, -2.0, -2.0]]),
    "mask": torch.tensor([[True, False, False], [True, True, True]]),
}


def run(spec, **given):
    """Loss output and gradient by log-probability."""
    logprob = given.pop("logprob").clone().requires_grad_()
    out = policy_loss(LossInputs(logprob=logprob, **given), get_algorithm(spec))
    (gradient,) = torch.autograd.grad(out.loss, logprob)
    return out, gradient


def test_grpo_by_hand():
    out, gradient = run("grpo", **UNEVEN)
    # Surrogates 1.2 (clipped), -2.2, -1.6 (clipped at 0.8), -2, over 4 tokens.
    assert out.loss.item() == pytest.approx((-1.2 + 2.2 + 1.6 + 2) / 4)
    assert gradient[0].tolist() == [0.0, 0.0, 0.0]
    assert gradient[1].tolist() == pytest.approx([2.2 / 4, 0.0, 2 / 4])
    assert out.clipped_high.tolist() == [[True, False, False], [False] * 3]
    assert out.clipped_low.tolist() == [[False] * 3, [False, True, False]]
    assert out.ratio_applied[1].tolist() == pytest.approx([1.1, 0.8, 1.0])
    assert out.log_ratio[1].tolist() == pytest.approx([log(1.1), log(0.5), 0.0], abs=1e-6)
    assert out.log_ratio[0].tolist() == pytest.approx([log(1.5), 0.0, 0.0], abs=1e-6)
    assert not out.masked.any()
    assert out.weight.tolist() == [[1.0, 0.0, 0.0], [1.0, 1.0, 1.0]]


def test_gspo_by_hand():
    out, gradient = run("gspo:clip_low=0.5:clip_high=0.4", **UNEVEN)
    # Sequence ratios 1.5 (clipped at 1.4) and (1.1 x 0.5)^(1/3); the mean over sequences.
    s = 0.55 ** (1 / 3)
    assert out.loss.item() == pytest.approx((-1.4 + 2 * s) / 2)
    assert gradient[0].tolist() == [0.0, 0.0, 0.0]
    assert gradient[1].tolist() == pytest.approx([2 * s / 3 / 2] * 3)


def test_cispo_by_hand():
    out, gradient = run("cispo", **UNEVEN)
    # Weights 1.2, 1.1, 0.5, 1 are detached: the gradient is -w A / 4, the value -w A log pi / 4.
    assert gradient[0].tolist() == pytest.approx([-1.2 / 4, 0.0, 0.0])
    assert gradient[1].tolist() == pytest.approx([2.2 / 4, 1.0 / 4, 2.0 / 4])
    values = [1.2 * (log(1.5) - 2), -2.2 * (log(1.1) - 2), -1.0 * (log(0.5) - 2), -2 * -2.0]
    assert out.loss.item() == pytest.approx(-sum(values) / 4)


def test_actfocus_by_hand():
    weight = torch.tensor([[0.1, 26.0, 26.0], [0.1, 1.4, 1.1]])
    out, gradient = run("actfocus", weight=weight, **UNEVEN)
    total = 0.1 + 0.1 + 1.4 + 1.1
    assert out.loss.item() == pytest.approx(-(0.1 * 1.2 - 0.1 * 2.2 - 1.4 * 1.6 - 1.1 * 2) / total)
    assert gradient[1].tolist() == pytest.approx([0.1 * 2.2 / total, 0.0, 1.1 * 2 / total])


def test_sampo_by_hand():
    out, gradient = run("sampo", **UNEVEN)
    # Ratios 1.5 and 0.819 lie outside [0.997, 1.004]: both sequences are clipped.
    assert out.loss.item() == pytest.approx((-1.004 + 2 * 0.997) / 2)
    assert gradient.abs().max() == 0.0
    assert out.clipped_high[0].tolist() == [True, False, False]
    assert out.clipped_low[1].tolist() == [True] * 3


@pytest.mark.parametrize("spec", SPECS)
def test_on_policy_the_gradient_is_that_of_reinforce(spec):
    """At ratio 1 every clip rule is inactive: -A x weight share of the token, whatever the method."""
    batch = random_batch()
    algorithm = get_algorithm(spec)
    batch = replace(batch, old_logprob=batch.logprob.detach())
    weight = torch.where(batch.mask, token_weights(batch, algorithm), 0.0)
    out, gradient = gradients(batch, algorithm)
    share = {
        "token_mean": weight / weight.sum(),
        "sequence_mean": weight / weight.sum(1, keepdim=True) / len(weight),
        "fixed_length": weight / (len(weight) * 48),
    }[algorithm.aggregation.kind]
    assert torch.allclose(gradient, -batch.advantage * share, atol=1e-6)
    assert torch.allclose(out.ratio_applied[batch.mask], torch.ones(()))
    assert not (out.clipped_low | out.clipped_high).any()


def random_batch(rows=6, tokens=7) -> LossInputs:
    """A batch with ratios on both sides of every clip, padded on the right."""
    generator = torch.Generator().manual_seed(3)
    length = torch.tensor([7, 1, 4, 2, 6, 3])
    mask = torch.arange(tokens)[None] < length[:, None]
    old = -3 * torch.rand(rows, tokens, generator=generator) - 0.1
    scale = torch.tensor([0.3, 0.3, 0.002, 0.02, 0.5, 0.01])[:, None]
    shift = torch.tensor([0.2, 0.0, 0.0, 0.0, -0.2, 0.0])[:, None]
    log_ratio = shift + scale * torch.randn(rows, tokens, generator=generator)
    advantage = torch.tensor([1.2, -0.7, 0.9, -1.1, -0.1, 0.0])[:, None] * mask
    action = (torch.rand(rows, tokens, generator=generator) < 0.4) & mask
    energy = -5 + torch.randn(rows, tokens, generator=generator)
    return LossInputs(
        logprob=old + log_ratio,
        old_logprob=old,
        advantage=advantage,
        mask=mask,
        role=1 + action.long(),
        energy=energy,
    )


def with_totals(batch: LossInputs, algorithm) -> LossInputs:
    """The batch with the statistics and denominators that span it."""
    statistics = energy_statistics(batch.energy, batch.role == 2, batch.mask)
    batch = replace(batch, energy_statistics=statistics)
    weight = token_weights(batch, algorithm)
    return replace(batch, denominators=denominators(batch.mask, weight))


def moved(batch: LossInputs, move) -> LossInputs:
    names = ("logprob", "old_logprob", "advantage", "mask", "role", "energy")
    return replace(batch, **{name: move(getattr(batch, name)) for name in names})


def gradients(batch: LossInputs, algorithm):
    logprob = batch.logprob.detach().clone().requires_grad_()
    out = policy_loss(replace(batch, logprob=logprob), algorithm)
    out.loss.backward()
    return out, logprob.grad


def test_the_random_batch_reaches_both_clips_and_both_masks():
    out, _ = gradients(random_batch(), get_algorithm("grpo+seqmask"))
    assert out.clipped_low.any()
    assert out.clipped_high.any()
    assert 0 < out.masked.sum() < random_batch().mask.sum()
    out, gradient = gradients(random_batch(), get_algorithm("gspo"))
    assert out.clipped_low.any()
    assert out.clipped_high.any()
    assert gradient.abs().max() > 0


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("split", [[1] * 6, [4, 2], [2, 1, 3]])
def test_micro_batches_sum_to_the_mini_batch(spec, split):
    algorithm = get_algorithm(spec)
    batch = with_totals(random_batch(), algorithm)
    out, gradient = gradients(batch, algorithm)
    loss, parts, start = 0.0, [], 0
    for size in split:
        piece = moved(batch, lambda t, start=start, size=size: t[start : start + size])
        got, grad = gradients(piece, algorithm)
        loss, start = loss + got.loss.item(), start + size
        parts.append(grad)
    assert loss == pytest.approx(out.loss.item(), abs=1e-6)
    assert torch.allclose(torch.cat(parts), gradient, atol=1e-6)


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("garbage", [0.0, 26.0, -60.0, torch.nan, torch.inf, -torch.inf])
@pytest.mark.parametrize(("left", "right"), [(0, 5), (4, 0), (2, 3)])
def test_padding_side_width_and_content_do_not_matter(spec, garbage, left, right):
    algorithm = get_algorithm(spec)
    batch = random_batch()
    out, gradient = gradients(batch, algorithm)

    def pad(values):
        if values.dtype == torch.bool:
            return torch.nn.functional.pad(values, (left, right), value=False)
        if values.dtype == torch.long:
            return torch.nn.functional.pad(values, (left, right), value=2)  # padding that calls itself action
        values = torch.where(batch.mask, values, garbage)
        return torch.nn.functional.pad(values, (left, right), value=garbage)

    wide, wide_gradient = gradients(moved(batch, pad), algorithm)
    inner = slice(left, left + batch.mask.shape[1])
    assert wide.loss.item() == pytest.approx(out.loss.item(), abs=1e-6)
    assert torch.allclose(wide_gradient[:, inner], gradient, atol=1e-6)
    outside = torch.nn.functional.pad(batch.mask, (left, right), value=False).logical_not()
    assert wide_gradient[outside].abs().max() == 0.0
    assert torch.equal(wide.clipped_low[:, inner], out.clipped_low)
    assert torch.equal(wide.clipped_high[:, inner], out.clipped_high)
    assert torch.equal(wide.masked[:, inner], out.masked)
    assert not (wide.clipped_low | wide.clipped_high | wide.masked)[outside].any()
    assert wide.weight[outside].abs().max() == 0.0


@settings(deadline=None, max_examples=120)
@given(st.sampled_from(SPECS), st.integers(0, 10**6), st.sampled_from([0.0, 26.0, torch.nan, -torch.inf]))
def test_neither_row_order_nor_gaps_between_tokens_matter(spec, seed, garbage):
    """Rows in any order, each row's tokens in any columns, as where observations lie between turns."""
    algorithm, batch = get_algorithm(spec), random_batch()
    out, gradient = gradients(batch, algorithm)
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(batch.mask), generator=generator)
    columns = torch.rand(batch.mask.shape[0], 12, generator=generator).argsort(1)
    chosen = columns < batch.mask[order].sum(1, keepdim=True)

    def scattered(values):
        blank = {torch.bool: False, torch.long: 2}.get(values.dtype, garbage)
        return torch.full(chosen.shape, blank, dtype=values.dtype).masked_scatter(
            chosen, values[order][batch.mask[order]]
        )

    other, other_gradient = gradients(moved(batch, scattered), algorithm)
    assert other.loss.item() == pytest.approx(out.loss.item(), abs=1e-6)
    assert torch.allclose(other_gradient[chosen], gradient[order][batch.mask[order]], atol=1e-6)
    assert other_gradient[~chosen].abs().max() == 0.0


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("garbage", [26.0, torch.nan])
def test_a_batch_of_padding_alone_has_loss_and_gradient_zero(spec, garbage):
    """A micro-batch of truncated rows, say: nothing to learn and nothing that spoils the sum."""
    algorithm = get_algorithm(spec)
    batch = moved(random_batch(), lambda t: t if t.dtype == torch.long else torch.full_like(t, garbage))
    batch = replace(batch, mask=torch.zeros_like(batch.mask))
    out, gradient = gradients(batch, algorithm)
    assert out.loss.item() == 0.0
    assert gradient.abs().max() == 0.0
    assert not (out.clipped_low | out.clipped_high | out.masked).any()
    totals = denominators(batch.mask, out.weight)
    assert (totals.weight, totals.tokens, totals.sequences) == (0.0, 0.0, 0.0)
    logprob = batch.logprob.clone().requires_grad_()
    loss, tokens = kl_loss(logprob, batch.old_logprob, batch.mask, algorithm, totals)
    assert loss.item() == 0.0
    assert tokens.abs().max() == 0.0
    assert torch.autograd.grad(loss, logprob)[0].abs().max() == 0.0


@pytest.mark.parametrize("spec", SPECS)
def test_the_gradient_grows_with_the_advantage(spec):
    """Twice the advantages, twice the loss and its gradient: clips and masks look at signs alone."""
    algorithm, batch = get_algorithm(spec), random_batch()
    out, gradient = gradients(batch, algorithm)
    other, double = gradients(replace(batch, advantage=2 * batch.advantage), algorithm)
    assert other.loss.item() == pytest.approx(2 * out.loss.item(), rel=1e-5)
    assert torch.allclose(double, 2 * gradient, rtol=1e-5)


@pytest.mark.parametrize("spec", SPECS)
def test_sequences_packed_into_one_row_give_the_same_loss(spec):
    """Turns as rows, or all turns in one row with sequence ids: the same numbers."""
    algorithm, batch = get_algorithm(spec), random_batch()
    out, gradient = gradients(batch, algorithm)
    packed = moved(batch, lambda t: t[batch.mask][None])
    ids = torch.arange(6)[:, None].expand(6, 7)[batch.mask][None]
    other, other_gradient = gradients(replace(packed, sequence_id=ids), algorithm)
    assert other.loss.item() == pytest.approx(out.loss.item(), abs=1e-6)
    assert torch.allclose(other_gradient[0], gradient[batch.mask], atol=1e-6)


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("log_ratio", [60.0, -60.0])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_extreme_log_ratios_stay_finite_and_are_recorded_raw(spec, log_ratio, sign):
    batch = random_batch()
    batch = replace(
        batch, logprob=batch.old_logprob + log_ratio, advantage=torch.full_like(batch.advantage, sign)
    )
    out, gradient = gradients(batch, get_algorithm(spec))
    assert out.loss.isfinite()
    assert gradient.isfinite().all()
    assert torch.allclose(out.log_ratio[batch.mask], torch.tensor(log_ratio), atol=1e-4)
    assert out.ratio_applied.max() <= exp(20) * 1.001


def test_what_is_recorded_has_no_gradient():
    out, _ = gradients(random_batch(), get_algorithm("gspo+actfocus"))
    recorded = (out.log_ratio, out.ratio_applied, out.weight)
    assert not any(values.requires_grad for values in recorded)


# d = log pi_ref - log pi, k3 = exp(d) - d - 1, its derivative by log pi = 1 - exp(d)
K3_CASES = [
    (0.0, 0.0, 0.0),
    (log(2), 1 - log(2), -1.0),
    (-log(2), log(2) - 0.5, 0.5),
    (1e-4, 5e-9, -1e-4),
    (60.0, exp(20) - 21, 0.0),
    (-60.0, 19.0, 0.0),
]


@pytest.mark.parametrize(("d", "value", "slope"), K3_CASES)
def test_k3_value_and_gradient(d, value, slope):
    reference = torch.tensor([-1.0], dtype=torch.float64)
    logprob = (reference - d).requires_grad_()
    k3 = kl_k3(logprob, reference)
    assert k3.item() == pytest.approx(value, rel=1e-6, abs=1e-12)
    (gradient,) = torch.autograd.grad(k3.sum(), logprob)
    assert gradient.item() == pytest.approx(slope, rel=1e-4, abs=1e-9)


def test_k3_pulls_towards_the_reference():
    reference = torch.tensor([0.7, 0.2, 0.1], dtype=torch.float64).log()
    logits = torch.tensor([0.0, 1.0, -1.0], dtype=torch.float64, requires_grad=True)

    def divergence():
        log_policy = logits.log_softmax(0)
        return (log_policy.exp() * (log_policy - reference)).sum().item()

    before = divergence()
    for _ in range(200):
        log_policy = logits.log_softmax(0)
        loss = (log_policy.exp().detach() * kl_k3(log_policy, reference)).sum()
        (gradient,) = torch.autograd.grad(loss, logits)
        logits.data -= 0.5 * gradient
    assert divergence() < before / 100


KL_CASE = {
    "logprob": torch.tensor([[-1.0 + log(2), 26.0, torch.nan], [-1.0, -1.0 - log(2), -1.0]]),
    "ref_logprob": torch.tensor([[-1.0, torch.nan, -60.0], [-1.0, -1.0, -1.0]]),
    "mask": torch.tensor([[True, False, False], [True, True, True]]),
}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        # Token values: log 2 - 1/2 in the first row; 0, 1 - log 2, 0 in the second.
        ("grpo", (0.5) / 4),
        ("actfocus", (0.5) / 4),  # response tokens at weight 1, whatever ActFocus gives them
        ("gspo", (log(2) - 0.5 + (1 - log(2)) / 3) / 2),
    ],
)
def test_kl_loss_is_aggregated_like_the_policy_loss(spec, expected):
    weight = torch.tensor([[0.1, 0.0, 0.0], [0.1, 1.4, 1.2]])
    totals = denominators(KL_CASE["mask"], weight)
    logprob = KL_CASE["logprob"].clone().requires_grad_()
    loss, tokens = kl_loss(logprob, KL_CASE["ref_logprob"], KL_CASE["mask"], get_algorithm(spec), totals)
    assert loss.item() == pytest.approx(expected, rel=1e-5)
    assert tokens[0].tolist() == pytest.approx([log(2) - 0.5, 0.0, 0.0], rel=1e-5)
    assert tokens[1].tolist() == pytest.approx([0.0, 1 - log(2), 0.0], rel=1e-5)
    assert not tokens.requires_grad
    (gradient,) = torch.autograd.grad(loss, logprob)
    assert gradient.isfinite().all()
    assert gradient[0, 0] > 0 > gradient[1, 1]
    assert gradient[0, 1:].tolist() == [0.0, 0.0]


def test_truncated_importance_scales_each_token_and_its_gradient():
    sampler = UNEVEN["old_logprob"] - torch.tensor([[log(3.0), 5.0, 5.0], [log(0.5), log(1.5), 0.0]])
    plain, gradient = run("grpo", **UNEVEN)
    corrected, scaled = run("grpo+tis:cap=2", **UNEVEN, sampler_logprob=sampler)
    # old/sampler is 3 (cut to 2), .5, 1.5 and 1; surrogates 1.2, -2.2, -1.6, -2.
    assert corrected.loss.item() == pytest.approx(-(2 * 1.2 - 0.5 * 2.2 - 1.5 * 1.6 - 2) / 4)
    assert scaled[1].tolist() == pytest.approx((gradient[1] * torch.tensor([0.5, 1.5, 1.0])).tolist())
    assert torch.equal(plain.log_ratio, corrected.log_ratio)
    with pytest.raises(
        ValueError, match=r"'grpo\+tis' corrects for the sampler: LossInputs needs sampler_logprob"
    ):
        run("grpo+tis", **UNEVEN)


def test_a_sampler_that_agrees_changes_nothing():
    plain, gradient = run("gspo", **UNEVEN)
    corrected, same = run("gspo+tis", **UNEVEN, sampler_logprob=UNEVEN["old_logprob"])
    assert torch.equal(corrected.loss, plain.loss)
    assert torch.equal(same, gradient)


def test_inputs_of_another_shape_are_named():
    """Under the type checker of the tests jaxtyping says so first; a user has none."""
    values, mask = torch.zeros(2, 3), torch.ones(2, 3, dtype=torch.bool)
    check = LossInputs.__post_init__
    given = {"logprob": values, "old_logprob": values, "advantage": values, "mask": mask}
    for name, value, message in (
        (
            "advantage",
            torch.zeros(2),
            r"advantage must be \[rows, tokens\] as logprob, \(2, 3\); it is \(2,\)",
        ),
        ("role", torch.zeros(2, 4), r"role must be .* it is \(2, 4\)"),
        ("mask", mask.long(), r"mask must be of bool, .* it is of torch.int64"),
    ):
        with pytest.raises(ValueError, match=message):
            check(SimpleNamespace(**given | {name: value}))

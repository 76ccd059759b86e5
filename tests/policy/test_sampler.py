"""Sampling: the same distribution as scoring, the same greedy path as transformers, one row at a time."""

import pytest
import torch

from arena.algorithms import LossInputs, get_algorithm, policy_loss
from arena.errors import UsageError
from arena.policy import sampler
from arena.policy.sampler import KVCache, sample
from arena.policy.scoring import Rows, response_logprob, score

LIMIT = 14


@pytest.fixture(scope="module")
def noise(prompts):
    return torch.rand(len(prompts), LIMIT, generator=torch.Generator().manual_seed(8))


@pytest.fixture(scope="module")
def eos(model, prompts, noise, codec):
    """The token that ends rows at the most different times: a natural end token for a random model."""
    free = [s.ids for s in draw(model, prompts, noise, eos=-1, pad=codec.pad_id)]
    return max(
        {i for ids in free for i in ids}, key=lambda i: len({ids.index(i) for ids in free if i in ids})
    )


def draw(model, prompts, noise, eos, pad, temperature=1.0):
    temperatures = torch.full((len(prompts),), temperature)
    return sample(model, prompts, noise, temperatures, eos, pad)


def assert_logprobs_are_scores(model, prompts, samples, pad, temperature, tolerance=1e-5):
    rows = Rows.of(prompts, [s.ids for s in samples], pad)
    scored = score(model, rows, temperature, len(prompts)).logprob[rows.mask]
    drawn = torch.tensor([p for s in samples for p in s.logprobs])
    assert torch.allclose(drawn, scored, atol=tolerance, rtol=0)


@pytest.mark.parametrize("temperature", [1.0, 0.6, 2.0])
def test_log_probabilities_are_those_of_the_scoring_pass(model, prompts, noise, eos, codec, temperature):
    samples = draw(model, prompts, noise, eos, codec.pad_id, temperature)
    assert_logprobs_are_scores(model, prompts, samples, codec.pad_id, temperature)


def test_at_one_temperature_on_both_sides_the_first_ratio_is_one(model, prompts, noise, eos, codec):
    """Sampled and scored at 0.7: at ratio 1 and A = 1 the loss is -1. Scored at 1 instead, ratios are far from it."""
    samples = draw(model, prompts, noise, eos, codec.pad_id, 0.7)
    rows = Rows.of(prompts, [s.ids for s in samples], codec.pad_id)
    sampled = rows.spread(torch.tensor([p for s in samples for p in s.logprobs]))

    def first_update(temperature):
        logprob = response_logprob(model, rows, temperature)
        return policy_loss(LossInputs(logprob, sampled, rows.mask.float(), rows.mask), get_algorithm("grpo"))

    out = first_update(0.7)
    assert out.log_ratio.abs().max() < 1e-5
    assert torch.allclose(out.ratio_applied[rows.mask], torch.ones(()), atol=1e-5)
    assert out.loss.item() == pytest.approx(-1.0, abs=1e-5)
    assert not (out.clipped_low | out.clipped_high).any()
    assert first_update(1.0).log_ratio.abs().max() > 0.5


def test_the_end_token_may_be_the_padding_token(model, prompts, noise, eos, codec):
    """The same samples, each with its end token and the log-probability of it."""
    samples = draw(model, prompts, noise, eos, pad=eos)
    assert samples == draw(model, prompts, noise, eos, codec.pad_id)
    assert any(s.ids[-1] == eos for s in samples)
    assert_logprobs_are_scores(model, prompts, samples, eos, 1.0)


def test_without_padding_too(model, prompts, noise, eos, codec):
    same = [p[:1] * 5 for p in prompts]
    assert_logprobs_are_scores(model, same, draw(model, same, noise, eos, codec.pad_id), codec.pad_id, 1.0)
    single = [p[:1] for p in prompts]
    samples = draw(model, single, noise, eos, codec.pad_id)
    assert_logprobs_are_scores(model, single, samples, codec.pad_id, 1.0)


def test_responses_end_with_their_end_token_or_at_the_limit(model, prompts, noise, eos, codec):
    samples = draw(model, prompts, noise, eos, codec.pad_id)
    assert len({len(s.ids) for s in samples}) > 2, "the case must have rows that end at different times"
    assert {s.truncated for s in samples} == {True, False}
    for s in samples:
        assert len(s.ids) == len(s.logprobs)
        assert s.truncated == (eos not in s.ids)
        assert len(s.ids) == LIMIT if s.truncated else s.ids.index(eos) == len(s.ids) - 1


@pytest.fixture
def sizes(monkeypatch):
    """The number of rows of each forward pass."""
    seen = []
    forward = sampler._next_logits

    def counted(model, ids, *rest):
        seen.append(len(ids))
        return forward(model, ids, *rest)

    monkeypatch.setattr(sampler, "_next_logits", counted)
    return seen


@pytest.mark.parametrize("below", [0.8, 0.9, 1.0])
def test_finished_rows_leave_the_batch_and_nothing_else_changes(
    model, prompts, noise, eos, codec, monkeypatch, sizes, below
):
    monkeypatch.setattr(sampler, "COMPACT_BELOW", 0.0)
    whole = draw(model, prompts, noise, eos, codec.pad_id)
    assert set(sizes) == {len(prompts)}
    sizes.clear()
    monkeypatch.setattr(sampler, "COMPACT_BELOW", below)
    compacted = draw(model, prompts, noise, eos, codec.pad_id)
    assert sizes[-1] < sizes[0]
    for t, size in enumerate(sizes):
        # Rows that have ended stay ended, whatever they would sample next.
        sampling = sum(len(s.ids) > t for s in compacted)
        assert below * size < sampling <= size or sampling == size
    assert [s.ids for s in compacted] == [s.ids for s in whole]
    for a, b in zip(compacted, whole, strict=True):
        assert a.logprobs == pytest.approx(b.logprobs, abs=1e-5)
    assert_logprobs_are_scores(model, prompts, compacted, codec.pad_id, 1.0)


def test_rows_that_have_ended_do_not_come_back(model, codec, monkeypatch):
    """Ten rows whose ends are known and that would go on after them; a fifth may have ended before they leave."""
    length = torch.tensor([1, 2, 3, 4, 5, 9, 9, 9, 9, 9])
    other, rows, sizes = 5, torch.arange(10), []

    def forward(model, ids, positions, mask, cache):
        token = torch.where(length[rows] == len(sizes) + 1, codec.eos_id, other)
        sizes.append(len(ids))
        return torch.nn.functional.one_hot(token, len(codec.tokenizer)).float()

    def select(self, keep):
        nonlocal rows
        rows = rows[keep]

    monkeypatch.setattr(sampler, "_next_logits", forward)
    monkeypatch.setattr(KVCache, "select", select)
    monkeypatch.setattr(sampler, "COMPACT_BELOW", 0.8)
    samples = draw(
        model, [[3 + i] for i in range(10)], torch.zeros(10, 20), codec.eos_id, codec.pad_id, temperature=0.0
    )
    assert [s.ids for s in samples] == [[other] * (n - 1) + [codec.eos_id] for n in length.tolist()]
    assert not any(s.truncated for s in samples)
    # And sampling stops with the last row, long before the limit of 20.
    assert sizes == [10, 10, 8, 8, 6, 6, 6, 6, 6]


def test_a_row_does_not_depend_on_its_companions(model, prompts, noise, eos, codec):
    together = draw(model, prompts, noise, eos, codec.pad_id)
    for i, prompt in enumerate(prompts):
        (alone,) = draw(model, [prompt], noise[i : i + 1], eos, codec.pad_id)
        assert alone.ids == together[i].ids
        assert alone.logprobs == pytest.approx(together[i].logprobs, abs=1e-5)
    order = [5, 2, 7, 0, 1, 6, 4, 3]
    turned = draw(model, [prompts[i] for i in order], noise[order], eos, codec.pad_id)
    assert [s.ids for s in turned] == [together[i].ids for i in order]


def test_a_shared_prompt_is_run_once(model, prompts, noise, eos, codec, sizes):
    shared = [prompts[i] for i in (7, 1, 7, 7, 0, 1, 7, 0)]
    samples = draw(model, shared, noise, eos, codec.pad_id)
    assert sizes[:2] == [3, 8]
    assert_logprobs_are_scores(model, shared, samples, codec.pad_id, 1.0)
    for i, prompt in enumerate(shared):
        (alone,) = draw(model, [prompt], noise[i : i + 1], eos, codec.pad_id)
        assert alone.ids == samples[i].ids


def test_greedy_equals_generate(model, prompts, noise, eos, codec):
    width = max(map(len, prompts))
    ids = torch.tensor([[codec.pad_id] * (width - len(p)) + p for p in prompts])
    mask = torch.tensor([[0] * (width - len(p)) + [1] * len(p) for p in prompts])
    with torch.no_grad():
        expected = model.generate(
            input_ids=ids,
            attention_mask=mask,
            do_sample=False,
            max_new_tokens=LIMIT,
            eos_token_id=eos,
            pad_token_id=codec.pad_id,
        )[:, width:].tolist()
    samples = draw(model, prompts, noise, eos, codec.pad_id, temperature=0.0)
    for got, full in zip(samples, expected, strict=True):
        assert got.ids == full[: len(got.ids)]
        assert got.truncated or set(full[len(got.ids) :]) <= {codec.pad_id}
    # Greedy log-probabilities are at temperature 1.
    assert_logprobs_are_scores(model, prompts, samples, codec.pad_id, 1.0)


def test_temperatures_are_per_row(model, prompts, noise, eos, codec):
    mixed = torch.tensor([0.0, 0.5, 1.0, 2.0, 0.0, 0.5, 1.0, 2.0])
    samples = sample(model, prompts, noise, mixed, eos, codec.pad_id)
    for temperature in (0.0, 0.5, 1.0, 2.0):
        alone = draw(model, prompts, noise, eos, codec.pad_id, temperature)
        for i in (mixed == temperature).nonzero()[:, 0].tolist():
            assert samples[i].ids == alone[i].ids
            assert samples[i].logprobs == pytest.approx(alone[i].logprobs, abs=1e-5)


@pytest.mark.parametrize("temperature", [1.0, 2.0])
def test_first_tokens_are_drawn_from_the_softmax(model, prompts, codec, temperature):
    count = 4000
    prompt = prompts[3]
    with torch.no_grad():
        logits = model(torch.tensor([prompt])).logits[0, -1, :-2]  # without the reserved entries
    expected = (logits / temperature).softmax(0)
    assert expected.max() < 0.9

    def frequencies(uniforms):
        samples = draw(model, [prompt] * count, uniforms[:, None], codec.eos_id, codec.pad_id, temperature)
        return torch.bincount(torch.tensor([s.ids[0] for s in samples]), minlength=len(expected)) / count

    # Evenly spread noise gives each token its share, up to one draw on either side.
    even = frequencies((torch.arange(count) + 0.5) / count)
    assert (even - expected).abs().max() <= 1.01 / count
    # Seeded noise: Pearson's statistic over the tokens expected five times, about its degrees of freedom.
    drawn = frequencies(torch.rand(count, generator=torch.Generator().manual_seed(2)))
    common = expected * count >= 5
    statistic = float((count * (drawn - expected)[common] ** 2 / expected[common]).sum())
    freedom = int(common.sum())
    assert statistic < freedom + 4 * (2 * freedom) ** 0.5


@pytest.mark.parametrize(("uniform", "token"), [(0.0, 1), (0.5 - 1e-6, 1), (0.5, 3), (1 - 2**-24, 3)])
def test_tokens_of_probability_zero_are_never_drawn(uniform, token):
    logits = torch.tensor([[-torch.inf, 0.0, -torch.inf, 0.0, -torch.inf]])
    got, logprob = sampler._draw(logits, torch.tensor([uniform]), torch.tensor([1.0]))
    assert got.tolist() == [token]
    assert logprob.item() == pytest.approx(-0.693147, abs=1e-5)


def test_cache_appends_and_selects():
    cache = KVCache(4)
    first = torch.arange(6.0).reshape(3, 1, 2, 1)
    keys, values = cache.update(first, -first, 0)
    assert torch.equal(keys, first)
    assert torch.equal(values, -first)
    cache.length = 2
    cache.select(torch.tensor([2, 0]))
    added = torch.tensor([10.0, 11.0]).reshape(2, 1, 1, 1)
    keys, values = cache.update(added, -added, 0)
    assert keys[:, 0, :, 0].tolist() == [[4.0, 5.0, 10.0], [0.0, 1.0, 11.0]]
    assert torch.equal(values, -keys)


def test_a_prompt_beyond_the_models_positions_is_refused(model, codec):
    with pytest.raises(UsageError, match="are more than the model's 2048 positions"):
        draw(model, [[5] * 2040], torch.rand(1, 9), codec.eos_id, codec.pad_id)

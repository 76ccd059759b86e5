"""Scores against a naive pass over all logits, in one piece or in chunks, forward and backward."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from arena.policy import scoring
from arena.policy.forward import Forward
from arena.policy.scoring import Rows, response_logprob, response_states, score

LENGTHS = (4, 7, 1, 5, 2, 7, 3, 6)


@pytest.fixture(scope="module")
def responses(codec):
    generator = torch.Generator().manual_seed(6)
    return [torch.randint(3, len(codec.tokenizer) - 2, (n,), generator=generator).tolist() for n in LENGTHS]


@pytest.fixture(scope="module")
def rows(prompts, responses, codec):
    return Rows.of(prompts, responses, codec.pad_id)


def naive(model, prompts, responses, temperature):
    """log-prob, entropy, energy and centred energy of each response token, one row at a time."""
    out = []
    for prompt, response in zip(prompts, responses, strict=True):
        with torch.no_grad():
            logits = model(torch.tensor([[*prompt, *response]])).logits[0, len(prompt) - 1 : -1, :-2].double()
        log_p = (logits / temperature).log_softmax(-1)
        logprob = log_p[torch.arange(len(response)), torch.tensor(response)]
        entropy = -(log_p.exp() * log_p).sum(-1)
        energy = -logits.exp().sum(-1).log()
        centred = -(logits - logits.mean(-1, keepdim=True)).exp().sum(-1).log()
        out.append(torch.stack([logprob, entropy, energy, centred]))
    return torch.cat(out, 1).float()


def flat(scores, rows):
    return torch.stack(
        [v[rows.mask] for v in (scores.logprob, scores.entropy, scores.energy, scores.centred_energy)]
    )


def test_rows_are_prompt_response_padding(codec):
    rows = Rows.of([[5, 6], [7]], [[8], [9, 10, 11]], codec.pad_id)
    assert rows.prompt_ids.tolist() == [[5, 6], [7, 0]]
    assert rows.prompt_length.tolist() == [2, 1]
    assert rows.prompt.tolist() == [0, 1]
    assert rows.response_ids.tolist() == [[8, 0, 0], [9, 10, 11]]
    assert rows.mask.tolist() == [[True, False, False], [True, True, True]]
    assert rows.spread(torch.tensor([1.0, 2.0, 3.0, 4.0])).tolist() == [[1.0, 0.0, 0.0], [2.0, 3.0, 4.0]]
    assert len(rows) == 2


def test_the_end_token_is_trained_where_padding_is_the_same_id(model, prompts, codec):
    """As in models without a padding token: the mask goes by lengths, so the end token's log-probability and its
    gradient are there, and those of padding with the same id are not."""
    responses = [[8, 1], [9, 10, 11, 1], [1], [12, 13, 14, 15]]  # the last one was cut: no end token
    same, other = (Rows.of(prompts[:4], responses, pad) for pad in (1, codec.pad_id))
    assert codec.eos_id == 1
    assert same.response_ids.tolist() == [[8, 1, 1, 1], [9, 10, 11, 1], [1, 1, 1, 1], [12, 13, 14, 15]]
    lengths = [2, 4, 1, 4]
    assert same.mask.tolist() == [[t < n for t in range(4)] for n in lengths]
    expected = naive(model, prompts[:4], responses, 1.0)[0]
    gradients = []
    for rows in (same, other):
        assert torch.allclose(score(model, rows, 1.0, 4).logprob[rows.mask], expected, atol=1e-5, rtol=0)
        logprob = response_logprob(model, rows, 1.0)
        assert torch.allclose(logprob[rows.mask], expected, atol=1e-5, rtol=0)
        assert logprob[~rows.mask].abs().max() == 0.0
        ends = logprob[[0, 1, 2], [1, 3, 0]].sum()
        gradients.append(torch.autograd.grad(ends, model.model.norm.weight)[0])
    assert gradients[0].abs().max() > 0.1
    assert torch.allclose(gradients[0], gradients[1], atol=1e-5)
    assert same.select(torch.tensor([0, 2])).mask.tolist() == [[True, True], [True, False]]


def test_selected_rows_are_cut_to_what_they_need(codec):
    rows = Rows.of([[4] * 9, [5, 6], [7], [7]], [[3] * 9, [8], [9, 10, 11], [12]], codec.pad_id).select(
        torch.tensor([2, 1, 3])
    )
    assert rows.prompt_ids.tolist() == [[5, 6], [7, 0]]
    assert rows.prompt_length.tolist() == [2, 1]
    assert rows.prompt.tolist() == [1, 0, 1]
    assert rows.response_ids.tolist() == [[9, 10, 11], [8, 0, 0], [12, 0, 0]]
    assert rows.mask.tolist() == [[True, True, True], [True, False, False], [True, False, False]]


def test_batches_keep_the_rows_of_a_prompt_together(codec):
    rows = Rows.of([[5], [6], [5], [6], [5]], [[8]] * 5, codec.pad_id)
    parts = rows.batches(torch.tensor([4, 3, 2, 1]), 2)
    assert [part.tolist() for part in parts] == [[4, 2], [3, 1]]


@pytest.mark.parametrize("temperature", [1.0, 0.7])
@pytest.mark.parametrize("micro_rows", [1, 3, 8])
def test_scores_equal_a_full_softmax(model, rows, prompts, responses, temperature, micro_rows):
    scores = score(model, rows, temperature, micro_rows)
    expected = naive(model, prompts, responses, temperature)
    assert expected[0].min() < -8  # far from uniform: sharp enough to tell
    assert torch.allclose(flat(scores, rows), expected, atol=1e-5, rtol=0)
    for values in (scores.logprob, scores.entropy, scores.energy, scores.centred_energy):
        assert values[~rows.mask].abs().max() == 0.0


def test_energy_is_at_temperature_one_and_centred_energy_is_free_of_a_constant(model, rows):
    warm, cold = score(model, rows, 2.0, 8), score(model, rows, 0.5, 8)
    assert torch.equal(warm.energy, cold.energy)
    assert torch.equal(warm.centred_energy, cold.centred_energy)
    assert not torch.allclose(warm.logprob, cold.logprob)
    hidden, head = torch.randn(4, 3), torch.randn(6, 3)
    target = torch.tensor([0, 1, 2, 3])
    plain = scoring._score_chunk(hidden, head, target, 1.0)
    # A constant on all logits: a head row shared by every word, times a constant feature.
    moved = scoring._score_chunk(
        torch.cat([hidden, torch.ones(4, 1)], 1), torch.cat([head, torch.full((6, 1), 5.0)], 1), target, 1.0
    )
    for before, after, shift in zip(plain, moved, (0.0, 0.0, -5.0, 0.0), strict=True):
        assert torch.allclose(after, before + shift, atol=1e-5)


def loss_and_gradients(model, rows, temperature=0.7):
    model.zero_grad()
    logprob = response_logprob(model, rows, temperature)
    weights = torch.linspace(-1, 2, rows.mask.numel()).reshape(rows.mask.shape)
    (logprob * weights).sum().backward()
    return logprob.detach(), {name: p.grad.clone() for name, p in model.named_parameters()}


def test_differentiable_scores_equal_the_recorded_ones(model, rows):
    logprob, _ = loss_and_gradients(model, rows)
    assert torch.allclose(logprob, score(model, rows, 0.7, 8).logprob, atol=1e-5, rtol=0)


@pytest.mark.parametrize("positions", [1, 4, 11, 1000])
def test_chunks_change_neither_values_nor_gradients(model, rows, codec, monkeypatch, positions):
    whole, gradients = loss_and_gradients(model, rows)
    scores = score(model, rows, 0.7, 8)
    monkeypatch.setattr(scoring, "CHUNK_LOGITS", positions * (len(codec.tokenizer) - 2))
    chunked, chunked_gradients = loss_and_gradients(model, rows)
    assert torch.allclose(chunked, whole, atol=1e-5, rtol=0)
    scale = max(g.abs().max() for g in gradients.values())
    for name, gradient in gradients.items():
        assert torch.allclose(chunked_gradients[name], gradient, atol=1e-5 * float(scale), rtol=1e-5)
    assert torch.allclose(flat(score(model, rows, 0.7, 8), rows), flat(scores, rows), atol=1e-5, rtol=0)


class LargestLogits(TorchDispatchMode):
    """The largest tensor whose last dimension is the vocabulary, the output head left out."""

    def __init__(self, vocabulary, hidden):
        super().__init__()
        self.vocabulary, self.head, self.largest = vocabulary, (hidden, vocabulary), 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for value in out if isinstance(out, (tuple, list)) else [out]:
            if isinstance(value, torch.Tensor) and value.shape[-1:] == (self.vocabulary,):
                self.largest = max(self.largest, 0 if value.shape == self.head else value.numel())
        return out


def test_no_tensor_of_all_logits_is_ever_made(model, rows, codec, monkeypatch):
    vocabulary = len(codec.tokenizer) - 2  # the reserved entries have no logits
    with LargestLogits(vocabulary, 16) as whole:
        loss_and_gradients(model, rows)
    assert whole.largest == sum(LENGTHS) * vocabulary
    monkeypatch.setattr(scoring, "CHUNK_LOGITS", 4 * vocabulary + 1)
    with LargestLogits(vocabulary, 16) as chunked:
        loss_and_gradients(model, rows)
        score(model, rows, 0.7, 8)
    assert chunked.largest == 4 * vocabulary


@pytest.fixture
def passes(monkeypatch):
    """The hidden states of each pass over the model, their gradients kept."""
    seen = []

    class Kept(Forward):
        def __call__(self, *args):
            output = super().__call__(*args)
            if output.requires_grad:
                output.retain_grad()
            seen.append(output)
            return output

    monkeypatch.setattr(scoring, "Forward", Kept)
    return seen


def test_only_response_tokens_are_scored(model, rows, passes):
    """The hidden states that reach the loss are those that predict response tokens, one to the left."""
    response_logprob(model, rows, 1.0).sum().backward()
    prompts, responses = (output.grad.abs().sum(-1) > 0 for output in passes)
    assert prompts.nonzero().tolist() == [[i, n - 1] for i, n in enumerate(rows.prompt_length.tolist())]
    assert torch.equal(responses, rows.mask[:, 1:])
    assert response_states(model, rows)[rows.mask].shape == (sum(LENGTHS), 16)


def test_a_shared_prompt_is_run_once_and_changes_neither_values_nor_gradients(
    model, prompts, responses, codec, passes
):
    shared = [prompts[i] for i in (7, 1, 7, 7, 0, 1, 7, 0)]
    rows = Rows.of(shared, responses, codec.pad_id)
    logprob, gradients = loss_and_gradients(model, rows)
    assert [tuple(output.shape[:2]) for output in passes] == [(3, 12), (8, 6)]
    expected = naive(model, shared, responses, 0.7)[0]
    assert torch.allclose(logprob[rows.mask], expected, atol=1e-5, rtol=0)
    weights = torch.linspace(-1, 2, rows.mask.numel()).reshape(rows.mask.shape)
    model.zero_grad()
    for i, (prompt, response) in enumerate(zip(shared, responses, strict=True)):
        logits = model(torch.tensor([[*prompt, *response]])).logits[0, len(prompt) - 1 : -1, :-2]
        alone = (logits / 0.7).log_softmax(-1)[torch.arange(len(response)), torch.tensor(response)]
        (alone * weights[i, : len(response)]).sum().backward()
    scale = max(float(p.grad.abs().max()) for p in model.parameters())
    for name, parameter in model.named_parameters():
        assert torch.allclose(gradients[name], parameter.grad, atol=1e-5 * scale, rtol=1e-5), name


def test_responses_of_one_token_need_no_second_pass(model, prompts, codec, passes):
    rows = Rows.of(prompts, [[5]] * len(prompts), codec.pad_id)
    scores = score(model, rows, 1.0, len(rows))
    assert len(passes) == 1
    expected = naive(model, prompts, [[5]] * len(prompts), 1.0)
    assert torch.allclose(flat(scores, rows), expected, atol=1e-5, rtol=0)


def test_padding_content_and_width_do_not_reach_the_scores(model, rows):
    expected = score(model, rows, 1.0, 8).logprob
    prompts, filled = rows.prompt_ids.clone(), rows.response_ids.clone()
    prompts[torch.arange(prompts.shape[1])[None] >= rows.prompt_length[:, None]] = 8
    filled[~rows.mask] = 9
    wide = Rows(
        torch.nn.functional.pad(prompts, (0, 3), value=6),
        rows.prompt_length,
        rows.prompt,
        torch.nn.functional.pad(filled, (0, 6), value=7),
        torch.nn.functional.pad(rows.mask, (0, 6), value=False),
    )
    got = score(model, wide, 1.0, 8).logprob
    assert torch.allclose(got[:, :7], expected, atol=1e-5, rtol=0)
    assert got[:, 7:].abs().max() == 0.0
    whole = response_logprob(model, wide, 1.0).detach()
    assert torch.allclose(whole[:, :7], expected, atol=1e-5, rtol=0)


def test_rows_of_several_turns_know_where_turns_begin_and_end():
    rows = Rows.of_conversations(
        [[([5, 6], [7, 8]), ([9], [10]), ([11, 12], [13, 14, 15])], [([5, 6], [3])]], pad_id=0
    )
    assert rows.prompt.tolist() == [0, 0]
    assert rows.response_ids.tolist() == [[7, 8, 9, 10, 11, 12, 13, 14, 15], [3, *[0] * 8]]
    assert rows.mask.int().tolist() == [[1, 1, 0, 1, 0, 0, 1, 1, 1], [1, *[0] * 8]]
    assert rows.starts.nonzero().tolist() == [[0, 0], [0, 3], [0, 6], [1, 0]]
    assert rows.ends.nonzero().tolist() == [[0, 1], [0, 3], [0, 8], [1, 0]]
    assert rows.turn[rows.mask].tolist() == [0, 0, 1, 2, 2, 2, 3]
    assert rows.position[rows.mask].tolist() == [0, 1, 0, 0, 1, 2, 0]
    some = rows.select(torch.tensor([1]))
    assert (some.response_ids.tolist(), some.mask.tolist()) == ([[3]], [[True]])


def test_a_later_turn_is_scored_after_all_that_was_said_before(model, prompts):
    turns = [(prompts[0], prompts[1]), (prompts[2], prompts[3]), (prompts[5], prompts[4])]
    whole = score(model, Rows.of_conversations([turns], 0), 0.7, 8)
    read: list[int] = []
    flat = []
    for shown, said in turns:
        read += shown
        alone = score(model, Rows.of([read], [said], 0), 0.7, 8)
        flat += alone.logprob[0].tolist()
        read += said
    mask = Rows.of_conversations([turns], 0).mask
    assert whole.logprob[mask].tolist() == pytest.approx(flat, abs=1e-5)

"""Score responses: log-probability, entropy and energy of every response token in one pass.

Logits are computed only where responses are, on a flat list of positions, and in chunks, so that nothing of size
[rows, tokens, vocabulary] is ever alive.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.utils.checkpoint import checkpoint
from transformers import PreTrainedModel

#: Largest number of logits alive at once.
CHUNK_LOGITS = 1 << 23


@dataclass(frozen=True)
class Rows:
    """Prompt and response ids, one row per sequence: [prompt | response | padding].

    `mask` and everything scored is response-aligned: column t is the response's token t. Rows are padded on the
    right only, where causal attention never looks, so no attention mask is needed.
    """

    ids: Int[Tensor, "rows length"]
    prompt_length: Int[Tensor, " rows"]
    mask: Bool[Tensor, "rows tokens"]

    @staticmethod
    def of(prompts: Sequence[Sequence[int]], responses: Sequence[Sequence[int]], pad_id: int) -> Rows:
        """Rows from lists of ids."""
        length = max(len(p) + len(r) for p, r in zip(prompts, responses, strict=True))
        width = max(len(r) for r in responses)
        ids = [
            [*p, *r, *[pad_id] * (length - len(p) - len(r))] for p, r in zip(prompts, responses, strict=True)
        ]
        response_length = torch.tensor([len(r) for r in responses])
        return Rows(
            ids=torch.tensor(ids),
            prompt_length=torch.tensor([len(p) for p in prompts]),
            mask=torch.arange(width)[None] < response_length[:, None],
        )

    def __len__(self) -> int:
        return len(self.ids)

    def select(self, index: Int[Tensor, " some"]) -> Rows:
        """Some rows, cut to the length they need."""
        mask = self.mask[index]
        width = int(mask.sum(1).max())
        prompt_length = self.prompt_length[index]
        length = int((prompt_length + mask.sum(1)).max())
        return Rows(self.ids[index, :length], prompt_length, mask[:, :width])

    @property
    def positions(self) -> tuple[Int[Tensor, " n"], Int[Tensor, " n"]]:
        """Row and column, in `ids`, of each response token, in row order."""
        row, token = self.mask.nonzero(as_tuple=True)
        return row, self.prompt_length[row] + token

    def spread(self, flat: Float[Tensor, " n"]) -> Float[Tensor, "rows tokens"]:
        """Values of the response tokens as [rows, tokens], 0 elsewhere."""
        return flat.new_zeros(self.mask.shape).masked_scatter(self.mask, flat)


@dataclass(frozen=True)
class Scores:
    """Per response token, all [rows, tokens], 0 elsewhere.

    `logprob` and `entropy` (nats) are of the sampling distribution, the logits divided by the temperature;
    `energy` is -logsumexp of the raw logits, `centred_energy` that of the logits minus their mean.
    """

    logprob: Float[Tensor, "rows tokens"]
    entropy: Float[Tensor, "rows tokens"]
    energy: Float[Tensor, "rows tokens"]
    centred_energy: Float[Tensor, "rows tokens"]


def hidden_states(model: PreTrainedModel, rows: Rows) -> Float[Tensor, "n hidden"]:
    """The hidden state that predicts each response token, flat, in row order."""
    output = model.model(input_ids=rows.ids, attention_mask={"full_attention": None}, use_cache=False)
    row, column = rows.positions
    return output.last_hidden_state[row, column - 1]


def response_logprob(model: PreTrainedModel, rows: Rows, temperature: float) -> Float[Tensor, "rows tokens"]:
    """Log-probabilities of the response tokens, differentiable. Chunks are recomputed in the backward pass."""
    hidden = hidden_states(model, rows)
    row, column = rows.positions
    target = rows.ids[row, column]
    head = model.get_output_embeddings().weight
    chunks = _chunks(len(hidden), head.shape[0])
    if len(chunks) == 1:
        return rows.spread(_logprob(hidden, head, target, temperature))
    parts = [
        checkpoint(_logprob, hidden[c], head, target[c], temperature, use_reentrant=False) for c in chunks
    ]
    return rows.spread(torch.cat(parts))


def _logprob(
    hidden: Float[Tensor, "n hidden"],
    head: Float[Tensor, "vocab hidden"],
    target: Int[Tensor, " n"],
    temperature: float,
) -> Float[Tensor, " n"]:
    logits = (hidden @ head.T).float() / temperature
    return logits.gather(1, target[:, None])[:, 0] - logits.logsumexp(1)


@torch.no_grad()
def score(model: PreTrainedModel, rows: Rows, temperature: float, micro_rows: int) -> Scores:
    """Log-probability, entropy and energies of every response token, in micro-batches of `micro_rows` rows."""
    flat = [
        _score_flat(model, rows.select(index), temperature)
        for index in torch.arange(len(rows)).split(micro_rows)
    ]
    return Scores(*(rows.spread(torch.cat(values)) for values in zip(*flat, strict=True)))


def _score_flat(model: PreTrainedModel, rows: Rows, temperature: float) -> tuple[Float[Tensor, " n"], ...]:
    hidden = hidden_states(model, rows)
    row, column = rows.positions
    target = rows.ids[row, column]
    head = model.get_output_embeddings().weight
    parts = [
        _score_chunk(hidden[c], head, target[c], temperature) for c in _chunks(len(hidden), head.shape[0])
    ]
    return tuple(torch.cat(values) for values in zip(*parts, strict=True))


def _score_chunk(
    hidden: Float[Tensor, "n hidden"],
    head: Float[Tensor, "vocab hidden"],
    target: Int[Tensor, " n"],
    temperature: float,
) -> tuple[Float[Tensor, " n"], ...]:
    raw = (hidden @ head.T).float()
    energy = -raw.logsumexp(1)
    centred_energy = energy + raw.mean(1)
    logits = raw / temperature
    log_z = logits.logsumexp(1)
    logprob = logits.gather(1, target[:, None])[:, 0] - log_z
    probability = (logits - log_z[:, None]).exp()
    entropy = log_z - (probability * logits).sum(1)
    return logprob, entropy, energy, centred_energy


def _chunks(count: int, vocabulary: int) -> list[slice]:
    size = max(1, CHUNK_LOGITS // vocabulary)
    return [slice(start, start + size) for start in range(0, max(count, 1), size)]

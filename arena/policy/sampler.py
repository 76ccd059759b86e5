"""Batched sampling with a KV cache over many environments at once.

Prompts are padded on the left so that all rows write the cache at the same index; finished rows leave the batch.
Noise is an input, one uniform number per token, so that a row's sample does not depend on which other rows are
in the batch. Sampled ids are returned as they are and never re-encoded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor
from transformers import PreTrainedModel

from arena.errors import UsageError
from arena.policy.forward import Forward, attention_mask
from arena.policy.model import output_head
from arena.policy.scoring import distinct_rows

#: The batch is compacted when at most this share of its rows is still sampling: copying the cache costs about
#: as much as a few decode steps.
COMPACT_BELOW = 0.8


@dataclass(frozen=True)
class Sample:
    """A sampled response: ids with the end token (unless cut by the limit) and each id's log-probability."""

    ids: list[int]
    logprobs: list[float]
    truncated: bool


class KVCache:
    """Keys and values of all layers, [rows, heads, positions, head_dim], filled in place.

    Implements the one method of the transformers cache that attention layers call.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.keys: dict[int, Tensor] = {}
        self.values: dict[int, Tensor] = {}
        self.length = 0

    def update(
        self, key: Tensor, value: Tensor, layer_idx: int, *args: object, **kwargs: object
    ) -> tuple[Tensor, Tensor]:
        """Append one layer's keys and values; returns all positions so far."""
        if layer_idx not in self.keys:
            shape = (*key.shape[:2], self.capacity, key.shape[3])
            self.keys[layer_idx], self.values[layer_idx] = key.new_empty(shape), value.new_empty(shape)
        start, end = self.length, self.length + key.shape[2]
        self.keys[layer_idx][:, :, start:end] = key
        self.values[layer_idx][:, :, start:end] = value
        return self.keys[layer_idx][:, :, :end], self.values[layer_idx][:, :, :end]

    def select(self, rows: Int[Tensor, " some"]) -> None:
        """Keep some rows, or spread some over several."""
        for store in (self.keys, self.values):
            for layer, filled in store.items():
                store[layer] = filled.new_empty((len(rows), *filled.shape[1:]))
                store[layer][:, :, : self.length] = filled[:, :, : self.length].index_select(0, rows)


@torch.no_grad()
def sample(
    model: PreTrainedModel,
    prompts: Sequence[Sequence[int]],
    uniforms: Float[Tensor, "rows tokens"],
    temperature: Float[Tensor, " rows"],
    eos_id: int,
    pad_id: int,
) -> list[Sample]:
    """Sample one response per prompt, at most `uniforms.shape[1]` tokens each.

    `temperature` is per row; 0 is greedy, with log-probabilities at temperature 1.
    """
    count, limit = uniforms.shape
    distinct, prompt = distinct_rows(prompts)
    lengths = torch.tensor([len(p) for p in distinct])
    width = int(lengths.max())
    longest = getattr(model.config, "max_position_embeddings", None)
    if longest is not None and width + limit > longest:
        raise UsageError(
            f"a prompt of {width} tokens and up to {limit} of response are more than the model's {longest} positions: "
            "lower env.max_turns, env.history or rollout.max_response_tokens."
        )
    ids = torch.tensor([[*[pad_id] * (width - len(p)), *p] for p in distinct])
    pad = width - lengths
    padded = bool((pad > 0).any())
    positions = (torch.arange(width)[None] - pad[:, None]).clamp(min=0)
    forward, cache = Forward(model), KVCache(width + limit)
    logits = _next_logits(forward, ids, positions, _prefill_mask(pad, width) if padded else None, cache)
    cache.select(prompt)
    logits, pad = logits[prompt], pad[prompt]

    out_ids = torch.full((count, limit), pad_id)
    out_logprobs = torch.zeros((count, limit))
    ended = torch.zeros(count, dtype=torch.bool)
    rows = torch.arange(count)
    for t in range(limit):
        token, logprob = _draw(logits, uniforms[rows, t], temperature[rows])
        out_ids[rows, t], out_logprobs[rows, t] = token, logprob
        ended[rows[token == eos_id]] = True
        alive = ~ended[rows]
        if t + 1 == limit or not alive.any():
            break
        if alive.float().mean() <= COMPACT_BELOW:
            keep = alive.nonzero()[:, 0]
            rows, token = rows[keep], token[keep]
            cache.select(keep)
        positions = (width + t - pad[rows])[:, None]
        seen = (torch.arange(width + t + 1)[None] >= pad[rows][:, None])[:, None]
        mask = attention_mask(seen) if padded else None
        logits = _next_logits(forward, token[:, None], positions, mask, cache)
    return _collect(out_ids, out_logprobs, ended, eos_id)


def _prefill_mask(pad: Int[Tensor, " rows"], width: int) -> Float[Tensor, "rows 1 width width"]:
    """Causal and not padding; padding sees itself, so that its softmax is defined."""
    column = torch.arange(width)
    causal = column[None, :] <= column[:, None]
    visible = column[None, :] >= pad[:, None]
    return attention_mask((causal[None] & visible[:, None]) | torch.eye(width, dtype=torch.bool)[None])


def _next_logits(
    forward: Forward, ids: Tensor, positions: Tensor, mask: Tensor | None, cache: KVCache
) -> Float[Tensor, "rows vocab"]:
    hidden = forward(ids, positions, mask, cache)[:, -1]
    cache.length += ids.shape[1]
    return (hidden @ output_head(forward.model).T).float()


def _draw(
    logits: Float[Tensor, "rows vocab"], uniform: Float[Tensor, " rows"], temperature: Float[Tensor, " rows"]
) -> tuple[Int[Tensor, " rows"], Float[Tensor, " rows"]]:
    """One token per row by inverting the cumulative distribution, and its log-probability."""
    greedy = temperature == 0
    log_probability = (logits / torch.where(greedy, 1.0, temperature)[:, None]).log_softmax(1)
    cumulative = log_probability.exp().cumsum(1)
    token = (cumulative <= uniform[:, None] * cumulative[:, -1:]).sum(1).clamp(max=logits.shape[1] - 1)
    if greedy.any():
        token = torch.where(greedy, logits.argmax(1), token)
    return token, log_probability.gather(1, token[:, None])[:, 0]


def _collect(ids: Tensor, logprobs: Tensor, ended: Tensor, eos_id: int) -> list[Sample]:
    samples = []
    for row_ids, row_logprobs, row_ended in zip(ids.tolist(), logprobs.tolist(), ended.tolist(), strict=True):
        length = row_ids.index(eos_id) + 1 if row_ended else len(row_ids)
        samples.append(Sample(row_ids[:length], row_logprobs[:length], truncated=not row_ended))
    return samples

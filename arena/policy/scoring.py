"""Score responses: log-probability, entropy and energy of every response token in one pass.

Logits are computed only where responses are, on a flat list of positions, and in chunks, so that nothing of size
[rows, tokens, vocabulary] is ever alive. Rows of a group start from the same prompt and turns come back to states
already seen: a prompt's own part of the pass is done once for all rows that share it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional
from torch.utils.checkpoint import checkpoint
from transformers import PreTrainedModel

from arena.policy.forward import Forward, attention_mask
from arena.policy.model import output_head, value_direction

#: Largest number of logits alive at once.
CHUNK_LOGITS = 1 << 23


@dataclass(frozen=True)
class Rows:
    """Prompt and response ids, one row per turn or per episode; a prompt that several rows share is kept once.

    `prompt` says which prompt a row has. Prompts and responses are padded on the right, where causal attention
    never looks. `mask` and everything scored is response-aligned: column t is the response's token t. In a row of
    several turns the observations between them are part of the response, outside the mask.
    """

    prompt_ids: Int[Tensor, "prompts length"]
    prompt_length: Int[Tensor, " prompts"]
    prompt: Int[Tensor, " rows"]
    response_ids: Int[Tensor, "rows tokens"]
    mask: Bool[Tensor, "rows tokens"]

    @staticmethod
    def of(prompts: Sequence[Sequence[int]], responses: Sequence[Sequence[int]], pad_id: int) -> Rows:
        """Rows of one turn each from lists of ids."""
        return Rows.of_conversations([[pair] for pair in zip(prompts, responses, strict=True)], pad_id)

    @staticmethod
    def of_conversations(
        conversations: Sequence[Sequence[tuple[Sequence[int], Sequence[int]]]], pad_id: int
    ) -> Rows:
        """One row per conversation: its turns, each what is shown and the response to it.

        Raises ValueError if nothing is shown: two responses would become one.
        """
        if not all(prompt for turns in conversations for prompt, _ in turns):
            raise ValueError("a turn shows nothing: its prompt has no tokens")
        distinct, prompt = distinct_rows([turns[0][0] for turns in conversations])
        responses, sampled = [], []
        for turns in conversations:
            parts = [part for pair in turns for part in pair][1:]
            responses.append([token for part in parts for token in part])
            sampled.append([1 - k % 2 for k, part in enumerate(parts) for _ in part])
        return Rows(
            *right_padded(distinct, pad_id),
            prompt=prompt,
            response_ids=right_padded(responses, pad_id)[0],
            mask=right_padded(sampled, 0)[0].bool(),
        )

    @cached_property
    def starts(self) -> Bool[Tensor, "rows tokens"]:
        """Where a turn's response begins: sampled, and the token before is not."""
        return self.mask & ~functional.pad(self.mask, (1, -1))

    @cached_property
    def ends(self) -> Bool[Tensor, "rows tokens"]:
        """The last token of each turn's response."""
        return self.mask & ~functional.pad(self.mask, (-1, 1))

    @cached_property
    def turn(self) -> Int[Tensor, "rows tokens"]:
        """Which turn each token belongs to, counted over all rows (observations: to the turn before)."""
        return (self.starts.flatten().cumsum(0) - 1).view(self.mask.shape)

    @cached_property
    def position(self) -> Int[Tensor, "rows tokens"]:
        """A sampled token's place in its turn's response."""
        column = torch.arange(self.mask.shape[1]).expand(self.mask.shape)
        return column - column[self.starts][self.turn]

    def __len__(self) -> int:
        return len(self.prompt)

    def select(self, index: Int[Tensor, " some"]) -> Rows:
        """Some rows, cut to the length they need, with the prompts they have."""
        mask = self.mask[index]
        width = int(mask.any(0).nonzero()[-1]) + 1
        kept, prompt = self.prompt[index].unique(return_inverse=True)
        length = self.prompt_length[kept]
        return Rows(
            self.prompt_ids[kept, : int(length.max())],
            length,
            prompt,
            self.response_ids[index, :width],
            mask[:, :width],
        )

    def turn_means(self, values: Float[Tensor, "rows tokens"]) -> Float[Tensor, " turns"]:
        """Each turn's mean over its sampled tokens, in float64."""
        turn = self.turn[self.mask]
        total = torch.zeros(int(self.starts.sum()), dtype=torch.float64)
        return total.index_add(0, turn, values[self.mask].double()) / torch.bincount(turn)

    def cut(self, tokens: int) -> Rows:
        """The same rows with at most the first `tokens` tokens of each response."""
        return replace(self, response_ids=self.response_ids[:, :tokens], mask=self.mask[:, :tokens])

    def batches(self, index: Int[Tensor, " some"], size: int) -> list[Int[Tensor, " part"]]:
        """`index` in parts of at most `size` rows, rows of one prompt together, so that its work is shared."""
        return list(index[self.prompt[index].argsort(stable=True)].split(size))

    def spread(self, flat: Float[Tensor, " n"]) -> Float[Tensor, "rows tokens"]:
        """Values of the response tokens, in row order, as [rows, tokens], 0 elsewhere."""
        return flat.new_zeros(self.mask.shape).masked_scatter(self.mask, flat)


def distinct_rows(rows: Sequence[Sequence[int]]) -> tuple[list[tuple[int, ...]], Int[Tensor, " rows"]]:
    """The different rows in order of appearance, and for each row which of them it is."""
    seen: dict[tuple[int, ...], int] = {}
    which = [seen.setdefault(tuple(row), len(seen)) for row in rows]
    return list(seen), torch.tensor(which)


def right_padded(
    rows: Sequence[Sequence[int]], pad_id: int
) -> tuple[Int[Tensor, "rows length"], Int[Tensor, " rows"]]:
    """Rows of ids as one tensor, and their lengths."""
    length = max(map(len, rows))
    return torch.tensor([[*r, *[pad_id] * (length - len(r))] for r in rows]), torch.tensor(
        [len(r) for r in rows]
    )


class _Prefix:
    """Keys and values of the prompts, which the responses then attend to, differentiably.

    Implements the one method of the transformers cache that attention layers call: the first pass, over prompts,
    stores; the second, over responses, puts each row's prompt before its own keys and values.
    """

    def __init__(self) -> None:
        self.length = 0
        self.stored: dict[int, tuple[Tensor, Tensor]] = {}
        self.prompt: Tensor | None = None

    def update(
        self, key: Tensor, value: Tensor, layer_idx: int, *args: object, **kwargs: object
    ) -> tuple[Tensor, Tensor]:
        if self.prompt is None:
            self.stored[layer_idx] = key, value
            return key, value
        keys, values = (stored.index_select(0, self.prompt) for stored in self.stored.pop(layer_idx))
        return torch.cat([keys, key], 2), torch.cat([values, value], 2)


@dataclass(frozen=True)
class Scores:
    """Per response token, all [rows, tokens], 0 elsewhere.

    `logprob` and `entropy` (nats) are of the sampling distribution, the logits divided by the temperature;
    `energy` is -logsumexp of the raw logits, `centred_energy` that of the logits minus their mean. `value`, where
    asked for: the shared values V and Q of each turn.
    """

    logprob: Float[Tensor, "rows tokens"]
    entropy: Float[Tensor, "rows tokens"]
    energy: Float[Tensor, "rows tokens"]
    centred_energy: Float[Tensor, "rows tokens"]
    value: Float[Tensor, "turns 2"] | None = None


def response_states(
    model: PreTrainedModel, rows: Rows, after: bool = False
) -> Float[Tensor, "rows states hidden"]:
    """Hidden states: column t predicts token t of the response; with `after`, one column more, so that the state
    after the last token is there too.

    Each prompt is run once, however many rows share it; then the responses.
    """
    prefix = _Prefix()
    forward = Forward(model)
    prompts = forward(rows.prompt_ids, torch.arange(rows.prompt_ids.shape[1])[None], None, prefix)
    last = prompts[torch.arange(len(prompts)), rows.prompt_length - 1]
    states = last.index_select(0, rows.prompt)[:, None]
    inputs = rows.response_ids if after else rows.response_ids[:, :-1]
    if inputs.shape[1]:
        prefix.prompt = rows.prompt
        length = rows.prompt_length[rows.prompt]
        positions = length[:, None] + torch.arange(inputs.shape[1])[None]
        mask = _response_mask(length, rows.prompt_ids.shape[1], inputs.shape[1])
        responses = forward(inputs, positions, mask, prefix)
        states = torch.cat([states, responses], 1)
    return states


def _response_mask(
    length: Int[Tensor, " rows"], width: int, tokens: int
) -> Float[Tensor, "masks 1 tokens all"]:
    """Added to attention scores: a response token sees its prompt, without padding, and the response up to itself.

    One row for all where prompts have the same length.
    """
    if bool((length == width).all()):
        length = length[:1]
    prompt = torch.arange(width)[None, None] < length[:, None, None]
    response = torch.ones(tokens, tokens, dtype=torch.bool).tril()[None]
    return attention_mask(torch.cat([prompt.expand(-1, tokens, -1), response.expand(len(length), -1, -1)], 2))


@dataclass(frozen=True)
class Responses:
    """What an update needs of the responses, differentiable: [rows, tokens], 0 elsewhere.

    `entropy`, and `value` (V before and Q after each turn's response, of the reserved logits) where asked for.
    """

    logprob: Float[Tensor, "rows tokens"]
    entropy: Float[Tensor, "rows tokens"] | None = None
    value: Float[Tensor, "turns 2"] | None = None


def response_logprob(model: PreTrainedModel, rows: Rows, temperature: float) -> Float[Tensor, "rows tokens"]:
    """Log-probabilities of the response tokens, differentiable."""
    return respond(model, rows, temperature).logprob


def respond(
    model: PreTrainedModel,
    rows: Rows,
    temperature: float,
    entropy: bool = False,
    value_tau: float | None = None,
) -> Responses:
    """Log-probabilities and, on request, entropies and shared values. Chunks are recomputed in the backward pass."""
    states = response_states(model, rows, after=value_tau is not None)
    hidden = states[:, : rows.mask.shape[1]][rows.mask]
    target = rows.response_ids[rows.mask]
    head = output_head(model)
    chunks = _chunks(len(hidden), head.shape[0])
    if len(chunks) == 1:
        parts = [_respond(hidden, head, target, temperature, entropy)]
    else:
        parts = [
            checkpoint(_respond, hidden[c], head, target[c], temperature, entropy, use_reentrant=False)
            for c in chunks
        ]
    logprob, entropies = (torch.cat(values) for values in zip(*parts, strict=True))
    return Responses(
        rows.spread(logprob),
        rows.spread(entropies) if entropy else None,
        None if value_tau is None else _values(model, rows, states, value_tau),
    )


def _respond(
    hidden: Float[Tensor, "n hidden"],
    head: Float[Tensor, "vocab hidden"],
    target: Int[Tensor, " n"],
    temperature: float,
    entropy: bool,
) -> tuple[Float[Tensor, " n"], Float[Tensor, " n"]]:
    logits = ((hidden / temperature) @ head.T).float()
    logprob = -functional.cross_entropy(logits, target, reduction="none")
    return logprob, torch.distributions.Categorical(logits=logits).entropy() if entropy else logprob


def _values(
    model: PreTrainedModel, rows: Rows, states: Float[Tensor, "rows states hidden"], tau: float
) -> Float[Tensor, "turns 2"]:
    """The reserved logits' difference over tau, at the last position before and after each turn's response."""
    pair = torch.stack([states[:, :-1][rows.starts], states[:, 1:][rows.ends]], 1)
    return pair @ value_direction(model) / tau


@torch.no_grad()
def score(
    model: PreTrainedModel, rows: Rows, temperature: float, micro_rows: int, value_tau: float | None = None
) -> Scores:
    """Log-probability, entropy and energies of every response token, in micro-batches of `micro_rows` rows."""
    tokens = [torch.zeros(rows.mask.shape) for _ in range(4)]
    values = None if value_tau is None else torch.zeros(int(rows.starts.sum()), 2)
    for index in rows.batches(torch.arange(len(rows)), micro_rows):
        part = rows.select(index)
        row, token = part.mask.nonzero(as_tuple=True)
        states = response_states(model, part, after=value_tau is not None)
        flat = _score_flat(model, part, states[:, : part.mask.shape[1]][part.mask], temperature)
        for target, source in zip(tokens, flat, strict=True):
            target[index[row], token] = source
        if values is not None and value_tau is not None:
            values[rows.turn[index][rows.starts[index]]] = _values(model, part, states, value_tau)
    return Scores(*tokens, value=values)


def _score_flat(
    model: PreTrainedModel, rows: Rows, hidden: Float[Tensor, "n hidden"], temperature: float
) -> tuple[Float[Tensor, " n"], ...]:
    target = rows.response_ids[rows.mask]
    head = output_head(model)
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
    log_probability = (raw / temperature).log_softmax(1)
    logprob = log_probability.gather(1, target[:, None])[:, 0]
    entropy = -(log_probability.exp() * log_probability).sum(1)
    return logprob, entropy, energy, centred_energy


def _chunks(count: int, vocabulary: int) -> list[slice]:
    size = max(1, CHUNK_LOGITS // vocabulary)
    return [slice(start, start + size) for start in range(0, max(count, 1), size)]

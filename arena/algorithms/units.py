"""Sequences as the unit of reduction: sums and means of token values over each sequence.

A sequence is one turn's response (ARLArena's reading) or a whole episode; `sequence_id` says which sequence
each token belongs to, so every method works on both.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


@dataclass(frozen=True)
class Units:
    """Which sequence each token belongs to. `index` is in [0, count); only `mask`ed tokens count."""

    index: Int[Tensor, "rows tokens"]
    mask: Bool[Tensor, "rows tokens"]
    count: int

    @staticmethod
    def of(sequence_id: Int[Tensor, "rows tokens"] | None, mask: Bool[Tensor, "rows tokens"]) -> Units:
        """Units from arbitrary integer ids; without ids every row is one sequence."""
        if sequence_id is None:
            rows, tokens = mask.shape
            return Units(torch.arange(rows, device=mask.device)[:, None].expand(rows, tokens), mask, rows)
        ids, index = torch.unique(sequence_id, return_inverse=True)
        return Units(index, mask, len(ids))

    def sum(self, values: Float[Tensor, "rows tokens"]) -> Float[Tensor, " units"]:
        """Sum of the masked values of each sequence."""
        masked = torch.where(self.mask, values, torch.zeros_like(values))
        return masked.new_zeros(self.count).index_add(0, self.index.reshape(-1), masked.reshape(-1))

    def mean(self, values: Float[Tensor, "rows tokens"]) -> Float[Tensor, " units"]:
        """Mean of the masked values of each sequence; 0 for a sequence without masked tokens."""
        return self.sum(values) / self.sum(torch.ones_like(values)).clamp(min=1)

    def spread(self, per_unit: Float[Tensor, " units"]) -> Float[Tensor, "rows tokens"]:
        """Each token's sequence value."""
        return per_unit[self.index]

"""The papers' claims as executable checks, each a test on recorded cells with an effect, an interval and a verdict.

`papers/` has a file per claim. Here is what they are made of: what a verdict takes in `base`, which cells count in
`cells`, the tests in `contrast`, `kl_share` and `energy_correlation`, the numbers that the papers print in `published`;
`page` writes docs/claims.md. Never imports torch.
"""

from __future__ import annotations

from arena.claims.base import Claim, Outcome
from arena.claims.cells import Pool, pool
from arena.claims.papers import CLAIMS

__all__ = ["CLAIMS", "Claim", "Outcome", "Pool", "pool"]

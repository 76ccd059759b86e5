"""The papers' claims as executable checks: one file per claim, each a test on recorded cells with an effect, an
interval and a verdict. What a verdict takes is in `base`; pages and tables are made elsewhere. Never imports torch."""

from __future__ import annotations

from arena.claims import (
    actfocus_alpha,
    actfocus_gains,
    action_energy,
    advantage_design,
    dynamic_gigpo,
    larger_model,
    loss_aggregation,
    negative_kl_share,
    recipe_parts,
    sampo_best,
    sequence_clipping,
    sequence_mask,
    single_rollout,
    staleness,
)
from arena.claims.base import Claim, Outcome
from arena.claims.cells import Pool, pool

#: By name, in the order of the table.
CLAIMS: dict[str, Claim] = {
    module.CLAIM.name: module.CLAIM
    for module in (
        sequence_clipping,
        sequence_mask,
        negative_kl_share,
        larger_model,
        sampo_best,
        dynamic_gigpo,
        advantage_design,
        loss_aggregation,
        staleness,
        recipe_parts,
        actfocus_gains,
        actfocus_alpha,
        action_energy,
        single_rollout,
    )
}

__all__ = ["CLAIMS", "Claim", "Outcome", "Pool", "pool"]

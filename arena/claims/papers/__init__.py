"""What the papers claim, one file per claim; here they are listed. How a claim is tested is left to `arena.claims`."""

from __future__ import annotations

from arena.claims.base import Claim
from arena.claims.papers import (
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

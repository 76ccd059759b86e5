"""Sequence masking rescues what tolerant clipping breaks."""

from arena.claims.base import Claim
from arena.claims.contrast import FINAL, Arm, Contrast
from arena.claims.papers.settings import ARLARENA, STRESS, STRESS_ENVS, TOLERANT
from arena.claims.published import number, spec

_VARIANTS = ("original", "sequence mask")

CLAIM = Claim(
    name="sequence-mask",
    statement="Masking negative-advantage sequences that the policy has left rescues CISPO and soft SAPO.",
    source=f"{ARLARENA}, Table 4",
    how="Final success under stress with the mask against without, for each of the two; both have to gain.",
    parts=tuple(
        Contrast(
            f"{algo}+seqmask ends above {algo}",
            STRESS,
            Arm((f"{algo}+seqmask",)),
            Arm((algo,)),
            STRESS_ENVS,
            FINAL,
        )
        for algo in TOLERANT
    ),
    published=tuple(
        number(
            f"{spec(method)} ALFWorld success, {variant}",
            "arlarena_table4_seqmask_alfworld",
            "success",
            unit="%",
            method=method,
            variant=variant,
        )
        for method in ("CISPO", "SAPO_SOFT")
        for variant in _VARIANTS
    ),
)

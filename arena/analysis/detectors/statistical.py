"""The statistical detectors, listed: those that earn their place by benchmarks/detectors.py, and those that do not."""

from __future__ import annotations

from types import ModuleType

from arena.analysis.detectors import (
    component_divergence,
    entropy_fall,
    entropy_rise,
    format_fall,
    gradient_spikes,
    kl_explosion,
    length_blow_up,
    length_collapse,
    negative_mass,
    out_of_band_high,
    out_of_band_low,
    reference_kl,
    repetition,
    resume,
    reward_spread_cliff,
    sampler_mismatch,
    staleness,
    zero_variance_groups,
)
from arena.analysis.detectors.base import Detector


def _listed(*modules: ModuleType) -> dict[str, Detector]:
    return {module.DETECTOR.name: module.DETECTOR for module in modules}


#: Name -> detector, those nearest to the cause first. The first two warn; the others but the last show late what broke.
STATISTICAL = _listed(
    reference_kl,
    kl_explosion,
    out_of_band_low,
    entropy_rise,
    reward_spread_cliff,
    zero_variance_groups,
    repetition,
    sampler_mismatch,
)

#: Kept so that they can be measured again, not among those that are run.
REJECTED = _listed(
    negative_mass,
    staleness,
    out_of_band_high,
    gradient_spikes,
    entropy_fall,
    format_fall,
    length_blow_up,
    length_collapse,
    component_divergence,
    resume,
)

"""Detectors of what goes wrong in a run, one per file; here they are listed."""

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
    nonfinite,
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

#: The statistical detectors that earn their place by benchmarks/detectors.py.
_STATISTICAL = (
    negative_mass,
    out_of_band_low,
    out_of_band_high,
    kl_explosion,
    reference_kl,
    gradient_spikes,
    entropy_rise,
    entropy_fall,
    format_fall,
    reward_spread_cliff,
    zero_variance_groups,
    length_blow_up,
    length_collapse,
    repetition,
    staleness,
    sampler_mismatch,
    component_divergence,
    resume,
)

#: Name -> detector: exact checks first.
DETECTORS: dict[str, Detector] = {
    module.DETECTOR.name: module.DETECTOR for module in (nonfinite, *_STATISTICAL)
}

#: Those that do not, kept so that their measurement can be made again.
REJECTED: dict[str, Detector] = {}

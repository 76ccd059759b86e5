"""Detectors of what goes wrong in a run, one per file; here they are listed."""

from arena.analysis.detectors import (
    advantage_bound,
    advantage_mean,
    all_truncated,
    duplicate_rollouts,
    eos_trained,
    eval_overlap,
    first_minibatch,
    group_ids,
    nonfinite,
    prompt_prefix,
    unsampled_weight,
    zero_gradient,
)
from arena.analysis.detectors.base import Detector
from arena.analysis.detectors.statistical import STATISTICAL

#: Name -> detector: exact checks, in the order of a step, then the statistical ones.
DETECTORS: dict[str, Detector] = {
    module.DETECTOR.name: module.DETECTOR
    for module in (
        eval_overlap,
        group_ids,
        prompt_prefix,
        duplicate_rollouts,
        all_truncated,
        advantage_bound,
        advantage_mean,
        unsampled_weight,
        eos_trained,
        first_minibatch,
        zero_gradient,
        nonfinite,
    )
}
DETECTORS |= STATISTICAL

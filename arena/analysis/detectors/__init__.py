"""Detectors of what goes wrong in a run, one per file; here they are listed."""

from arena.analysis.detectors import nonfinite
from arena.analysis.detectors.base import Detector
from arena.analysis.detectors.statistical import STATISTICAL

#: Name -> detector: exact checks first.
DETECTORS: dict[str, Detector] = {module.DETECTOR.name: module.DETECTOR for module in (nonfinite,)}
DETECTORS |= STATISTICAL

"""Policy-optimisation methods as compositions of pure tensor functions."""

from arena.algorithms.aggregation import Denominators, denominators
from arena.algorithms.catalog import CATALOG, Algorithm, get_algorithm
from arena.algorithms.clipping import Surrogate
from arena.algorithms.loss import LossInputs, LossOutput, kl_k3, kl_loss, policy_loss
from arena.algorithms.values import clipped_value_loss
from arena.records.schema import ROLES

__all__ = [
    "CATALOG",
    "ROLES",
    "Algorithm",
    "Denominators",
    "LossInputs",
    "LossOutput",
    "Surrogate",
    "clipped_value_loss",
    "denominators",
    "get_algorithm",
    "kl_k3",
    "kl_loss",
    "policy_loss",
]

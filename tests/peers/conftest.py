"""The peers as fixtures: imported when a test asks, so that no other test pays for them or runs beside them.

`make test` installs them (extra `peers`, then verl and TRL without their dependencies); elsewhere the tests are
skipped with the package that is missing. Once everything is there, an import that fails is an error.
"""

import importlib
import sys
from importlib.util import find_spec
from types import ModuleType

import pytest

MISSING = "compares with {}, which `make test` installs: {} is missing"


def require(peer: str, *packages: str) -> None:
    """Skip the test unless `peer` and the packages that its import needs are installed."""
    for name in (peer, *packages):
        if find_spec(name) is None:
            pytest.skip(MISSING.format(peer, name))


@pytest.fixture(scope="session")
def verl() -> ModuleType:
    """verl's `core_algos`, its own code from its own wheel.

    Importing any module of verl runs `verl/__init__.py`, which imports ray (70 MB, a cluster's scheduler) for a type
    annotation and for workers that no function of `core_algos` uses. So an empty module of that name stands in while
    verl is imported, and goes afterwards: other packages look whether ray is there.
    """
    require("verl", "codetiming", "omegaconf", "orjson", "tensordict")
    with pytest.MonkeyPatch.context() as patch:
        if find_spec("ray") is None:
            placeholder = ModuleType("ray")
            placeholder.ObjectRef = object
            patch.setitem(sys.modules, "ray", placeholder)
        return importlib.import_module("verl.trainer.ppo.core_algos")


@pytest.fixture(scope="session")
def trl() -> ModuleType:
    """TRL with its GRPO trainer imported."""
    require("trl", "accelerate", "datasets")
    module = importlib.import_module("trl")
    assert module.GRPOTrainer
    return module

"""What reads a recipe, plays an environment or reads records needs no torch: a second less, and a report without it."""

import pkgutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

#: Those of the table in docs/architecture.md that import no torch, each with all of its modules.
PACKAGES = (
    "arena.analysis",
    "arena.claims",
    "arena.envs",
    "arena.recipe",
    "arena.records",
    "arena.report",
    "arena.seeding",
    "arena.tiers",
)


def modules(name):
    paths = getattr(import_module(name), "__path__", [])
    return [name, *(module.name for module in pkgutil.walk_packages(paths, f"{name}."))]


@pytest.mark.parametrize("name", PACKAGES)
def test_no_module_imports_torch(name):
    code = f"import sys, {', '.join(modules(name))}; sys.exit('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_modules_of_packages_are_among_them():
    assert "arena.analysis.detectors.repetition" in modules("arena.analysis")
    assert "arena.envs.tir_math.sandbox" in modules("arena.envs")

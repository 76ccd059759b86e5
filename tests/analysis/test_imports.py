"""The analysis of records needs no torch."""

import pkgutil
import subprocess
import sys
from pathlib import Path

import arena.analysis

ROOT = Path(__file__).parents[2]


def test_no_module_of_analysis_imports_torch():
    names = [m.name for m in pkgutil.walk_packages(arena.analysis.__path__, "arena.analysis.")]
    assert "arena.analysis.statistics" in names
    code = f"import sys, {', '.join(names)}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0

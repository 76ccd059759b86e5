"""The page of the detectors says what the detectors say."""

from __future__ import annotations

import json
import re
from pathlib import Path

from arena.analysis.detectors import DETECTORS
from arena.analysis.detectors.base import Detector

PAGE = (Path(__file__).parents[3] / "docs" / "detectors.md").read_text()


def row(detector: Detector) -> str:
    needs = ", ".join(f"`{need}`" for need in detector.needs)
    cells = [f"`{detector.name}`", detector.title, detector.why, needs, detector.advice, detector.source]
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def test_the_table_has_every_check_in_the_order_of_the_registry():
    start = PAGE.index("## Exact checks")
    rows = [line for line in PAGE[start:].partition("\n## ")[0].splitlines() if line.startswith("| `")]
    assert rows == [row(d) for d in DETECTORS.values() if d.kind == "check"]


def test_the_curves_of_trl_are_judged(tmp_path, monkeypatch, capsys):
    """KL and entropy stand for 20 logged steps; then both run away."""
    rows = [
        {"step": step, "loss": 0.1, "kl": 0.01, "entropy": 1.0, "frac_reward_zero_std": 0.1, "reward": 0.5}
        for step in range(1, 41)
    ]
    for row in rows[20:]:
        row |= {"kl": 2.0 * (row["step"] - 20), "entropy": 4.0}
    history = [*rows, {"step": 40, "eval_loss": 0.2}, {"step": 40, "train_runtime": 3.0}]
    (tmp_path / "trainer_state.json").write_text(json.dumps({"log_history": history}))
    monkeypatch.chdir(tmp_path)
    (code,) = re.findall(r"```python\n(.*?trainer_state.*?)```", PAGE, re.DOTALL)
    exec(code, {})
    found = {line[11:33].strip(): line for line in capsys.readouterr().out.splitlines()}
    assert list(found) == list(DETECTORS)
    assert found["reference-kl"].startswith("critical")
    assert found["entropy-rise"].startswith(("warn", "critical"))
    assert found["zero-variance-groups"].startswith("ok")
    assert found["group-ids"].startswith("SKIPPED")

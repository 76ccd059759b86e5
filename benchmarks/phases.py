"""Where a cell's time goes, from the records of a run.

python benchmarks/phases.py runs/demo
"""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow.parquet as pq

PHASES = ("rollout", "scoring", "update", "record", "eval", "checkpoint")

if __name__ == "__main__":
    for path in sorted(Path(sys.argv[1]).glob("cells/*/*/seed-*/steps.parquet")):
        steps = pq.read_table(path).to_pandas()
        total = steps.seconds_step.sum() + steps.seconds_checkpoint.sum()
        shares = ", ".join(f"{p} {steps[f'seconds_{p}'].sum() / total:.0%}" for p in PHASES)
        env, algo, seed = path.parts[-4:-1]
        rate = (steps.tokens_sampled + steps.tokens_prompt).sum() / total / 1000
        print(
            f"{env} {algo} {seed}: {total:.0f} s, {rate:.1f} k tokens/s; {shares}; "
            f"environments {steps.seconds_env.sum() / total:.1%}"
        )

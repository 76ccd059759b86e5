"""What the report of a large run takes: seconds and memory of `arena report` on synthetic records.

    python benchmarks/report_scale.py [--rows 10000000 100000000] [--folder DIR] [--steps 100] [--seeds 3]

Two environments x three methods x the seeds, one token file per step, written by the writer of real records. Values
are slices of a pool of drawn numbers, one offset per column and file: files differ and take no drawing. Further seeds
have copies of the first one's token files. About 30 bytes a row below `--folder` (default: a temporary one), deleted as
soon as it was reported on.

Seconds and memory are those of `python -m arena report` in a process of its own, from start to exit: wall, processor
time (which does not grow with what else the machine does), and the largest resident set of that one process, which
starts no others.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from itertools import product
from pathlib import Path

import numpy as np
import pyarrow as pa

from arena.recipe import Recipe
from arena.records.files import JobStatus, write_json, write_status
from arena.records.layout import place
from arena.records.schema import ROLES, TABLES
from arena.records.writer import role_column, step_file, write_columns, write_rows
from arena.seeding import EVAL_SEED_START, stream_seed

ENVS, ALGOS = ("sokoban", "webshop"), ("grpo", "sampo", "cispo")
TOKENS, TURNS, GROUP_SIZE, MINIBATCHES = 40, 5, 8, 4
EVAL_EPISODES, EVALUATIONS = 128, 10
#: Numbers drawn once; longer than a step's rows, so that slices at other offsets differ.
POOL = 4_000_003


class Pool:
    """Drawn numbers of every kind, to be sliced."""

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.normal = rng.standard_normal(POOL, dtype=np.float32)
        self.positive = rng.standard_exponential(POOL, dtype=np.float32)

    def take(self, values: np.ndarray, size: int, *key: object) -> np.ndarray:
        """`size` numbers from an offset that belongs to `key`."""
        start = stream_seed("report-scale", *key) % (POOL - size)
        return values[start : start + size]


def tokens(pool: Pool, env: str, algo: str, step: int, steps: int, rows: int) -> dict[str, object]:
    """Columns of one step: sequences of `TOKENS` tokens, in mini-batches as they were trained."""
    row = np.arange(rows, dtype=np.int32)
    sequence = row // TOKENS
    sequences = int(sequence[-1]) + 1
    minibatch = (sequence * MINIBATCHES // sequences).astype(np.int32)
    # Shuffled by a stride that shares no factor with the number of sequences: episodes are in all mini-batches.
    stride = next(
        s for s in range(int(sequences * 0.618) or 1, 2 * sequences + 2) if np.gcd(s, sequences) == 1
    )
    shuffled = sequence.astype(np.int64) * stride % sequences
    episode, turn, position = shuffled // TURNS, shuffled % TURNS, row % TOKENS
    spread = 0.03 * np.exp(4 * max(0.0, step / steps - 0.4)) if algo == "cispo" else 0.03

    def drawn(name: str, values: np.ndarray) -> np.ndarray:
        return pool.take(values, rows, env, algo, step, name)

    log_ratio = np.where(minibatch == 0, np.float32(0), drawn("ratio", pool.normal) * np.float32(spread))
    old, kl = -0.3 * drawn("old", pool.positive), 0.01 * drawn("kl", pool.positive)
    advantage = drawn("advantage", pool.normal)[: int(episode.max()) + 1][episode]
    role = np.where(position < 30, ROLES.index("think"), ROLES.index("action"))
    none = np.zeros(rows, bool)
    return {
        "step": np.full(rows, step, np.int32),
        "epoch": np.zeros(rows, np.int32),
        "minibatch": minibatch,
        "group_id": episode // GROUP_SIZE,
        "episode_id": episode,
        "turn": turn,
        "position": position,
        "token_id": (100 * drawn("id", pool.positive)).astype(np.int32),
        "role": role_column(role),
        "tag": none,
        "sampler_logprob": old,
        "old_logprob": old,
        "logprob": old + log_ratio,
        "ref_logprob": old + log_ratio - 0.1 * drawn("ref", pool.normal),
        "log_ratio": log_ratio,
        "ratio_applied": np.exp(log_ratio),
        "clipped_low": none,
        "clipped_high": none,
        "masked": none,
        "advantage": advantage,
        "advantage_sign": np.sign(advantage).astype(np.int8),
        "entropy": 0.3 * drawn("entropy", pool.positive),
        "energy": drawn("energy", pool.normal) - 10,
        "weight": np.ones(rows, np.float32),
        "kl_ref": kl,
    }


def write_cell(run: Path, env: str, algo: str, seed: int, steps: int, rows: int, pool: Pool) -> None:
    """One cell with `rows` token rows a step; its other tables as small as the report needs them."""
    folder = run / place(env, algo, seed)
    recipe = Recipe.model_validate(
        {"tier": "cpu", "algorithm": algo, "seed": seed, "steps": steps, "env": {"name": env}}
    )
    write_json(folder / "recipe.json", {**recipe.model_dump(mode="json"), "hash": recipe.hash})
    rng = np.random.default_rng(stream_seed("report-scale", env, algo, seed))
    if seed:
        shutil.copytree(run / place(env, algo, 0) / "tokens", folder / "tokens")
    else:
        for step in range(1, steps + 1):
            columns = tokens(pool, env, algo, step, steps, rows)
            write_columns(step_file(folder, "tokens", step), "tokens", columns)
    level = 0.3 + 0.3 * np.arange(steps + 1) / steps
    if algo == "cispo":
        level[steps // 2 :] = 0.05
    measured = {c.name for c in TABLES["steps"].columns if c.type == pa.float64()}
    write_rows(
        folder / "steps.parquet",
        "steps",
        [
            {name: rng.random() for name in measured}
            | {"step": step, "updates": MINIBATCHES, "skipped_updates": 0, "nonfinite": 0}
            | {"success": level[step], "tokens_sampled_total": step * rows}
            for step in range(1, steps + 1)
        ],
    )
    write_rows(
        folder / "evals.parquet",
        "evals",
        [
            {
                "step": step,
                "temperature": temperature,
                "episode": episode,
                "task_seed": EVAL_SEED_START + episode,
                "success": bool(rng.random() < level[step]),
            }
            for step in np.linspace(0, steps, EVALUATIONS + 1).astype(int).tolist()
            for temperature in (0.5, 1.0)
            for episode in range(EVAL_EPISODES)
        ],
    )
    write_status(folder, JobStatus("done", recipe.hash, steps, steps, float(level[-1])))


def write_run(run: Path, rows: int, steps: int, seeds: int) -> int:
    """Write about `rows` token rows; returns how many."""
    pool, cells = Pool(0), list(product(ENVS, ALGOS, range(seeds)))
    each = max(TOKENS, round(rows / len(cells) / steps))
    for env, algo, seed in cells:
        write_cell(run, env, algo, seed, steps, each, pool)
    write_json(run / "manifest.json", {"command": "benchmarks/report_scale.py"})
    return each * steps * len(cells)


def measure(run: Path, out: Path) -> tuple[float, float, float]:
    """Wall seconds, processor seconds and peak memory in GiB of `arena report`."""
    began = time.perf_counter()
    process = subprocess.Popen([sys.executable, "-m", "arena", "report", str(run), "--out", str(out)])
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - began
    if status:
        raise SystemExit(f"arena report ended with status {status}.")
    return seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024 / 2**30


def main() -> None:
    """A row of the table in benchmarks/README.md per number of rows."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[10_000_000, 100_000_000])
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--seeds", type=int, default=3)
    given = parser.parse_args()
    print(
        "| token rows | on disk, GB | seconds | processor seconds | peak memory, GiB | processor, times the first |"
    )
    print("|---|---|---|---|---|---|")
    first = None
    for wanted in given.rows:
        if given.folder:
            Path(given.folder).mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(dir=given.folder))
        try:
            rows = write_run(folder / "run", wanted, given.steps, given.seeds)
            size = sum(f.stat().st_size for f in folder.rglob("*.parquet"))
            seconds, processor, memory = measure(folder / "run", folder / "out")
        finally:
            shutil.rmtree(folder)
        first = first or processor
        cells = (
            f"{rows:,}",
            f"{size / 1e9:.2f}",
            f"{seconds:.0f}",
            f"{processor:.1f}",
            f"{memory:.2f}",
            f"{processor / first:.1f}",
        )
        print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()

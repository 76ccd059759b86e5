"""What an update costs by method, relative to GRPO on the same episodes: seconds and peak memory; and SAPO-SR beside
`ppo-turn` on a larger model, where a critic weighs something.

    python benchmarks/updates.py            # the CPU tier's model, every method
    python benchmarks/updates.py --large    # 135 million parameters, random weights: sapo-sr against ppo-turn

One update is scoring by policy, reference and critic, and one epoch of mini-batches. Every method is measured in a
process of its own, methods in turn, three rounds; memory is the process's largest resident size during the update, less
that before it (Linux).
"""

from __future__ import annotations

import os

os.environ["OMP_NUM_THREADS"] = "1"

import argparse
import ctypes
import gc
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch

from arena.algorithms.catalog import CATALOG, algorithm_of
from arena.policy.model import build_model, frozen_copy, load_policy
from arena.policy.tokenizer import TextCodec
from arena.recipe import Recipe, parse_overrides, resolve
from arena.training.batch import build_batch
from arena.training.bc import clone
from arena.training.cell import generate
from arena.training.rollout import Roller
from arena.training.update import optimise
from arena.training.values import CriticModel

ROUNDS = 3
#: 136 million weights, all but the tier's few words in the layers.
LARGE = [
    "model.hidden_size=768",
    "model.num_layers=18",
    "model.num_heads=12",
    "model.num_kv_heads=12",
    "model.intermediate_size=2240",
    "rollout.groups=1",
    "env.max_turns=3",
    "optim.micro_rows=8",
]


def recipe_of(method: str, large: bool) -> Recipe:
    """The CPU tier's Sokoban cell, with a start that is quickly made."""
    small = ["bc.steps=60", "bc.episodes=200", "eval.episodes=1"]
    return resolve("cpu", "sokoban", method, 0, parse_overrides(small + (LARGE if large else [])))


def resident(field: str) -> float:
    """Megabytes of a field of this process's status: VmRSS now, VmHWM at most since `forget_peak`."""
    line = next(x for x in Path("/proc/self/status").read_text().splitlines() if x.startswith(f"{field}:"))
    return int(line.split()[1]) / 1024


def forget_peak() -> None:
    """Let the largest resident size be that of now, after giving back what sampling left unused."""
    gc.collect()
    ctypes.CDLL("libc.so.6").malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")


def measure(method: str, large: bool, start: Path) -> dict[str, float]:
    """Processor seconds and megabytes of one update in this process, which has one thread."""
    torch.set_num_threads(1)
    recipe = recipe_of(method, large)
    algorithm = algorithm_of(recipe)
    model, tokenizer = load_policy(start / "model")
    codec = TextCodec(tokenizer)
    roller = Roller(recipe.env, recipe.rollout, codec)
    if large:  # random weights: what they say does not matter, how much there is does
        sampler, model = model, build_model(recipe.model, tokenizer, 0).eval()
    else:
        sampler = model
    groups = generate(1, algorithm, recipe, roller, sampler)
    reference = frozen_copy(model)
    critic = CriticModel.of(algorithm, model, recipe.optim)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    forget_peak()
    before = resident("VmRSS")
    started = time.process_time()
    batch = build_batch(
        groups, model, reference, algorithm, recipe, codec.pad_id, roller.largest_return, critic
    )
    optimise(model, optimizer, batch, algorithm, recipe, 1, critic)
    seconds = time.process_time() - started
    peak = resident("VmHWM")
    tokens = int(batch.rows.mask.sum())
    weights = sum(p.numel() for p in model.parameters())
    return {
        "seconds": seconds / tokens * 1e4,
        "memory": peak - before,
        "resident": peak,
        "tokens": tokens,
        "weights": weights,
    }


def main() -> None:
    """Print a row per method: medians relative to the first."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--one", nargs=2, metavar=("METHOD", "START"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(options.one[0], options.large, Path(options.one[1]))))
        return
    methods = ["ppo-turn", "sapo-sr"] if options.large else list(CATALOG)
    found: dict[str, list[dict[str, float]]] = {method: [] for method in methods}
    with tempfile.TemporaryDirectory() as folder:
        start = Path(folder)
        clone(recipe_of("grpo", large=False), start, lambda *_: None)
        for _ in range(ROUNDS):
            for method, values in found.items():
                command = [sys.executable, __file__, *(["--large"] if options.large else [])]
                run = subprocess.run([*command, "--one", method, folder], capture_output=True, text=True)
                if run.returncode:
                    sys.exit(run.stderr)
                values.append(json.loads(run.stdout.splitlines()[-1]))
                print(method, run.stdout.splitlines()[-1], file=sys.stderr, flush=True)
    first = found[methods[0]]
    print(
        f"{first[0]['weights'] / 1e6:.1f} million weights; relative to {methods[0]}, median of {ROUNDS} rounds"
    )
    print(
        "| method | seconds per 10k tokens | ratio (min, max) | MB of the update | ratio | resident ratio |"
    )
    print("|---|---|---|---|---|---|")
    for method, values in found.items():
        ratios = [a["seconds"] / b["seconds"] for a, b in zip(values, first, strict=True)]
        memory, resident = (
            statistics.median(a[name] / b[name] for a, b in zip(values, first, strict=True))
            for name in ("memory", "resident")
        )
        print(
            f"| {method} | {statistics.median(v['seconds'] for v in values):.2f} | {statistics.median(ratios):.2f} "
            f"({min(ratios):.2f}, {max(ratios):.2f}) | {statistics.median(v['memory'] for v in values):.0f} "
            f"| {memory:.2f} | {resident:.2f} |"
        )


if __name__ == "__main__":
    main()

"""Scoring and loss beside a plain log_softmax: time, peak memory, agreement; and the loss beside verl's, if installed.

    python benchmarks/scoring.py [--rows 8] [--tokens 2048] [--vocabulary 32000] [--hidden 64]

Both sides go from the same hidden states to log-probabilities, entropies and a policy loss with its gradient. The plain
side makes all logits at once (64 x 2,048 x 32,000 in float32 are 17 GB, and a backward pass holds three such tensors:
hence 8 rows here; ours alone runs at 64). Each side runs in a process of its own, in turn, three rounds.
"""

from __future__ import annotations

import os

os.environ["OMP_NUM_THREADS"] = "1"

import argparse
import importlib
import json
import resource
import statistics
import subprocess
import sys
import time
from importlib.util import find_spec
from types import ModuleType

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from arena.algorithms import LossInputs, get_algorithm, policy_loss
from arena.policy import scoring

ROUNDS = 3


def chunked(hidden: Tensor, head: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Arena's way: log-probabilities in chunks, recomputed in the backward pass; entropies without a gradient."""
    chunks = scoring._chunks(len(hidden), len(head))
    with torch.no_grad():
        entropy = torch.cat([scoring._score_chunk(hidden[c], head, target[c], 1.0)[1] for c in chunks])
    parts = [
        checkpoint(scoring._respond, hidden[c], head, target[c], 1.0, False, use_reentrant=False)[0]
        for c in chunks
    ]
    return torch.cat(parts), entropy


def plain(hidden: Tensor, head: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """All logits at once."""
    log_probability = (hidden @ head.T).log_softmax(1)
    with torch.no_grad():
        entropy = -(log_probability.exp() * log_probability).sum(1)
    return log_probability.gather(1, target[:, None])[:, 0], entropy


def measure(side: str, rows: int, tokens: int, vocabulary: int, width: int) -> dict[str, float]:
    """Seconds, megabytes and results of one side in this process."""
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn(rows * tokens, width, generator=generator).requires_grad_()
    head = (torch.randn(vocabulary, width, generator=generator) / width**0.5).requires_grad_()
    target = torch.randint(vocabulary, (rows * tokens,), generator=generator)
    advantage = torch.randn(rows, 1, generator=generator).expand(rows, tokens)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started = time.perf_counter()
    logprob, entropy = (chunked if side == "arena" else plain)(hidden, head, target)
    logprob = logprob.view(rows, tokens)
    old = logprob.detach() + 0.01
    mask = torch.ones(rows, tokens, dtype=torch.bool)
    loss = policy_loss(LossInputs(logprob, old, advantage, mask), get_algorithm("grpo")).loss
    loss.backward()
    seconds = time.perf_counter() - started
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert head.grad is not None
    return {
        "seconds": seconds,
        "memory": (after - before) / 1024,
        "loss": loss.item(),
        "entropy": entropy.mean().item(),
        "gradient": head.grad.norm().item(),
    }


def beside_verl(rows: int, tokens: int) -> str:
    """The policy loss alone, forward and backward on given log-probabilities, beside verl's."""
    if find_spec("verl") is None:
        return "verl is not installed (`make test` does): its losses were not measured"
    sys.modules.setdefault("ray", ModuleType("ray")).ObjectRef = object  # only named in annotations
    verl = importlib.import_module("verl.trainer.ppo.core_algos")
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(0)
    old = -torch.rand(rows, tokens, generator=generator)
    advantage = torch.randn(rows, 1, generator=generator).expand(rows, tokens).contiguous()
    length = torch.randint(tokens // 2, tokens + 1, (rows, 1), generator=generator)
    mask = torch.arange(tokens) < length
    lines = []
    for ours, theirs, mode in (
        ("grpo", "vanilla", "token-mean"),
        ("gspo", "gspo", "seq-mean-token-mean"),
        ("cispo", "cispo", "token-mean"),
    ):
        config = verl.ActorConfig(strategy="fsdp", rollout_n=1, use_dynamic_bsz=True)
        algorithm, rule = get_algorithm(ours), verl.get_policy_loss_fn(theirs)
        seconds: dict[str, list[float]] = {"arena": [], "verl": []}
        for _ in range(20):
            for side, values in seconds.items():
                new = (old + 0.01 * torch.randn(rows, tokens, generator=generator)).requires_grad_()
                started = time.perf_counter()
                if side == "arena":
                    policy_loss(LossInputs(new, old, advantage, mask), algorithm).loss.backward()
                else:
                    rule(
                        old_log_prob=old,
                        log_prob=new,
                        advantages=advantage,
                        response_mask=mask.float(),
                        loss_agg_mode=mode,
                        config=config,
                        rollout_is_weights=None,
                    )[0].backward()
                values.append(time.perf_counter() - started)
        middle = {side: statistics.median(values[5:]) * 1e3 for side, values in seconds.items()}
        lines.append(
            f"{ours}: arena {middle['arena']:.1f} ms, verl {middle['verl']:.1f} ms, "
            f"ratio {middle['arena'] / middle['verl']:.2f}"
        )
    return f"policy loss on {rows} x {tokens}\n" + "\n".join(lines)


def main() -> None:
    """Print both sides, their ratio and how far results are apart."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=2048)
    parser.add_argument("--vocabulary", type=int, default=32_000)
    parser.add_argument("--hidden", type=int, default=64)
    parser.add_argument("--side", choices=["arena", "plain"], help="measure one side alone")
    options = parser.parse_args()
    shape = [options.rows, options.tokens, options.vocabulary, options.hidden]
    if options.side:
        print(json.dumps(measure(options.side, *shape)))
        return
    found: dict[str, list[dict[str, float]]] = {"arena": [], "plain": []}
    for _ in range(ROUNDS):
        for side, values in found.items():
            run = subprocess.run(
                [sys.executable, __file__, *sys.argv[1:], "--side", side], capture_output=True, text=True
            )
            if run.returncode:
                sys.exit(run.stderr)
            values.append(json.loads(run.stdout))
    ours, theirs = found["arena"], found["plain"]
    print(
        f"{options.rows} x {options.tokens} tokens, vocabulary {options.vocabulary}, hidden {options.hidden}"
    )
    for name in ("seconds", "memory"):
        ratios = [a[name] / b[name] for a, b in zip(ours, theirs, strict=True)]
        middle = [statistics.median(v[name] for v in values) for values in (ours, theirs)]
        print(
            f"{name}: arena {middle[0]:.1f}, plain {middle[1]:.1f}, ratio {statistics.median(ratios):.2f} "
            f"({min(ratios):.2f}, {max(ratios):.2f})"
        )
    for name in ("loss", "entropy", "gradient"):
        print(f"{name}: {ours[0][name]:.8f} and {theirs[0][name]:.8f}")
    print(beside_verl(64, 2048))


if __name__ == "__main__":
    main()

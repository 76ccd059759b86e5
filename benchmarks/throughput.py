"""Tokens per second end to end, beside TRL's GRPOTrainer: same model, prompts, response length, group size,
mini-batches, KL term and threads; both sides in one run, alternating.

    pip install ".[bench]"
    python benchmarks/throughput.py

A step of either side: sample 512 responses of 32 tokens (64 prompts x 8), a pass of the reference and one of the old
policy, four mini-batches of GRPO with KL 0.01. Arena also writes its full records. Tokens are prompt and response.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

THREADS = "1"
PROMPT_WORDS, RESPONSE, PROMPTS, GROUP = 19, 32, 64, 8
TOKENS = (PROMPT_WORDS + RESPONSE) * PROMPTS * GROUP


def prompts() -> list[str]:
    """Distinct prompts of PROMPT_WORDS tokens each."""
    import random

    rng = random.Random(0)
    return [
        " ".join(
            rng.choice(["player", "box", "target", "north", "south", "wall"]) for _ in range(PROMPT_WORDS)
        )
        for _ in range(PROMPTS)
    ]


def make_model(directory: Path, hidden: int, layers: int) -> None:
    """A random Qwen3 checkpoint with the CPU tier's tokenizer."""
    from arena.policy.model import build_model, save_policy
    from arena.policy.tokenizer import build_tokenizer
    from arena.recipe import ModelConfig
    from arena.training.bc import shared_words

    tokenizer = build_tokenizer(shared_words())
    save_policy(
        directory,
        build_model(
            ModelConfig(hidden_size=hidden, num_layers=layers, intermediate_size=2 * hidden), tokenizer, 0
        ),
        tokenizer,
    )


def run_arena(model_dir: Path, steps: int) -> float:
    """Seconds per step, the first left out."""
    import torch

    from arena import envs
    from arena.algorithms import get_algorithm
    from arena.policy.model import frozen_copy, load_policy
    from arena.policy.tokenizer import TextCodec
    from arena.recipe import parse_overrides, resolve
    from arena.training.batch import build_batch
    from arena.training.cell import generate
    from arena.training.recording import step_metrics, write_step_tables
    from arena.training.rollout import Roller
    from arena.training.update import optimise

    torch.set_num_threads(int(THREADS))
    envs.ENVS["one_turn"] = "throughput:OneTurn"
    sizes = [
        f"rollout.groups={PROMPTS}",
        f"rollout.group_size={GROUP}",
        f"rollout.max_response_tokens={RESPONSE}",
    ]
    recipe = resolve(
        "cpu",
        "one_turn",
        "grpo",
        0,
        parse_overrides(
            [*sizes, "env.max_turns=1", "optim.epochs=1", "optim.minibatches=4", "env.options={}"]
        ),
    )
    algorithm = get_algorithm("grpo")
    model, tokenizer = load_policy(model_dir)
    codec = TextCodec(tokenizer)
    codec.eos_id = -1  # every response has the same length on both sides
    reference, roller = frozen_copy(model), Roller(recipe.env, recipe.rollout, codec)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    with tempfile.TemporaryDirectory() as records:
        for step in range(1, steps + 2):
            if step == 2:
                start = time.perf_counter()
            groups = generate(step, algorithm, recipe, roller, model)
            batch = build_batch(groups, model, reference, algorithm, recipe, codec.pad_id, 1.0)
            result = optimise(model, optimizer, batch, algorithm, recipe, step)
            step_metrics(groups, batch, result)
            write_step_tables(Path(records), step, groups, batch, result, recipe)
    return (time.perf_counter() - start) / steps


def run_trl(model_dir: Path, steps: int) -> float:
    """Seconds per generation of 512 rows with its four optimiser steps, the first left out."""
    import torch
    from datasets import Dataset
    from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
    from trl import GRPOConfig, GRPOTrainer

    torch.set_num_threads(int(THREADS))
    marks: list[float] = []

    class Marks(TrainerCallback):
        def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            if state.global_step % 4 == 0:
                marks.append(time.perf_counter())

    with tempfile.TemporaryDirectory() as out:
        config = GRPOConfig(
            output_dir=out,
            use_cpu=True,
            bf16=False,
            per_device_train_batch_size=PROMPTS * GROUP // 4,
            steps_per_generation=4,
            num_generations=GROUP,
            max_completion_length=RESPONSE,
            generation_kwargs={"min_new_tokens": RESPONSE},
            beta=0.01,
            temperature=1.0,
            num_iterations=1,
            learning_rate=1e-4,
            max_steps=4 * (steps + 1),
            gradient_checkpointing=False,
            optim="adamw_torch_fused",
            logging_strategy="no",
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
        )
        trainer = GRPOTrainer(
            model=AutoModelForCausalLM.from_pretrained(model_dir, dtype=torch.float32),
            processing_class=AutoTokenizer.from_pretrained(model_dir),
            reward_funcs=lambda completions, **_: [float(len(set(c)) % 7) for c in completions],
            args=config,
            train_dataset=Dataset.from_dict({"prompt": prompts() * (steps + 2)}),
            callbacks=[Marks()],
        )
        trainer.train()
    return (marks[-1] - marks[0]) / steps


def main() -> None:
    """Alternate the sides and print tokens per second and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--side", choices=["arena", "trl"])
    parser.add_argument("--model", type=Path)
    args = parser.parse_args()
    if args.side:
        run = run_arena if args.side == "arena" else run_trl
        print(json.dumps({"seconds": run(args.model, args.steps)}))
        return
    environment = {**os.environ, "OMP_NUM_THREADS": THREADS, "HF_HUB_OFFLINE": "1"}
    for hidden, layers in ((64, 2), (128, 4)):
        with tempfile.TemporaryDirectory() as directory:
            make_model(Path(directory), hidden, layers)
            seconds: dict[str, list[float]] = {"arena": [], "trl": []}
            for _ in range(args.rounds):
                for side, values in seconds.items():
                    command = [
                        sys.executable,
                        __file__,
                        "--side",
                        side,
                        "--model",
                        directory,
                        "--steps",
                        str(args.steps),
                    ]
                    output = subprocess.run(
                        command, env=environment, check=True, capture_output=True, text=True
                    ).stdout
                    values.append(json.loads(output.strip().splitlines()[-1])["seconds"])
        ratios = [t / a for a, t in zip(seconds["arena"], seconds["trl"], strict=True)]
        rate = {side: TOKENS / statistics.median(values) / 1000 for side, values in seconds.items()}
        print(
            f"d{hidden} L{layers}: Arena {rate['arena']:.1f} k tokens/s, TRL {rate['trl']:.1f} k tokens/s, "
            f"ratio median {statistics.median(ratios):.2f} (min {min(ratios):.2f}, max {max(ratios):.2f})"
        )


def __getattr__(name: str) -> Any:
    """`OneTurn`, made on demand so that the TRL side never imports Arena's environments."""
    if name != "OneTurn":
        raise AttributeError(name)
    from arena.envs.base import TextEnv

    texts = prompts()

    class OneTurn(TextEnv):
        """A prompt in, any response out, a reward that varies."""

        name = "one_turn"
        instruction = ""

        def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[str, dict]:
            self.text = texts[(seed or 0) % len(texts)]
            return self.text, self._info()

        def step(self, action: str) -> tuple[str, float, bool, bool, dict]:
            self.count = getattr(self, "count", 0) + 1
            return self.text, float((id(self) >> 5) % 7), True, False, self._info()

        def _info(self) -> dict:
            return {"success": False, "admissible": True, "admissible_actions": (), "anchor": self.text}

        def expert_action(self) -> str:
            return ""

        def thought(self) -> str:
            return ""

        def admissible_actions(self) -> tuple[str, ...]:
            return ()

    return OneTurn


if __name__ == "__main__":
    main()

"""Behaviour cloning: the shared start of every method, from the successful episodes of a noisy expert."""

from __future__ import annotations

import math
import shutil
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path

import numpy as np
import torch
from transformers import PreTrainedModel

from arena.envs import ENVS, env_class, make_env
from arena.envs.protocol import format_response
from arena.policy.model import build_model, save_policy
from arena.policy.scoring import Rows, response_logprob
from arena.policy.tokenizer import TextCodec, build_tokenizer
from arena.recipe import Recipe
from arena.records.files import JobStatus, read_status, write_json, write_status
from arena.records.writer import write_rows
from arena.seeding import stream_seed, train_task_seed
from arena.training import Report
from arena.training.evaluation import evaluate, success_rate
from arena.training.rollout import Roller, shown

#: AdamW's betas for cloning: over a few hundred steps a second moment of 0.999 is still warming up.
BETAS = (0.9, 0.98)


@dataclass(frozen=True)
class Demonstration:
    """One cloned turn."""

    episode: int
    turn: int
    task_seed: int
    prompt: str
    response: str


#: Reports while demonstrations are collected: enough for a bar.
_REPORTS = 100


def demonstrate(recipe: Recipe, progress: Report) -> tuple[list[Demonstration], float]:
    """Turns of the expert's successful episodes, and the expert's success rate.

    Each action is replaced by a random admissible one with probability `bc.expert_noise`; what was done is what
    is cloned.
    """
    env = make_env(recipe.env.model_copy(update={"options": {**recipe.env.options, **recipe.bc.options}}))
    name, seed = recipe.env.name, recipe.seed
    kept: list[Demonstration] = []
    successes = 0
    episodes = recipe.bc.episodes
    for episode in range(episodes):
        if episode % math.ceil(episodes / _REPORTS) == 0:
            progress(episode, episodes, None, "demonstrations")
        task_seed = train_task_seed("bc", name, seed, episode)
        rng = np.random.default_rng(stream_seed("expert-noise", name, seed, episode))
        observation, info = env.reset(
            seed=task_seed, options=env.dynamics_options(stream_seed("bc-dynamics", name, seed, episode))
        )
        turns: list[Demonstration] = []
        history: list[tuple[str, str]] = []
        done = False
        while not done:
            noisy = rng.random() < recipe.bc.expert_noise
            options = env.admissible_actions()
            action = options[rng.integers(len(options))] if noisy else env.expert_action()
            prompt = shown(env, history, observation, recipe.env.history, recipe.rollout.layout)
            response = format_response(env.thought(), action)
            turns.append(Demonstration(episode, len(turns), task_seed, prompt, response))
            history.append((observation, action))
            observation, _, terminated, truncated, info = env.step(action)
            done = terminated or truncated
        if info["success"]:
            successes += 1
            kept += turns
    return kept, successes / episodes


def shared_words(spec: str = "") -> list[str]:
    """Every word of every built-in environment, one tokenizer for the whole tier; and of the user's own, if `spec`
    names one."""
    specs = [*ENVS, spec] if spec else ENVS
    return sorted({word for each in specs for word in env_class(each).vocabulary})


def clone(recipe: Recipe, directory: Path, progress: Report) -> None:
    """Make the BC start in `directory`: model/, demonstrations.parquet, evals.parquet, bc.json.

    Does nothing if it is already there. A start is made in one go: one that was interrupted is made anew.
    """
    status = read_status(directory)
    if status and status.state == "done" and status.hash == recipe.start_hash:
        return
    if directory.exists():
        shutil.rmtree(directory)
    steps = recipe.bc.steps
    write_status(directory, JobStatus("running", recipe.start_hash, 0, steps))
    demonstrations, expert_success = demonstrate(recipe, progress)
    codec = TextCodec(build_tokenizer(shared_words(recipe.env.spec)))
    model = build_model(recipe.model, codec.tokenizer, stream_seed("init", recipe.env.name, recipe.seed))
    metrics = _fit(model, codec, demonstrations, recipe, progress)
    model.eval()
    roller = Roller(recipe.env, recipe.rollout, codec)
    progress(steps, steps, None, "evaluation")
    evals = evaluate(model, roller, recipe, step=0)
    save_policy(directory / "model", model, codec.tokenizer)
    write_rows(directory / "evals.parquet", "evals", evals)
    write_rows(
        directory / "demonstrations.parquet", "demonstrations", [asdict(turn) for turn in demonstrations]
    )
    success = success_rate(evals, recipe.eval.temperature)
    bc = {
        "episodes": recipe.bc.episodes,
        "expert_success": expert_success,
        "demonstrations": len(demonstrations),
        "parameters": sum(p.numel() for p in model.parameters()),
        "vocabulary": len(codec.tokenizer),
        **metrics,
        "success": {str(t): success_rate(evals, t) for t in sorted({row["temperature"] for row in evals})},
    }
    write_json(directory / "bc.json", bc)
    write_status(directory, JobStatus("done", recipe.start_hash, steps, steps, success))
    progress(steps, steps, success)


def _fit(
    model: PreTrainedModel,
    codec: TextCodec,
    demonstrations: list[Demonstration],
    recipe: Recipe,
    progress: Report,
) -> dict[str, float]:
    """Cross-entropy on response tokens, cosine learning rate from `learning_rate` to a tenth of it."""
    if not demonstrations:
        raise ValueError("the expert had no successful episode: lower bc.expert_noise or raise env.max_turns")
    bc = recipe.bc
    pairs = [(codec.encode(d.prompt), [*codec.encode(d.response), codec.eos_id]) for d in demonstrations]
    conversations = [[pair] for pair in pairs]
    if recipe.rollout.layout == "trajectory":
        turns = zip(demonstrations, pairs, strict=True)
        conversations = [
            [pair for _, pair in episode] for _, episode in groupby(turns, key=lambda turn: turn[0].episode)
        ]
    longest = max(len(response) for _, response in pairs)
    if longest > recipe.rollout.max_response_tokens:
        raise ValueError(
            f"the expert's longest response has {longest} tokens: rollout.max_response_tokens is "
            f"{recipe.rollout.max_response_tokens}"
        )
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=bc.learning_rate, betas=BETAS, weight_decay=bc.weight_decay, fused=True
    )
    rng = np.random.default_rng(stream_seed("bc-batches", recipe.env.name, recipe.seed))
    model.train()
    losses: list[float] = []
    for step in range(bc.steps):
        for group in optimizer.param_groups:
            group["lr"] = bc.learning_rate * _cosine(step, bc.steps)
        chosen = rng.integers(len(conversations), size=bc.batch_size)
        rows = Rows.of_conversations([conversations[i] for i in chosen], codec.pad_id)
        loss = -response_logprob(model, rows, 1.0).sum() / rows.mask.sum()
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
        progress(step + 1, bc.steps, None)
    return {"loss": float(np.mean(losses[-20:]))}


def _cosine(step: int, steps: int, warmup: int = 20, floor: float = 0.1) -> float:
    if step < warmup:
        return (step + 1) / warmup
    return floor + (1 - floor) * 0.5 * (1 + math.cos(math.pi * step / steps))

"""One cell: an algorithm, an environment and a seed, from the shared start to the last evaluation."""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import torch
from transformers import PreTrainedModel

from arena.algorithms.catalog import Algorithm, algorithm_of
from arena.policy.model import frozen_copy, load_policy, save_policy
from arena.policy.scoring import Scores
from arena.policy.tokenizer import TextCodec
from arena.recipe import Recipe, check_code, code_of
from arena.records.files import JobStatus, write_json, write_status
from arena.records.schema import TABLES
from arena.records.writer import write_rows
from arena.seeding import stream_seed, train_task_seed
from arena.training import Report
from arena.training.batch import Group, build_batch
from arena.training.checkpoint import Counters, load_checkpoint, save_checkpoint
from arena.training.evaluation import evaluate, success_rate
from arena.training.recording import count_nonfinite, step_metrics, write_step_tables
from arena.training.rollout import Roller
from arena.training.update import optimise, warmup
from arena.training.values import CriticModel

#: Largest |log ratio| allowed in the first mini-batch of a step (fp32, dropout off): old and new log-probabilities
#: come from the same weights. The rest is room for rounding, which depends on the shape of the batch and grows with
#: the logits: beyond 100 the tolerance grows with them.
FIRST_LOG_RATIO_TOLERANCE = 1e-4


def run_cell(recipe: Recipe, directory: Path, start: Path, progress: Report) -> None:
    """Train the cell in `directory` from the BC start in `start`; continues from its last checkpoint.

    Records of a step are written before its checkpoint, and records past the checkpoint are dropped on resume:
    whenever the process dies, the resumed run ends with the same records and weights.
    """
    cell = _Cell.open(recipe, directory, start)
    model, optimizer = cell.model, cell.optimizer
    write_json(directory / "recipe.json", {**recipe.model_dump(mode="json"), "hash": recipe.hash})
    counters = load_checkpoint(directory, model, optimizer, cell.critic) or Counters(0, 0)
    steps_rows, eval_rows = _rewind(directory, start, counters.step)
    success = success_rate(_at_step(eval_rows, eval_rows[-1]["step"]), recipe.eval.temperature)
    write_status(directory, JobStatus("running", recipe.hash, counters.step, recipe.steps, success))

    checkpoint_seconds = None
    for step in range(counters.step + 1, recipe.steps + 1):
        row = cell.train(step)
        counters = Counters(step, counters.tokens_sampled + row["tokens_sampled"])
        row["seconds_eval"] = 0.0
        if step % recipe.eval.every == 0 or step == recipe.steps:
            before = time.perf_counter()
            progress(step - 1, recipe.steps, success, "evaluation")
            evaluation = evaluate(model, cell.roller, recipe, step)
            eval_rows += evaluation
            write_rows(directory / "evals.parquet", "evals", eval_rows)
            success = success_rate(evaluation, recipe.eval.temperature)
            row["seconds_eval"] = time.perf_counter() - before
        row["seconds_step"] += row["seconds_eval"]
        row["seconds_checkpoint"] = checkpoint_seconds
        row["tokens_sampled_total"] = counters.tokens_sampled
        steps_rows.append(row)
        write_rows(directory / "steps.parquet", "steps", steps_rows)
        before = time.perf_counter()
        if step % recipe.checkpoint.every == 0 or step == recipe.steps:
            save_checkpoint(directory, model, optimizer, counters, cell.critic)
            write_status(directory, JobStatus("running", recipe.hash, step, recipe.steps, success))
        checkpoint_seconds = time.perf_counter() - before
        progress(step, recipe.steps, success)

    save_policy(directory / "model", model, cell.codec.tokenizer)
    write_status(directory, JobStatus("done", recipe.hash, recipe.steps, recipe.steps, success))


@dataclass(frozen=True)
class _Cell:
    """What a cell trains with."""

    recipe: Recipe
    directory: Path
    algorithm: Algorithm
    model: PreTrainedModel
    reference: PreTrainedModel
    optimizer: torch.optim.Optimizer
    codec: TextCodec
    roller: Roller
    critic: CriticModel | None

    @staticmethod
    def open(recipe: Recipe, directory: Path, start: Path) -> _Cell:
        """Everything at the BC start. Raises UsageError if the algorithm's file is not the recipe's any more."""
        check_code(recipe.algorithm, recipe.code, code_of(recipe.algorithm))
        model, tokenizer = load_policy(start / "model")
        codec = TextCodec(tokenizer)
        optimizer = torch.optim.AdamW(
            model.parameters(),
            lr=recipe.optim.learning_rate,
            weight_decay=recipe.optim.weight_decay,
            fused=True,
        )
        algorithm = algorithm_of(recipe)
        return _Cell(
            recipe=recipe,
            directory=directory,
            algorithm=algorithm,
            model=model,
            reference=frozen_copy(model),
            optimizer=optimizer,
            codec=codec,
            roller=Roller(recipe.env, recipe.rollout, codec),
            critic=CriticModel.of(algorithm, model, recipe.optim),
        )

    def train(self, step: int) -> dict[str, Any]:
        """One training step: sample, score, update, record. Returns its row of `steps`, as far as it is known."""
        recipe, algorithm, model = self.recipe, self.algorithm, self.model
        learning_rate = recipe.optim.learning_rate * warmup(step, recipe.optim.warmup)
        for parameters in self.optimizer.param_groups:
            parameters["lr"] = learning_rate
        self.roller.take_env_seconds()  # what an evaluation left there
        clock = _Clock()
        groups = generate(step, algorithm, recipe, self.roller, model)
        clock.lap("seconds_rollout")
        env_seconds = self.roller.take_env_seconds()
        trained = [group for group in groups if group.trained]
        batch = build_batch(
            trained,
            model,
            self.reference,
            algorithm,
            recipe,
            self.codec.pad_id,
            self.roller.largest_return,
            self.critic,
        )
        clock.lap("seconds_scoring")
        result = optimise(model, self.optimizer, batch, algorithm, recipe, step, self.critic)
        clock.lap("seconds_update")
        metrics = step_metrics(groups, batch, result)
        _check_first_minibatch(metrics["first_log_ratio_max"], batch.old)
        metrics["loss"] = metrics["policy_loss"] + recipe.kl.coef * metrics["kl_loss"]
        nonfinite = count_nonfinite(metrics)
        if recipe.record.enabled:
            nonfinite += write_step_tables(self.directory, step, groups, batch, result, recipe)
        clock.lap("seconds_record")
        return {
            "step": step,
            **metrics,
            "learning_rate": learning_rate,
            "nonfinite": nonfinite,
            "seconds_env": env_seconds,
            **clock.laps,
            "seconds_step": clock.total,
        }


def generate(
    step: int, algorithm: Algorithm, recipe: Recipe, roller: Roller, model: PreTrainedModel
) -> list[Group]:
    """Sample the step's groups: one round, or with a dynamic filter up to its `max_batches` rounds.

    At most as many groups as a round has are trained on; what the last round leaves missing is filled with rejected
    groups, in the order they were sampled.
    """
    _, wanted = group_shape(algorithm, recipe)
    rule = algorithm.filter if algorithm.filter and step > algorithm.filter.cold_start else None
    sampled: list[Group] = []
    for attempt in range(rule.max_batches if rule else 1):
        for episodes in _round(step, attempt, algorithm, recipe, roller, model):
            passed = rule is None or rule.keeps([e.reward for e in episodes], [e.success for e in episodes])
            room = sum(group.kept for group in sampled) < wanted
            sampled.append(Group(len(sampled), attempt, episodes, kept=passed and room, filled=False))
        if sum(group.kept for group in sampled) >= wanted:
            break
    missing = wanted - sum(group.kept for group in sampled)
    fill = [group.group_id for group in sampled if not group.kept][:missing]
    return [replace(group, filled=group.group_id in fill) for group in sampled]


def group_shape(algorithm: Algorithm, recipe: Recipe) -> tuple[int, int]:
    """Episodes of a task and tasks of a round. A single-rollout method plays as many tasks as others play episodes."""
    rollout = recipe.rollout
    single = algorithm.value is not None and algorithm.value.single_rollout
    return (1, rollout.episodes) if single else (rollout.group_size, rollout.groups)


def _round(
    step: int, attempt: int, algorithm: Algorithm, recipe: Recipe, roller: Roller, model: PreTrainedModel
) -> list[tuple]:
    """One rollout round: every task's episodes."""
    env, seed = recipe.env.name, recipe.seed
    size, groups = group_shape(algorithm, recipe)
    tasks = [train_task_seed(env, seed, step, attempt, g) for g in range(groups) for _ in range(size)]
    noise = roller.noise(len(tasks), stream_seed("rollout-noise", env, seed, step, attempt))
    dynamics = [stream_seed("rollout-dynamics", env, seed, step, attempt, i) for i in range(len(tasks))]
    temperature = torch.full((len(tasks),), recipe.rollout.temperature)
    episodes = roller.run(model, tasks, temperature, noise, dynamics)
    return [tuple(episodes[g * size : (g + 1) * size]) for g in range(groups)]


def _rewind(directory: Path, start: Path, step: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Drop every record past `step`; returns the rows of `steps` and `evals` up to it.

    The evaluation of step 0 is the start's own: the same for every method.
    """
    for table in TABLES.values():
        if table.per_step_files and (directory / table.name).exists():
            for path in (directory / table.name).iterdir():
                if path.name.startswith(".") or int(path.stem.removeprefix("step-")) > step:
                    path.unlink()
    shutil.rmtree(directory / "model", ignore_errors=True)
    if step == 0:
        return [], _read_rows(start / "evals.parquet", 0)
    evals = directory / "evals.parquet"  # not there before the first evaluation of the cell
    return _read_rows(directory / "steps.parquet", step), _read_rows(
        evals if evals.exists() else start / "evals.parquet", step
    )


def _read_rows(path: Path, up_to: int) -> list[dict[str, Any]]:
    return [row for row in pq.read_table(path).to_pylist() if row["step"] <= up_to]


def _at_step(rows: list[dict[str, Any]], step: int) -> list[dict[str, Any]]:
    return [row for row in rows if row["step"] == step]


def _check_first_minibatch(log_ratio_max: float, old: Scores) -> None:
    largest = max(float(values.abs().max()) for values in (old.energy, old.logprob))
    allowed = FIRST_LOG_RATIO_TOLERANCE * max(1.0, largest / 100)
    if not log_ratio_max <= allowed:
        raise RuntimeError(
            f"the first mini-batch has |log ratio| {log_ratio_max:.2e}, allowed is {allowed:.0e}: "
            "the policy that scores is not the policy that trains"
        )


class _Clock:
    """Seconds per phase of a step."""

    def __init__(self) -> None:
        self.start = self.last = time.perf_counter()
        self.laps: dict[str, float] = {}

    def lap(self, name: str) -> None:
        now = time.perf_counter()
        self.laps[name] = now - self.last
        self.last = now

    @property
    def total(self) -> float:
        return self.last - self.start

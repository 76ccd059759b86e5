"""A plan and its results as rows of text: what `--dry-run` shows, what a run ends with. Prints nothing."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from arena.launch import estimate, folder
from arena.launch.jobs import Job
from arena.launch.plan import Plan
from arena.launch.progress import clock_text

if TYPE_CHECKING:
    from arena.records.reader import Cell

Row = dict[str, str]


def dry_run_rows(plan: Plan, pending: Collection[Job], reuse: Sequence[Path], fresh: bool) -> list[Row]:
    """One row per job: what will happen to it, and its time and disk if it is one of `pending`."""
    directories = {job.directory for job in pending}
    return [_dry_row(job, job.directory in directories, reuse, fresh) for job in plan.jobs]


def _dry_row(job: Job, runs: bool, reuse: Sequence[Path], fresh: bool) -> Row:
    guess = estimate.of(job)
    return {
        "environment": job.env,
        "algorithm": job.algorithm,
        "seed": str(job.seed),
        "what": _what_runs(job, fresh) if runs else _why_not(job, reuse, fresh),
        "steps": str(job.steps),
        "time": clock_text(estimate.seconds_left(job, fresh)) if runs else "-",
        "disk": size_text(guess.bytes) if runs else "-",
    }


def _what_runs(job: Job, fresh: bool) -> str:
    step = 0 if fresh else folder.steps_done(job)
    return f"resume after {step}" if step else "run"


def _why_not(job: Job, reuse: Sequence[Path], fresh: bool) -> str:
    if not fresh and folder.is_done(job):
        return "done"
    source = next((other for other in reuse if folder.reusable(job, other)), None)
    return f"reuse {source.name}" if source else "not needed"


def dry_run_totals(plan: Plan, pending: Sequence[Job], workers: int, fresh: bool = False) -> str:
    """What the whole launch would take, and what that is based on."""
    cells = sum(job.kind == "cell" for job in pending)
    wall = clock_text(estimate.makespan(estimate.tasks(pending, fresh), [0.0] * workers))
    disk = size_text(sum(estimate.of(job).bytes for job in pending))
    sources: dict[str, list[str]] = {}
    for job in plan.cells:
        envs = sources.setdefault(estimate.of(job).source, [])
        envs += [job.env] if job.env not in envs else []
    based = "; ".join(f"{', '.join(envs)} from {source}" for source, envs in sources.items())
    return (
        f"To run: {cells} of {len(plan.cells)} cells, {len(pending) - cells} BC starts. "
        f"About {wall} on {workers} worker{'s' * (workers > 1)}, {disk} of disk.\n"
        f"Estimates: {based}."
    )


def size_text(size: float) -> str:
    """`12 MB`, decimal units."""
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"


def result_rows(plan: Plan) -> list[Row]:
    """One row per algorithm, one column per environment: success at start and end, mean over finished seeds.

    No rows if no cell is finished.
    """
    means = _success(plan)
    if not means:
        return []
    algorithms = dict.fromkeys(cell.algorithm for cell in plan.cells)
    envs = dict.fromkeys(cell.env for cell in plan.cells)
    return [
        {"algorithm": algo, **{env: _result(plan, env, algo, means) for env in envs}} for algo in algorithms
    ]


def _result(plan: Plan, env: str, algorithm: str, means: Mapping[Path, tuple[float, float]]) -> str:
    cells = [c for c in plan.cells if (c.env, c.algorithm) == (env, algorithm)]
    found = [means[c.directory] for c in cells if c.directory in means]
    if not found:
        return "-"
    start, end = (sum(values) / len(found) for values in zip(*found, strict=True))
    part = "" if len(found) == len(cells) else f" ({len(found)} of {len(cells)} seeds)"
    return f"{start:.2f} -> {end:.2f}{part}"


def _success(plan: Plan) -> dict[Path, tuple[float, float]]:
    """Start and final success of every finished cell, at the recipe's evaluation temperature."""
    from arena.analysis.success import success_by_eval
    from arena.records.reader import load_evals

    found = {}
    for job, cell in finished(plan):
        rates = success_by_eval(load_evals([cell]))
        rates = rates[rates.temperature == job.recipe.eval.temperature].sort_values("step")
        if len(rates):
            found[cell.path] = (float(rates.success.iloc[0]), float(rates.success.iloc[-1]))
    return found


def warnings(plan: Plan) -> list[str]:
    """What a reader of the results has to know: cells that skipped updates."""
    from arena.analysis.summary import skipped_updates
    from arena.records.reader import load_steps

    return skipped_updates(load_steps([cell for _, cell in finished(plan)]))


def finished(plan: Plan) -> list[tuple[Job, Cell]]:
    """The plan's finished cells, with what is on disk of each."""
    from arena.records.reader import read_run

    ours = {job.directory: job for job in plan.cells if folder.is_done(job)}
    return [(ours[cell.path], cell) for cell in read_run(plan.run).cells if cell.path in ours]

"""`arena run`: train a grid of algorithms x environments x seeds."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from arena.cli.again import command_again, program, show_unfinished
from arena.cli.options import (
    DEFAULT_RUNS,
    DEFAULT_TIER,
    Algos,
    Envs,
    NumSeeds,
    Overrides,
    RunName,
    RunsDir,
    Seeds,
    Steps,
    Tier,
    Workers,
    default_runs,
    worker_count,
)
from arena.cli.tables import show
from arena.errors import UsageError
from arena.launch.estimate import tasks
from arena.launch.local import LaunchResult, Setup, pending
from arena.launch.local import run as launch
from arena.launch.overview import dry_run_rows, dry_run_totals, result_rows, warnings
from arena.launch.plan import Options, Plan, build, check_existing, notices
from arena.launch.progress import make_display

EPILOG = """
[bold]Examples[/]

arena run

arena run --algos all --envs sokoban --num-seeds 5 --dry-run

arena run --algos grpo,gspo+gigpo:omega=0.5 --set kl.coef=0 --name no-kl
"""


def run(
    algos: Algos = Options.algos,
    envs: Envs = Options.envs,
    tier: Tier = DEFAULT_TIER,
    num_seeds: NumSeeds = None,
    seeds: Seeds = None,
    steps: Steps = None,
    name: RunName = None,
    workers: Workers = None,
    runs_dir: RunsDir = DEFAULT_RUNS,
    overrides: Overrides = None,
    reuse: Annotated[
        list[str] | None,
        typer.Option(
            "--reuse",
            help="Take finished cells and starts of the same recipe from this run. Repeatable.",
            metavar="RUN",
        ),
    ] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Delete what the run holds and start over.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the cells with estimated time and disk; write nothing.")
    ] = False,
) -> None:
    """Train algorithms side by side, from one shared start per environment and seed.

    The same command with its --name resumes a run and retries what failed.

    Ctrl-C leaves a run that can be resumed. Exits with 1 if a cell failed.
    """
    options = Options(algos, envs, tier, num_seeds, seeds, steps, name, runs_dir, tuple(overrides or ()))
    plan = build(options)
    for note in notices(plan):
        print(f"Note: {note}\n")
    others = _reused(plan, reuse or [], runs_dir)
    if dry_run:
        _show_dry_run(plan, others, fresh, workers)
    else:
        raise typer.Exit(_launch(plan, others, fresh, workers))


def _reused(plan: Plan, names: list[str], runs_dir: Path) -> tuple[Path, ...]:
    if not names:
        return ()
    from arena.records.reader import find_run

    try:
        found = tuple(find_run(name, runs_dir) for name in names)
    except UsageError as error:
        raise UsageError(f"--reuse: {error}") from None
    if any(other.resolve() == plan.run.resolve() for other in found):
        raise UsageError(f"--reuse: '{plan.name}' is the run itself; its finished cells are kept anyway.")
    return found


def _show_dry_run(plan: Plan, others: tuple[Path, ...], fresh: bool, workers: int | None) -> None:
    check_existing(plan, fresh)
    jobs = pending(plan, others, fresh)
    print(f"run {plan.run}, tier {plan.tier}; nothing is written\n")
    show(dry_run_rows(plan, jobs, others, fresh))
    print(f"\n{dry_run_totals(plan, jobs, worker_count(workers, len(plan.cells)), fresh)}")


def _launch(plan: Plan, others: tuple[Path, ...], fresh: bool, workers: int | None) -> int:
    count = worker_count(workers, len(plan.cells))
    jobs = pending(plan, others, fresh)
    setup = Setup(count, command_again(plan.name), fresh, others)
    result = launch(plan, setup, make_display(tasks(jobs, fresh), count))
    _show_results(plan, result)
    return result.exit_code


def _show_results(plan: Plan, result: LaunchResult) -> None:
    rows = result_rows(plan)
    if rows:
        print(f"Success on held-out tasks, start -> end; run {plan.run}\n")
        show(rows)
        for warning in warnings(plan):
            print(f"\nWarning: {warning}")
    show_unfinished(result, command_again(plan.name))
    print(f"\nRead it with:\n  {_report_command(plan)}")


def _report_command(plan: Plan) -> str:
    what = plan.name if plan.run.parent == default_runs() else str(plan.run)
    return f"{program()} report {shlex.quote(what)}"

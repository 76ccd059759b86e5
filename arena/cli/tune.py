"""`arena tune`: the same small grid of settings for every method."""

from __future__ import annotations

import shlex
import sys
from typing import Annotated

import typer

from arena.cli.again import command_again, program, show_unfinished
from arena.cli.options import (
    DEFAULT_RUNS,
    DEFAULT_TIER,
    Algos,
    Envs,
    Overrides,
    RunName,
    RunsDir,
    Tier,
    Workers,
    whole_number,
    worker_count,
)
from arena.cli.tables import show
from arena.launch import series
from arena.launch import tune as tuning
from arena.launch.local import LaunchResult, Setup
from arena.launch.overview import dry_run_rows, dry_run_totals
from arena.launch.plan import Options, notices
from arena.launch.progress import clock_text
from arena.launch.tune import Tune, build_tune

EPILOG = """
[bold]Examples[/]

arena tune --algos grpo,cispo --envs sokoban

arena tune --algos grpo,sampo --grid optim.learning_rate=2e-4,4e-4 --grid kl.coef=0,0.01 --name t

arena run --algos grpo,sampo --tier runs/t/tier.toml
"""


def tune(
    algos: Algos = Options.algos,
    envs: Envs = Options.envs,
    tier: Tier = DEFAULT_TIER,
    num_seeds: Annotated[
        int | None,
        typer.Option(
            "--num-seeds",
            help=f"Tune on seeds {tuning.FIRST_SEED} to {tuning.FIRST_SEED}+N-1. Default: {tuning.SEEDS}.",
            metavar="N",
            parser=whole_number(1),
        ),
    ] = None,
    seeds: Annotated[
        str | None,
        typer.Option("--seeds", help="Tune on these seeds: none that you will report.", metavar="LIST"),
    ] = None,
    grid: Annotated[
        list[str] | None,
        typer.Option(
            "--grid",
            help="Values of a recipe field to try, e.g. [bold]--grid kl.coef=0,0.01[/]. Repeatable; trials are the "
            "product. Default: half, once and twice the tier's learning rate.",
            metavar="KEY=V,V",
        ),
    ] = None,
    name: RunName = None,
    workers: Workers = None,
    runs_dir: RunsDir = DEFAULT_RUNS,
    overrides: Overrides = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show trials and cells with estimated time; write nothing.")
    ] = False,
) -> None:
    """Choose settings for every method from the same trials, and write them as a tier.

    A trial is scored by held-out success in the last fifth of its run, minus its spread over evaluations and seeds.

    The same command with its --name resumes a tune and retries what failed. Exits with 1 if a cell failed.
    """
    given = Options(
        algos,
        envs,
        tier,
        seeds=tuning.seeds(seeds, num_seeds),
        name=name,
        runs=runs_dir,
        overrides=tuple(overrides or ()),
    )
    planned = build_tune(given, grid or [])
    for note in notices(planned.base):
        print(f"Note: {note}\n")
    count = worker_count(workers, len(planned.base.cells))
    if dry_run:
        _show_dry_run(planned, count)
    else:
        raise typer.Exit(_launch(planned, count))


def _show_dry_run(planned: Tune, workers: int) -> None:
    left = series.to_run(planned.plans)
    print(f"tune {planned.folder}, tier {planned.options.tier}; nothing is written\n")
    show([{"trial": str(n), **trial.settings} for n, trial in enumerate(planned.trials)])
    print()
    show(
        [
            {"trial": str(number), **row}
            for number, (trial, jobs) in enumerate(zip(planned.trials, left, strict=True))
            for row in dry_run_rows(trial.plan, jobs, (), fresh=False)
            if row["what"] != "not needed"  # a start that an earlier trial makes
        ]
    )
    every = [job for jobs in left for job in jobs]
    print(
        f"\n{len(planned.trials)} trials. {dry_run_totals(series.whole(planned.folder, planned.plans), every, workers)}"
    )


def _launch(planned: Tune, workers: int) -> int:
    again = command_again(planned.folder.name)

    def announce(number: int, seconds: float) -> None:
        where = f"trial {number} ({number + 1} of {len(planned.trials)})"
        print(
            f"{where}: {planned.trials[number].label}; about {clock_text(seconds)} left in all",
            file=sys.stderr,
        )

    result = tuning.run(planned, Setup(workers, again), announce)
    _show_results(planned, result, again)
    return result.exit_code


def _show_results(planned: Tune, result: LaunchResult, again: str) -> None:
    print(f"Success on held-out tasks in the last fifth of the run; tune {planned.folder}\n")
    show(tuning.result_rows(planned, tuning.results(planned)))
    for warning in series.warnings(planned.plans):
        print(f"\nWarning: {warning}")
    show_unfinished(result, again)
    if result.exit_code:
        return
    options, path = planned.options, shlex.quote(str(tuning.tier_file(planned)))
    print("\nChosen (*): the highest success minus spread. Run them, on other seeds, with:")
    print(
        f"  {program()} run --algos {shlex.quote(options.algos)} --envs {shlex.quote(options.envs)} --tier {path}"
    )

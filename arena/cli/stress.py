"""`arena stress`: how far learning rate and updates per rollout can be pushed before a method fails."""

from __future__ import annotations

import json as json_text
import shlex
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from arena.cli.again import command_again, program, show_unfinished
from arena.cli.options import (
    DEFAULT_RUNS,
    DEFAULT_TIER,
    Algos,
    Envs,
    Json,
    NumSeeds,
    Overrides,
    RunName,
    RunsDir,
    Seeds,
    Steps,
    Tier,
    Workers,
    worker_count,
)
from arena.cli.tables import NOTHING, show
from arena.launch import series
from arena.launch import stress as stressing
from arena.launch.local import LaunchResult, Setup
from arena.launch.overview import dry_run_rows, dry_run_totals
from arena.launch.plan import Options, notices
from arena.launch.progress import clock_text
from arena.launch.stress import Stress, build_stress

if TYPE_CHECKING:
    from arena.analysis.margin import MapCell, Stability

EPILOG = """
[bold]Examples[/]

arena stress --algos cispo,sampo --envs sokoban --num-seeds 3

arena stress --algos grpo --envs sokoban --learning-rates 1,2,4 --updates 1 --name s
"""


def stress(
    algos: Algos = Options.algos,
    envs: Envs = Options.envs,
    tier: Tier = DEFAULT_TIER,
    num_seeds: NumSeeds = None,
    seeds: Seeds = None,
    learning_rates: Annotated[
        str,
        typer.Option("--learning-rates", help="Factors of the tier's learning rate; with 1.", metavar="LIST"),
    ] = stressing.LEARNING_RATES,
    updates: Annotated[
        str,
        typer.Option(
            "--updates",
            help="Factors of the tier's updates per rollout (of its epochs); with 1.",
            metavar="LIST",
        ),
    ] = stressing.UPDATES,
    steps: Steps = None,
    name: RunName = None,
    workers: Workers = None,
    runs_dir: RunsDir = DEFAULT_RUNS,
    overrides: Overrides = None,
    json: Json = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show points and cells with estimated time; write nothing.")
    ] = False,
) -> None:
    """Push learning rate and updates per rollout until each method fails: its stability margin.

    A seed is not trained at a higher learning rate once it failed at a lower one with as many updates.

    The same command with its --name resumes a stress test and retries what failed. Exits with 1 if a cell could not be
    run to its end.
    """
    options = Options(algos, envs, tier, num_seeds, seeds, steps, name, runs_dir, tuple(overrides or ()))
    planned = build_stress(options, learning_rates, updates)
    for note in notices(planned.plans[0]):
        print(f"Note: {note}\n", file=sys.stderr)
    count = worker_count(workers, len(planned.plans[0].cells))
    if dry_run:
        _show_dry_run(planned, count)
    else:
        raise typer.Exit(_launch(planned, count, json))


def _show_dry_run(planned: Stress, workers: int) -> None:
    plans = stressing.without_beyond(planned, planned.plans)
    left = series.to_run(plans)
    print(f"stress test {planned.folder}, tier {planned.options.tier}; nothing is written\n")
    rows = [
        {"learning rate": f"{point.learning_rate:g}x", "updates": f"{point.updates}x", **row}
        for point, plan, jobs in zip(planned.grid.points, plans, left, strict=True)
        for row in dry_run_rows(plan, jobs, (), fresh=False)
        if row["what"] != "not needed"  # a start that an earlier point makes
    ]
    show(rows)
    every = [job for jobs in left for job in jobs]
    print(
        f"\n{len(plans)} points. {dry_run_totals(series.whole(planned.folder, planned.plans), every, workers)}\n"
        "At most: once a seed fails, its cells at higher learning rates with as many updates are left out."
    )


def _launch(planned: Stress, workers: int, as_json: bool) -> int:
    again = command_again(planned.folder.name)

    def announce(number: int, seconds: float) -> None:
        point = planned.grid.points[number]
        print(
            f"point {number + 1} of {len(planned.plans)}: learning rate {point.learning_rate:g}x, updates "
            f"{point.updates}x; at most about {clock_text(seconds)} left in all",
            file=sys.stderr,
        )

    result = stressing.run(planned, Setup(workers, again), announce)
    if as_json:
        more = {"failures": result.failures, "warnings": series.warnings(planned.plans)}
        found = stressing.result_json(planned, again) | more
        print(json_text.dumps(found, indent=1, allow_nan=False))
    else:
        _show_results(planned, result, again)
    return result.exit_code


def _show_results(planned: Stress, result: LaunchResult, again: str) -> None:
    from arena.analysis.margin import stabilities

    found = stabilities(planned.grid)
    print(
        "Stability margin: the factor of the learning rate up to which runs hold, given once every seed is complete; "
        f"{planned.folder}\n"
    )
    show([_margin_row(stability) for stability in found])
    print(
        "\nMaps: seeds collapsed of those finished, and their final success minus that of the start, in points"
    )
    for stability in found:
        print(f"\n{stability.env}, {stability.algo}\n")
        show(_map_rows(planned, stability))
    for warning in series.warnings(planned.plans):
        print(f"\nWarning: {warning}")
    show_unfinished(result, again)
    print(f"\nRead it with:\n  {program()} report {shlex.quote(str(planned.folder))}")


def _margin_row(stability: Stability) -> dict[str, str]:
    margin = stability.margin
    return {
        "environment": stability.env,
        "algorithm": stability.algo,
        "seeds": f"{len(stability.by_seed)} of {stability.seeds}",
        "margin": str(margin) if margin else NOTHING,
        "octaves": f"{margin.octaves:.2f}" if margin else NOTHING,
        "95 % interval": stability.interval_text,
    }


def _map_rows(planned: Stress, stability: Stability) -> list[dict[str, str]]:
    cells = {(cell.learning_rate, cell.updates): cell for cell in stability.cells}
    return [
        {
            "learning rate": f"{rate:g}x",
            **{f"updates {n}x": map_text(cells[rate, n]) for n in planned.grid.updates},
        }
        for rate in planned.grid.learning_rates
    ]


def map_text(cell: MapCell) -> str:
    """`1/3, -12.0, 1 lost, 1 beyond`: collapsed of finished, mean gain in points, failed without a collapse, beyond."""
    parts = [f"{cell.collapsed}/{cell.finished}"] if cell.finished else []
    parts += [f"{100 * cell.gain:+.1f}"] if cell.gain is not None else []
    parts += [f"{cell.lost} lost"] if cell.lost else []
    parts += [f"{cell.beyond} beyond" if parts else "beyond"] if cell.beyond else []
    return ", ".join(parts) or NOTHING

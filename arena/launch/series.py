"""Several runs one after the other that share their starts: what a tune and a stress test are made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from arena.launch import folder, local, overview
from arena.launch.estimate import makespan, tasks
from arena.launch.jobs import Job
from arena.launch.local import LaunchResult, Setup, pending
from arena.launch.plan import Plan
from arena.launch.progress import make_display

Narrow = Callable[[Sequence[Plan]], Sequence[Plan]]


def check_recipes(plans: Sequence[Plan], what: str) -> None:
    """Raise UsageError if a run's folder holds a job of another recipe; `what` is what the runs are, as "tune"."""
    for job in (job for plan in plans for job in plan.jobs):
        folder.check_same_recipe(job, f"Choose another --name, or undo the change to go on with this {what}.")


def whole(run: Path, plans: Sequence[Plan]) -> Plan:
    """All cells of all plans, and the starts, which the first makes: for overviews."""
    return Plan(run, plans[0].tier, plans[0].starts, tuple(cell for plan in plans for cell in plan.cells))


def warnings(plans: Sequence[Plan]) -> list[str]:
    """What a reader of the results has to know: finished cells that skipped updates may do well as they stood still."""
    run = [plan for plan in plans if folder.is_run(plan.run)]
    return [f"{plan.name}/{warning}" for plan in run for warning in overview.warnings(plan)]


def to_run(plans: Sequence[Plan], first: int = 0) -> list[list[Job]]:
    """What is left to run of each plan from `first` on: a start that one of them makes is not made by later ones."""
    left = []
    coming: set[Path] = set()
    for plan in plans[first:]:
        jobs = pending(plan, _others(plans, plan))
        jobs = [job for job in jobs if job.kind == "cell" or job.relative not in coming]
        coming |= {job.relative for job in jobs if job.kind == "start"}
        left.append(jobs)
    return left


def _others(plans: Sequence[Plan], plan: Plan) -> tuple[Path, ...]:
    """The runs that `plan` may take what is finished from."""
    return tuple(other.run for other in plans if other.run != plan.run)


def run(
    plans: Sequence[Plan],
    setup: Setup,
    announce: Callable[[int, float], None],
    save: Callable[[], None],
    narrow: Narrow = lambda plans: plans,
) -> LaunchResult:
    """Run the plans in order; a failed cell does not stop the others.

    `announce` is told each plan's number before it is run, and the seconds that this and those after it may take;
    `save` is called after each. `narrow` is asked before each which cells the plans still have, from what is on disk;
    a plan without any is not run. A lock in `setup` is that of the first plan's run.
    """
    failures: dict[str, str] = {}
    for number in range(len(plans)):
        known = narrow(plans)
        plan = known[number]
        if not plan.cells:
            continue
        left = [tasks(jobs) for jobs in to_run(known, number)]
        if left[0]:
            announce(number, sum(makespan(each, [0.0] * setup.workers) for each in left))
        display = make_display(left[0], setup.workers)
        here = replace(setup, reuse=_others(plans, plan), lock=setup.lock if number == 0 else None)
        result = local.run(plan, here, display)
        failures |= {f"{plan.name}/{label}": why for label, why in result.failures.items()}
        save()
        if result.stopped_by:
            return LaunchResult(failures, result.stopped_by)
    return LaunchResult(failures)

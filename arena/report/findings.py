"""What happened in each environment, in sentences that claim no more than the seeds allow."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import pandas as pd

from arena.analysis.comparison import interval_of, verdict_of
from arena.analysis.statistics import MIN_SEEDS_FOR_INTERVAL, PairedDifference, paired_difference
from arena.analysis.summary import mean_best_start, skipped_updates
from arena.analysis.tasks import largest_error, task_numbers
from arena.records.reader import Run
from arena.report.document import Finding
from arena.report.style import method_order
from arena.report.wording import (
    DASH,
    env_title,
    listing,
    percent,
    points,
    seeds_range,
    state_words,
    temperature,
)


def finding(env: str, rows: pd.DataFrame) -> Finding:
    """What happened in one environment. `rows`: its rows of `summarise_cells`."""
    known = rows.dropna(subset="final")
    if known.empty:
        return Finding(env_title(env), ("No cell has an evaluation yet.",))
    by_method = {m: known[known.algo == m] for m in method_order(list(known.algo))}
    sentences = [*_unmatched(by_method), *_best(rows), *_beyond_start(by_method), *_falls(by_method)]
    if (rows.state != "done").any():
        sentences.insert(0, "Not all cells are finished; unfinished ones are read as far as they went.")
    return Finding(env_title(env), tuple(sentences))


def _unmatched(rows: Mapping[str, pd.DataFrame]) -> Iterable[str]:
    if len({frozenset(r.seed) for r in rows.values()}) > 1:
        yield "The methods do not cover the same seeds, so their means are not matched."


def _finished_by_all(rows: pd.DataFrame) -> set[int]:
    """The seeds that every method of `rows` has finished and evaluated."""
    done = rows[rows.state == "done"].dropna(subset="final")
    return set.intersection(*(set(done[done.algo == m].seed) for m in set(rows.algo)))


def _best(rows: pd.DataFrame) -> Iterable[str]:
    """Who ended highest. Of several methods, only on the seeds that all of them finished."""
    known = rows.dropna(subset="final")
    several, over = rows.algo.nunique() > 1, ""
    if several:
        shared = _finished_by_all(rows)
        if not shared:
            yield "No seed is finished by every method, so none is named the highest."
            return
        if shared != set(rows.seed):
            seeds = listing([str(s) for s in sorted(shared)])
            over = f"Over what all methods finished, {'seed' if len(shared) == 1 else 'seeds'} {seeds}: "
        known = known[known.seed.isin(shared)]
    by_seed = known.set_index("seed").sort_index()
    finals = {m: by_seed[by_seed.algo == m].final for m in method_order(list(known.algo))}
    top = max(f.mean() for f in finals.values())
    best = [m for m, f in finals.items() if math.isclose(f.mean(), top, abs_tol=1e-9)]
    others = [m for m in finals if m not in best]
    leaders = known[known.algo.isin(best)]
    if len(best) > 1:
        how = "equal and highest " if others else "equal "
        spread = "; ".join(f"{m}: {_range(finals[m])}" for m in best)
    else:
        how, spread = "highest " if others else "", _range(finals[best[0]])
    yield (
        f"{over}{listing(best)} ended {how}at {temperature(leaders.temperature.iloc[0])}: {percent(top)} "
        f"({spread}), from {percent(leaders.start.mean())} at the start."
    )
    if several:
        yield from _order(finals, best)


def _order(finals: Mapping[str, pd.Series], best: Sequence[str]) -> Iterable[str]:
    """How sure it is that the methods of `best` ended above the others. `finals`: all of the same seeds in one order.

    From three seeds on as `arena compare` has it; of two, no more than whether the ranges overlap.
    """
    seeds, others = len(finals[best[0]]), [m for m in finals if m not in best]
    if seeds == 1:
        yield "With one seed the order of the methods is not settled."
    elif others and seeds < MIN_SEEDS_FOR_INTERVAL:
        lowest = min(finals[m].min() for m in best)
        close = [m for m in others if finals[m].max() >= lowest]
        its = "its range" if len(best) == 1 else "their range"
        where = f"overlaps that of {listing(close)}" if close else "is above that of every other method"
        yield f"Over {seeds} seeds {its} {where}."
    elif others:
        for method in best:
            yield f"{method}, paired over {seeds} seeds: {'; '.join(_paired(finals, method, others))}."


def _paired(finals: Mapping[str, pd.Series], method: str, others: Sequence[str]) -> Iterable[str]:
    """What `method` is beside the others, one part for each verdict, with the differences in points."""
    differences = {m: paired_difference(finals[m], finals[method]) for m in others}
    seeds = len(finals[method])
    better = [m for m, d in differences.items() if verdict_of(d) == "better"]
    same = [m for m, d in differences.items() if d.spread.same]
    open_ = [m for m in others if m not in (*better, *same)]
    for words, chosen in (
        ("better than {}", better),
        (f"no difference that {seeds} seeds can show from {{}}", open_),
        ("above {} by the same in every seed, so without an interval", same),
    ):
        if chosen:
            yield words.format(listing([f"{m} ({_points_of(differences[m])})" for m in chosen]))


def _points_of(difference: PairedDifference) -> str:
    """A mean difference and, if it has one, its interval."""
    ends = interval_of(difference)
    interval = f", CI {points(ends[0])} to {points(ends[1])}" if ends else ""
    return f"by {points(difference.spread.mean)}{interval}"


def _beyond_start(rows: Mapping[str, pd.DataFrame]) -> Iterable[str]:
    best = "the start at its best temperature"
    sure = [f"{m} (by {points(r.gain.mean())} points)" for m, r in rows.items() if all(r.improved)]
    if sure:
        yield f"Above {best} by more than evaluation noise in every seed: {listing(sure)}."
    else:
        start = percent(mean_best_start(pd.concat(list(rows.values()))))
        yield f"No method ended above {best}, {start}, by more than evaluation noise in every seed."


def _falls(rows: Mapping[str, pd.DataFrame]) -> Iterable[str]:
    fell = {m: r for m, r in rows.items() if true_count(r.degraded)}
    for method, cells in sorted(fell.items(), key=lambda item: -item[1]["drop"].mean()):
        yield (
            f"{method} fell after its peak, from {percent(cells.peak.mean())} to "
            f"{percent(cells.final.mean())}: {points(cells['drop'].mean())} points, more than evaluation "
            f"noise in {of_seeds(true_count(cells.degraded), cells)}.{_late(cells)}"
        )
    unknown = sum(int(r.degraded.isna().sum()) for r in rows.values())
    if unknown:
        yield (
            f"In {unknown} of {sum(map(len, rows.values()))} cells a fall could not be judged: their evaluation has a "
            "single task, which says nothing of noise."
        )
    elif not fell:
        yield "No method fell from its peak by more than evaluation noise."


def _late(cells: pd.DataFrame) -> str:
    late = true_count(cells.late_fall)
    if not late:
        return ""
    return (
        f" In {of_seeds(late, cells)} it ended below half of its peak, and training success does not show a "
        "lasting fall: too late to say whether it stays."
    )


def _repeats(run: Run, evals: pd.DataFrame) -> Iterable[str]:
    """For each environment: how many of its evaluation tasks are distinct, where that matters or is not known."""
    for env in sorted(set(evals.env)):
        own = [c for c in run.cells if c.env == env]
        rows = [evals[(evals.env == env) & (evals.algo == c.algo) & (evals.seed == c.seed)] for c in own]
        known = [task_numbers(c, r) for c, r in zip(own, rows, strict=True) if len(r)]
        tasks = [t for t in known if t]
        if len(tasks) < len(known):
            yield (
                f"Whether evaluation tasks of {env_title(env)} repeat is not known here, so each counts on its own; if "
                "some do, evaluation noise is larger than said."
            )
        elif (worst := max(tasks, key=largest_error)) and largest_error(worst) > 1.05 * 0.5 / len(
            worst
        ) ** 0.5:
            distinct = sorted({len(set(t.values())) for t in tasks})
            shown = " to ".join(str(n) for n in sorted({distinct[0], distinct[-1]}))
            yield (
                f"Of {len(worst)} evaluation tasks of {env_title(env)} {shown} are distinct, the others repeat them: a "
                f"standard error of up to {points(largest_error(worst))} points of one evaluation. What is called more "
                "than evaluation noise allows for it."
            )


def true_count(flags: pd.Series) -> int:
    """How many are True; missing ones are not."""
    return int((flags == True).sum())  # noqa: E712


def of_seeds(count: int, cells: pd.DataFrame) -> str:
    """2 of 3 seeds, of which `cells` has a row each."""
    return f"{count} of {len(cells)} {'seed' if len(cells) == 1 else 'seeds'}"


def _range(values: pd.Series) -> str:
    if len(values) == 1:
        return "one seed"
    return f"{points(values.min())}{DASH}{points(values.max())} over {len(values)} seeds"


def caveats(run: Run, summary: pd.DataFrame, steps: pd.DataFrame, evals: pd.DataFrame) -> tuple[str, ...]:
    """What a careful reader should know before quoting a number."""
    notes = [f"{line}: it did not learn as it was meant to." for line in skipped_updates(steps)]
    seeds = summary.groupby(["env", "algo"]).seed.nunique()
    if len(seeds) and seeds.min() < MIN_SEEDS_FOR_INTERVAL:
        notes.append(
            f"{seeds_range(seeds)} per method: below {MIN_SEEDS_FOR_INTERVAL} seeds no interval is given, and "
            "differences between methods are descriptive. Ranges are smallest to largest seed."
        )
    if len(seeds) and seeds.max() >= MIN_SEEDS_FOR_INTERVAL:
        notes.append(
            "Intervals (CI) are at 95 %: Student's of means over seeds and of differences paired by seed; the "
            "bootstrap's, which is too narrow for few seeds, of place, IQM and the correlations of energy. Each is on "
            "its own: of several differences some exclude 0 by chance, and more where the highest of several methods "
            "is compared. Where there is none, a range is that of the smallest and largest seed."
        )
    episodes = evals.groupby(["env", "algo", "seed", "temperature", "step"]).size()
    if len(episodes):
        n = min(episodes.tolist())
        notes.append(
            f"One evaluation has {n} episodes: a standard error of up to {points((0.25 / n) ** 0.5)} "
            "points; a difference between two evaluations has less, because their tasks are the same. A peak is "
            "smoothed and still the largest of several such values, so it is biased upward, and so is the drop "
            "from it."
        )
    notes += _repeats(run, evals)
    tokens = (
        summary[summary.state == "done"]
        .groupby(["env", "algo"])
        .tokens.mean()
        .groupby("env")
        .agg(["min", "max"])
    )
    uneven = tokens[tokens["max"] > 1.05 * tokens["min"]]
    if len(uneven):
        ratios = listing(
            [f"{env_title(str(e))} {r['max'] / r['min']:.1f} times" for e, r in uneven.iterrows()]
        )
        notes.append(
            "Methods are matched by training steps. In sampled tokens the most and the least differ: "
            f"{ratios}."
        )
    unfinished = [c for c in run.cells if not c.finished]
    if unfinished:
        notes.append(
            "Unfinished cells, read as far as they went: "
            f"{'; '.join(f'{c.name} ({state_words(c)})' for c in unfinished)}."
        )
    return tuple(notes)

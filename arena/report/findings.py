"""The one-minute summary: what happened, in sentences that claim no more than the seeds allow."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pandas as pd

from arena.analysis.statistics import MIN_SEEDS_FOR_INTERVAL
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
    sentences = [*_unmatched(by_method), *_best(by_method), *_beyond_start(by_method), *_falls(by_method)]
    if (rows.state != "done").any():
        sentences.insert(0, "Not all cells are finished: what follows compares them as far as they went.")
    return Finding(env_title(env), tuple(sentences))


def _unmatched(rows: Mapping[str, pd.DataFrame]) -> Iterable[str]:
    if len({frozenset(r.seed) for r in rows.values()}) > 1:
        yield "The methods do not cover the same seeds, so their means are not matched."


def _best(rows: Mapping[str, pd.DataFrame]) -> Iterable[str]:
    best, *others = sorted(rows, key=lambda m: -rows[m].final.mean())
    finals = rows[best].final
    yield (
        f"{best} ended {'highest ' if others else ''}at {temperature(rows[best].temperature.iloc[0])}: "
        f"{percent(finals.mean())} ({_range(finals)}), from {percent(rows[best].start.mean())} at the start."
    )
    close = [m for m in others if rows[m].final.max() >= finals.min()]
    if others and len(finals) == 1:
        yield "With one seed the order of the methods is not settled."
    elif close:
        yield f"Over seeds its range overlaps that of {listing(close)}, so their order is not settled."
    elif others:
        yield "Each of its seeds ended above every seed of the other methods."


def _beyond_start(rows: Mapping[str, pd.DataFrame]) -> Iterable[str]:
    starts = pd.concat(list(rows.values())).drop_duplicates("seed").best_start
    best = f"the start at its best temperature, {percent(starts.mean())},"
    sure = [f"{m} (by {points(r.gain.mean())} points)" for m, r in rows.items() if all(r.improved)]
    if sure:
        yield f"Above {best} by more than evaluation noise in every seed: {listing(sure)}."
    else:
        yield f"No method ended above {best} by more than evaluation noise in every seed."


def _falls(rows: Mapping[str, pd.DataFrame]) -> Iterable[str]:
    fell = {m: r for m, r in rows.items() if any(r.degraded)}
    for method, cells in sorted(fell.items(), key=lambda item: -item[1]["drop"].mean()):
        yield (
            f"{method} fell after its peak, from {percent(cells.peak.mean())} to "
            f"{percent(cells.final.mean())}: {points(cells['drop'].mean())} points, more than evaluation "
            f"noise in {sum(cells.degraded)} of {len(cells)} {'seed' if len(cells) == 1 else 'seeds'}."
        )
    if not fell:
        noise = 2 * max(r.drop_noise.max() for r in rows.values())
        yield (
            "No method fell from its peak by more than evaluation noise (two standard errors of the "
            f"difference, up to {points(noise)} points)."
        )


def _range(values: pd.Series) -> str:
    if len(values) == 1:
        return "one seed"
    return f"{points(values.min())}{DASH}{points(values.max())} over {len(values)} seeds"


def caveats(run: Run, summary: pd.DataFrame, evals: pd.DataFrame) -> tuple[str, ...]:
    """What a careful reader should know before quoting a number."""
    notes = []
    seeds = summary.groupby(["env", "algo"]).seed.nunique()
    if len(seeds) and seeds.min() < MIN_SEEDS_FOR_INTERVAL:
        notes.append(
            f"{seeds_range(seeds)} per method: differences between "
            f"methods are descriptive. No interval is given below {MIN_SEEDS_FOR_INTERVAL} seeds; ranges "
            "are smallest to largest seed."
        )
    else:
        notes.append(
            "Intervals are Student's 95 % intervals of the mean over seeds; ranges are smallest to largest "
            "seed."
        )
    episodes = evals.groupby(["env", "algo", "seed", "temperature", "step"]).size()
    if len(episodes):
        n = min(episodes.tolist())
        notes.append(
            f"One evaluation has {n} episodes: a standard error of up to {points((0.25 / n) ** 0.5)} "
            "points. A peak is the largest of several such values, so it is biased upward, and so is the "
            "drop from it."
        )
    tokens = summary.groupby(["env", "algo"]).tokens.mean().groupby("env").agg(["min", "max"])
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

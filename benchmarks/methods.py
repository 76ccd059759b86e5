"""Every method at both tiers: where each cell started, peaked and ended.

    python benchmarks/methods.py runs/cpu runs/cpu-stress --write-docs

Adds the finished cells of runs to `benchmarks/methods.csv`, in the place of those it had of the same tier,
environment, method and seed, and prints the tables of all that it holds; `--write-docs` puts them into docs/methods.md,
which has the commands that make the runs, and each method's own rows into its page. Without runs: the tables of what is
there. Cells of one environment, tier and seed have one start; those of an older one have to be taken out first.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import pandas as pd
from detectors import put

from arena.algorithms.catalog import CATALOG
from arena.analysis.summary import summarise_cells
from arena.recipe import base_of
from arena.records.reader import find_run, load_evals, load_steps, read_run
from arena.report.style import method_order

ROOT = Path(__file__).parent
TABLE, DOCS = ROOT / "methods.csv", ROOT.parent / "docs"
KEY = ["tier", "env", "algo", "seed"]
#: `best_start`: held-out success of the start at its best temperature; `peak`, `final`: at the tier's evaluation
#: temperature. `tokens`: sampled for training. `seconds`: of the training steps, whatever else ran. `launched_at`:
#: commit of the last launch of the cell's run, with a plus if tracked files differed from it.
COLUMNS = [
    *KEY,
    *("start_hash", "best_start", "peak", "final", "collapse_step", "tokens", "seconds", "launched_at"),
]


def cells_of(folder: str) -> pd.DataFrame:
    """A row of `COLUMNS` for every finished cell of a run."""
    run = read_run(find_run(folder))
    cells = [cell for cell in run.cells if cell.finished]
    recipes = [cell.recipe for cell in cells]
    commit = f"{str(run.manifest['commit'])[:7]}{'+' * bool(run.manifest['dirty'])}"
    rows = summarise_cells(cells, load_steps(cells), load_evals(cells)).assign(
        tier=[recipe.tier for recipe in recipes if recipe],
        start_hash=[recipe.start_hash for recipe in recipes if recipe],
        launched_at=commit,
    )
    return rows[COLUMNS].round({"best_start": 4, "peak": 4, "final": 4, "seconds": 0})


def table(rows: pd.DataFrame) -> list[str]:
    """Markdown of one tier and environment: a row per method, numbers by seed; those that gain most first."""
    seeds = sorted(rows.seed.unique())
    base = rows[rows.algo == "grpo"].set_index("seed")
    starts = rows.drop_duplicates("seed").set_index("seed").best_start
    lines = [
        f"Start's best, seeds {', '.join(map(str, seeds))}: {by_seed(starts, seeds)}.",
        "",
        "| | peak, by seed | end, by seed | gain in points | collapsed | tokens |",
        "|---|---|---|---|---|---|",
    ]
    gains = (rows.final - rows.best_start).groupby(rows.algo).mean()
    for algo in sorted(method_order(list(rows.algo)), key=lambda algo: -round(gains[algo], 2)):
        own = rows[rows.algo == algo].set_index("seed")
        gain = 100 * (own.final - own.best_start)
        lines.append(
            f"| {algo} | {by_seed(own.peak, seeds)} | {by_seed(own.final, seeds)} | {round(gain.mean()):+d} "
            f"| {own.collapse_step.notna().sum()} of {len(own)} | {times(own.tokens, base.tokens)} |"
        )
    return lines


def by_seed(values: pd.Series, seeds: list[int]) -> str:
    """Shares as `.65 .80`, a dash where a seed has none."""
    known = values.dropna()
    return " ".join(f"{known[seed]:.2f}".replace("0.", ".", 1) if seed in known else "-" for seed in seeds)


def times(values: pd.Series, base: pd.Series) -> str:
    """The mean ratio to GRPO over the seeds that both have."""
    ratio = (values / base).dropna()
    return f"{ratio.mean():.2f}" if len(ratio) else "-"


def page(rows: pd.DataFrame) -> str:
    """All tables, each under its tier and environment."""
    blocks = []
    for (tier, env), part in rows.groupby(["tier", "env"], sort=True):
        if part.groupby("seed").start_hash.nunique().max() > 1:
            raise SystemExit(
                f"{tier}, {env}: cells of a seed begin at different starts; take the older ones out"
            )
        blocks.append("\n".join([f"### {tier}, {env}", "", *table(part)]))
    return "\n\n".join(blocks)


def own_table(rows: pd.DataFrame, method: str) -> str:
    """Markdown for a method's page: a row per tier, environment and spec that begins with it, GRPO's end beside."""
    own = rows[rows.algo.map(base_of) == method]
    if own.empty:
        return "No cell has been run."
    lines = [
        "Held-out success at temperature 0.5 by seed (`benchmarks/methods.py`; [every method](../methods.md)):",
        "",
        "| tier, environment | seeds | | start's best | peak | end | GRPO's end |",
        "|---|---|---|---|---|---|---|",
    ]
    for (tier, env, algo), part in own.groupby(["tier", "env", "algo"], sort=True):
        part = part.set_index("seed")
        seeds = sorted(part.index)
        grpo = rows[(rows.tier == tier) & (rows.env == env) & (rows.algo == "grpo")].set_index("seed").final
        values = [by_seed(v, seeds) for v in (part.best_start, part.peak, part.final, grpo)]
        lines.append(
            " | ".join([f"| {tier}, {env}", ", ".join(map(str, seeds)), f"`{algo}`", *values]) + " |"
        )
    return "\n".join(lines)


def write_docs(rows: pd.DataFrame, text: str) -> None:
    """The page of all, and every method's own."""
    page_of_all = DOCS / "methods.md"
    page_of_all.write_text(put(page_of_all.read_text(), "tables", text))
    for method in CATALOG:
        path = DOCS / "algorithms" / f"{method}.md"
        path.write_text(put(path.read_text(), "numbers", own_table(rows, method)))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", nargs="*", help="run folders")
    parser.add_argument(
        "--write-docs", action="store_true", help="put the tables into docs/methods.md and the methods' pages"
    )
    args = parser.parse_args()
    parts = [pd.read_csv(TABLE)] if TABLE.exists() else []
    parts += map(cells_of, args.runs)
    if not parts:
        raise SystemExit(f"no runs given and no {TABLE}")
    rows = pd.concat(parts).drop_duplicates(KEY, keep="last").sort_values(KEY)
    text = page(rows)
    rows.to_csv(TABLE, index=False)
    print(text)
    if args.write_docs:
        write_docs(rows, text)


if __name__ == "__main__":
    main()

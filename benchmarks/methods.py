"""Every method at both tiers: where each cell started, peaked and ended.

    arena run --algos all,cispo+seqmask,sapo-soft+seqmask --envs sokoban,frozen_lake --num-seeds 2 --name cpu
    arena run --algos all,cispo+seqmask,sapo-soft+seqmask --envs sokoban,frozen_lake --num-seeds 2 --name stress \\
        --tier cpu-stress
    python benchmarks/methods.py runs/cpu runs/stress --write-docs

Adds the finished cells of the runs to `benchmarks/methods.csv`, in the place of those it had of the same tier,
environment, method and seed, and prints the tables of all that it holds; `--write-docs` puts them into docs/methods.md.
Without runs: the tables of what is there.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pandas as pd

from arena.algorithms.catalog import CATALOG
from arena.analysis.summary import summarise_cells
from arena.records.reader import find_run, load_evals, load_steps, read_run

ROOT = Path(__file__).parent
TABLE, DOCS = ROOT / "methods.csv", ROOT.parent / "docs" / "methods.md"
KEY = ["tier", "env", "algo", "seed"]
#: Success is held-out, at the tier's evaluation temperature; `tokens` are those sampled for training.
COLUMNS = [*KEY, "best_start", "peak", "final", "collapse_step", "tokens", "seconds", "commit"]
METHODS = [*CATALOG, "cispo+seqmask", "sapo-soft+seqmask"]
BEGIN, END = "<!-- tables: begin -->", "<!-- tables: end -->"


def cells_of(folder: str) -> pd.DataFrame:
    """A row of `COLUMNS` for every finished cell of a run."""
    run = read_run(find_run(folder))
    cells = [cell for cell in run.cells if cell.finished]
    rows = summarise_cells(cells, load_steps(cells), load_evals(cells))
    manifest = json.loads((run.path / "manifest.json").read_text())
    tiers = [cell.recipe.tier for cell in cells if cell.recipe]
    rows = rows.assign(tier=tiers, commit=str(manifest["commit"])[:7])
    return rows[COLUMNS].round({"best_start": 4, "peak": 4, "final": 4, "seconds": 0})


def table(rows: pd.DataFrame) -> list[str]:
    """Markdown of one tier and environment: a row per method, numbers by seed."""
    seeds = sorted(rows.seed.unique())
    base = rows[rows.algo == "grpo"].set_index("seed")
    starts = rows.drop_duplicates("seed").set_index("seed").best_start
    lines = [
        f"Start's best, seeds {', '.join(map(str, seeds))}: {by_seed(starts, seeds)}.",
        "",
        "| | peak | end | gain in points | collapsed | tokens | seconds |",
        "|---|---|---|---|---|---|---|",
    ]
    for algo in sorted(rows.algo.unique(), key=METHODS.index):
        own = rows[rows.algo == algo].set_index("seed")
        gain = 100 * (own.final - own.best_start)
        lines.append(
            f"| {algo} | {by_seed(own.peak, seeds)} | {by_seed(own.final, seeds)} | {gain.mean():+.0f} "
            f"| {own.collapse_step.notna().sum()} of {len(own)} | {times(own.tokens, base.tokens)} "
            f"| {times(own.seconds, base.seconds)} |"
        )
    return lines


def by_seed(values: pd.Series, seeds: list[int]) -> str:
    """Shares as `.65 .80`, a dash where a seed has none."""
    return " ".join(f"{values[seed]:.2f}".replace("0.", ".", 1) if seed in values else "-" for seed in seeds)


def times(values: pd.Series, base: pd.Series) -> str:
    """The mean ratio to GRPO over the seeds that both have."""
    ratio = (values / base).dropna()
    return f"{ratio.mean():.2f}" if len(ratio) else "-"


def page(rows: pd.DataFrame) -> str:
    """All tables, each under its tier and environment."""
    blocks = []
    for (tier, env), part in rows.groupby(["tier", "env"], sort=True):
        blocks.append("\n".join([f"### {tier}, {env}", "", *table(part)]))
    return "\n\n".join(blocks)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", nargs="*", help="run folders")
    parser.add_argument("--write-docs", action="store_true", help="put the tables into docs/methods.md")
    args = parser.parse_args()
    rows = pd.read_csv(TABLE) if TABLE.exists() else pd.DataFrame(columns=COLUMNS)
    rows = pd.concat([rows, *map(cells_of, args.runs)]).drop_duplicates(KEY, keep="last").sort_values(KEY)
    rows.to_csv(TABLE, index=False)
    print(page(rows))
    if args.write_docs:
        before, _, rest = DOCS.read_text().partition(BEGIN)
        DOCS.write_text(f"{before}{BEGIN}\n\n{page(rows)}\n\n{END}{rest.partition(END)[2]}")


if __name__ == "__main__":
    main()

"""Renders `docs/claims.md` from the claims: `python -m arena.claims.page > docs/claims.md`."""

from __future__ import annotations

from arena.claims import CLAIMS, Claim, pool
from arena.claims.cells import SEEDS, commands
from arena.claims.contrast import FINAL, LOST

_HEADER = f"""# Claims

Written by `python -m arena.claims.page > docs/claims.md` from `arena/claims/papers/`; do not edit by hand.

    arena claims [RUN...] [--claim NAME] [--json]
    arena list claims

tests published claims on the finished cells of runs (default: the latest run), each with an effect, Student's 95 %
interval over seeds, and a verdict. The exit code is 0 whatever the verdicts, 2 for an unknown run or claim.

**Cells.** A claim names a tier, methods, environments and changes of the recipe. A cell counts if its recipe
is exactly that, apart from `record`, `checkpoint` and `optim.micro_rows`, which change what is written and
how fast. So a run with `--steps` or a tier of your own has no cells for a claim, and the answer says which
fields differ. Cells of all runs given are taken together, equal ones once. The commands below make the cells
of {SEEDS} seeds, and the last of each block tests the claim on them; all may be run with more. What `arena claims`
prints makes those that the runs lack: of the seeds that they have, or of {SEEDS} where these are fewer than three.
Commands of one run name add to one run, so those of several claims may follow one another.

**Test.** Both sides of a comparison are paired by environment and seed. A seed's value is the mean over
environments of the difference, so seeds are the unit of replication. An environment counts if it has all
cells of every seed that counts; the answer names those that do not, and without them the claim is *inconclusive*,
with what the others came to. Effects are positive in the direction claimed. Times are compared between cells that
record and checkpoint alike.

**Verdict.** A claim that something is larger is *not reproduced* where the interval lies below the smallest
effect of interest ({FINAL.smallest:g} points of success, {LOST.smallest:g} % of the peak): then it excludes 0
in the other direction, or the effect is too small to matter. Else it is *reproduced* where the interval
excludes 0 in the claimed direction, else *inconclusive*, with an estimate of how many more seeds would decide
it. Differences that are the same in all seeds, 0 too, give no interval: two methods that are both at 100 % have
not been compared. A claim that two are alike is reproduced where the interval lies within {FINAL.margin:g} points
of 0 (two one-sided tests), not reproduced where it lies outside. A claim of several parts holds if all do, which
needs no correction for their number; one part that is not reproduced refutes it, at the level of that part: if all
nine parts of a claim had exactly the smallest effect of interest, one would be refuted in about 16 % of experiments
with three seeds. *Not run*: cells are missing, and the commands that make them are printed. The code of the rule,
with its reasons: `arena/claims/base.py`.

**Equal tokens.** Methods are compared at equal steps, and the verdict follows that. Filters sample more, so
the same effect is also given at equal sampled tokens: all cells of one environment and seed at the total of
the one that sampled fewest, evaluations interpolated linearly between. Where that would be another verdict,
the explanation says so.

**Published numbers** are those of the papers' tables (`arena/claims/published/`), on other models and tasks,
without seeds or intervals: reference points, in the measure that the paper prints, which may be another than the
test's. A verdict is about the direction of an effect here, not about its size there.
"""


def render() -> str:
    """The whole page as Markdown."""
    return "\n".join([_HEADER, *(_section(claim) for claim in CLAIMS.values())])


def _section(claim: Claim) -> str:
    lines = commands(pool(()).missing(claim.needs), claims=[claim.name])
    return "\n".join(
        [
            f"## {claim.name}",
            "",
            f"{claim.statement} Source: {claim.source}.",
            "",
            claim.how,
            "",
            *(f"- {part.label}" for part in claim.parts),
            "",
            *([f"Published: {claim.published_text}.", ""] if claim.published else []),
            *(f"    {line}" for line in lines),
            "",
        ]
    )


if __name__ == "__main__":
    print(render(), end="")

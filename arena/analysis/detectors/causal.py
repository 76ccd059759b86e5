"""What the statistical detectors share: alarms on a series that depend on its past only, never on what comes after.

A value is compared with the run's own earlier values, because the scale of a metric differs between environments,
models and trainers; and with an absolute limit, because a multiple of next to nothing is next to nothing. The reference
is a median, so that single steps do not move it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd

from arena.analysis.detectors.base import CellRecords, Status, Verdict

#: Values left out at the start of a run: Adam's first updates move every weight by all of the learning rate.
SKIP = 2
#: Values that a reference is the median of: a fifth of a run of 40 steps, and more than a few odd steps can move.
WINDOW = 8


def last_values(values: pd.Series) -> pd.Series:
    """The reference "before": the median of the `WINDOW` values before each; missing for the first of them."""
    return values.iloc[SKIP:].rolling(WINDOW).median().shift().reindex(values.index)


def first_values(values: pd.Series) -> pd.Series:
    """The reference "start": the first of `last_values`, for all that come after; missing until it is known."""
    medians = last_values(values)
    known = medians.dropna()
    return medians.mask(medians.notna(), known.iloc[0]) if len(known) else medians


def unless_rising(values: pd.Series) -> pd.Series:
    """Whether each value is not above the median of the `WINDOW` values before it; False until there are those."""
    return values <= last_values(values)


@dataclass(frozen=True)
class Bound:
    """A value is out of it that is beyond `limit` and beyond `factor` times the reference (None: not asked).

    A detector's docstring says where its constants come from. Those that it calls a convention were set, not measured;
    what they come to was counted afterwards (docs/detectors.md).
    """

    factor: float | None = None
    limit: float | None = None


@dataclass(frozen=True)
class Rule:
    """When a series of one value a step raises the alarm.

    `what`: the value, for people. `side`: whether values above or below are at fault. `reference`: the run's `start`
    (for what a healthy run keeps), the values just `before` (for what drifts in a healthy run), or none. `hold`:
    values in a row that are out before the alarm; it is raised at the last of them. Two, because single steps far out
    are common in healthy runs. `skip`: values that are not judged, those that the first reference is of.
    """

    what: str
    side: Literal["above", "below"]
    warn: Bound
    critical: Bound
    reference: Literal["start", "before", "none"] = "start"
    hold: int = 2
    skip: int = SKIP + WINDOW

    def of_column(self, name: str) -> Callable[[CellRecords], Verdict]:
        """The `judge` of a detector on a column of `steps`."""

        def judge(records: CellRecords) -> Verdict:
            values = records.column(name)
            assert values is not None  # it is among the detector's needs
            return self.verdict(values)

        return judge

    def verdict(self, values: pd.Series, where: pd.Series | None = None) -> Verdict:
        """On values by step, at fault only at steps where `where` is True, if given.

        DEGENERATE where there are too few for a reference and a value to compare with it.
        """
        values = values.dropna().astype(float)
        if len(values) < max(self.skip + 1, self.hold):
            few = f"steps with a value: {len(values)}"
            compared = f"; the first {self.skip} are what later ones are compared with" if self.skip else ""
            return Verdict(Status.DEGENERATE, few + compared)
        reference = {"start": first_values, "before": last_values}.get(self.reference, pd.Series.copy)(values)
        asked = pd.Series(np.arange(len(values)) >= self.skip, values.index)
        if where is not None:
            asked &= where.reindex(values.index, fill_value=False)
        warned, critical = (self._alarms(values, reference, b, asked) for b in (self.warn, self.critical))
        if not warned.any():
            later = values.iloc[self.skip :]
            most = f"at most {later.max():.3g}" if self.side == "above" else f"at least {later.min():.3g}"
            return Verdict(Status.OK, f"{self.what}: {most}")
        first = int(values.index[warned][0])
        worst = int(values.index[critical][0]) if critical.any() else None
        return Verdict.of(
            Status.WARN if worst is None else Status.CRITICAL,
            self._says(values, reference, first if worst is None else worst),
            values[warned],
            worst,
        )

    def _alarms(self, values: pd.Series, reference: pd.Series, bound: Bound, asked: pd.Series) -> pd.Series:
        """Whether each value raises the alarm, of those that are asked."""
        sign, out = 1 if self.side == "above" else -1, asked
        if bound.limit is not None:
            out = out & (sign * values > sign * bound.limit)
        if bound.factor is not None:
            out = out & (sign * values > sign * bound.factor * reference)
        return out.astype(float).rolling(self.hold).min().eq(1)

    def _says(self, values: pd.Series, reference: pd.Series, step: int) -> str:
        said = f"{self.what}: {values[step]:.3g} at step {step}"
        where = {"start": "at the start", "before": "before"}.get(self.reference)
        return f"{said}, {reference[step]:.3g} {where}" if where else said

    @property
    def words(self) -> str:
        """The definition with its constants, as the documentation has it."""
        levels = "; ".join(
            f"{name} {self._bound(bound)}"
            for name, bound in (("warn", self.warn), ("critical", self.critical))
        )
        return f"{levels}; {self.hold} in a row" if self.hold > 1 else levels

    def _bound(self, bound: Bound) -> str:
        where = {"start": "the start", "before": "the values before"}.get(self.reference)
        parts = [f"{bound.limit:g}"] if bound.limit is not None else []
        parts += [f"{bound.factor:g} times {where}"] if bound.factor is not None else []
        return f"{self.side} {' and '.join(parts)}"

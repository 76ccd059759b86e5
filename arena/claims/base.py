"""What a claim is, what its test answers, and the one rule by which numbers become a verdict.

Seeds are the unit of replication: every test reduces its cells to one number per seed, in the direction claimed.

The rule, for Student's 95 % interval of the mean of those numbers. A claim that something is larger is

- *not reproduced* where the interval lies below the smallest effect of interest: so it does where it excludes 0 in the
  other direction, and where the effect, if there is one, is too small to matter;
- else *reproduced* where the interval excludes 0 in the claimed direction;
- else *inconclusive*: these seeds cannot tell.

A claim that two things are alike is reproduced where the interval lies within the margin of equivalence (two one-sided
tests at 2.5 % each), not reproduced where it lies outside, else inconclusive. Fewer than three seeds, or one and the
same difference in every seed, give no interval and are inconclusive; so is no difference at all, which is what two
methods have that are both at 0 or 100 %, or do not fall.

A claim over environments is about all of them: on some alone it is inconclusive, and the explanation says what these
came to.

A claim of several parts holds if all do: that is an intersection-union test, whose level is that of each part. It is
refuted by any part that is not reproduced, at the level of that part: of nine parts that all have exactly the smallest
effect of interest, one is refuted in about 16 % of experiments with three seeds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

from arena.analysis.statistics import (
    MIN_SEEDS_FOR_INTERVAL,
    MOST_SEEDS,
    PairedDifference,
    paired_difference,
    seeds_needed,
    why_no_interval,
)
from arena.claims.cells import Missing, Need, Pool, in_words, merged
from arena.claims.published import Number

ClaimVerdict = Literal["reproduced", "not reproduced", "inconclusive", "not run"]

#: Of several parts, the first of these that any of them has is the verdict of the whole.
_WORST_FIRST: tuple[ClaimVerdict, ...] = ("not reproduced", "not run", "inconclusive", "reproduced")


@dataclass(frozen=True)
class Outcome:
    """The answer of a test. `effect`, positive in the direction claimed, and its interval `low` to `high`, in `unit`.

    `effect` is None where nothing was run, `low` and `high` where there is no interval. `seeds` are those it rests on;
    `more_seeds`, of an inconclusive one, an estimate of how many more would decide it (None if more than
    `MOST_SEEDS`, or not known). `missing` are the cells that it lacks. `equal_tokens` is the same test at equal
    sampled tokens; the verdict does not follow it. Of a claim of several parts, the numbers are those of the part that
    decides, and `parts` has all.
    """

    label: str
    verdict: ClaimVerdict
    explanation: str
    unit: str = ""
    effect: float | None = None
    low: float | None = None
    high: float | None = None
    seeds: tuple[int, ...] = ()
    more_seeds: int | None = None
    missing: tuple[Missing, ...] = ()
    equal_tokens: Outcome | None = None
    parts: tuple[Outcome, ...] = ()

    @property
    def has_run(self) -> bool:
        """Whether there were cells for it, or for any of its parts."""
        return any(part.verdict != "not run" for part in self.parts or (self,))

    @property
    def effect_text(self) -> str | None:
        """The effect and its interval, "-" for none, without the unit; None without an effect."""
        if self.effect is None:
            return None
        digits = 2 if self.unit == "correlation" else 1
        ends = "-" if self.low is None else f"{self.low:+.{digits}f} to {self.high:+.{digits}f}"
        return f"{self.effect:+.{digits}f} [{ends}]"

    @property
    def seeds_text(self) -> str | None:
        """The seeds, those in a row as 0-4; None for none."""
        return in_words(self.seeds) or None


class Part(Protocol):
    """One testable part of a claim."""

    @property
    def label(self) -> str:
        """What is measured on what, in words."""
        ...

    @property
    def needs(self) -> tuple[Need, ...]:
        """The cells it takes."""
        ...

    def test(self, cells: Pool) -> Outcome:
        """The answer of these cells."""
        ...


@dataclass(frozen=True)
class Claim:
    """A published claim. It holds if all `parts` do; `how` says in a sentence or two what they test, and why so."""

    name: str
    statement: str
    source: str
    how: str
    parts: tuple[Part, ...]
    published: tuple[Number, ...] = ()

    @property
    def published_text(self) -> str:
        """The published numbers in a line; empty without any."""
        return "; ".join(number.text for number in self.published)

    @property
    def needs(self) -> tuple[Need, ...]:
        """The cells that the parts take."""
        return tuple(dict.fromkeys(need for part in self.parts for need in part.needs))

    def test(self, cells: Pool) -> Outcome:
        """The answer of these cells."""
        return all_of([part.test(cells) for part in self.parts])


def not_run(label: str, unit: str, missing: Sequence[Missing], parts: Sequence[Outcome] = ()) -> Outcome:
    """The outcome where cells are not there."""
    told = f"cells are missing: {'; '.join(each.words for each in missing)}"
    return Outcome(label, "not run", told, unit, missing=tuple(missing), parts=tuple(parts))


@dataclass(frozen=True)
class Criterion:
    """What the rule holds a mean against: `smallest` is the smallest effect of interest, or, where `alike` is claimed,
    the margin within which two things are. In the unit of the values."""

    smallest: float
    alike: bool = False

    def verdict(self, low: float, high: float) -> ClaimVerdict:
        """The rule of this module."""
        margin = self.smallest
        if self.alike:
            if -margin < low and high < margin:
                return "reproduced"
            return "not reproduced" if low > margin or high < -margin else "inconclusive"
        if high < margin:
            return "not reproduced"
        return "reproduced" if low > 0 else "inconclusive"

    def distances(self, mean: float) -> list[float]:
        """How far the mean is from each bound beyond which there would be a verdict."""
        if self.alike:
            return [abs(abs(mean) - self.smallest)]
        return [distance for distance in (mean, self.smallest - mean) if distance > 0]


def judge(
    label: str,
    by_seed: Mapping[int, float],
    bounds: Criterion,
    unit: str,
    explanation: str = "",
    fixed: bool = False,
    complete: bool = True,
) -> Outcome:
    """The verdict on one value per seed, positive in the claimed direction; missing values are left out.

    `fixed`: the values do not depend on the seed but by accident (bytes), so that equal ones are an interval.
    `complete`: whether only more seeds could decide it; where environments are missing, that is not said.
    """
    kept = {seed: value for seed, value in sorted(by_seed.items()) if not math.isnan(value)}
    if not kept:
        return Outcome(label, "inconclusive", _joined(explanation, "no seed has a value"), unit)
    found = paired_difference([0.0] * len(kept), list(kept.values()))
    reason = why_no_interval(len(kept), found.spread.same and not fixed)
    mean, ends = found.spread.mean, None if reason else found.spread.interval
    verdict = bounds.verdict(*ends) if ends else "inconclusive"
    waits = complete and verdict == "inconclusive"
    outcome = Outcome(
        label,
        verdict,
        explanation,
        unit,
        effect=mean,
        low=ends[0] if ends else None,
        high=ends[1] if ends else None,
        seeds=tuple(kept),
        more_seeds=_more_seeds(found, bounds) if waits else None,
    )
    return replace(outcome, explanation=_joined(explanation, reason, _more(outcome) if waits else None))


def on_some(outcome: Outcome, envs: Sequence[str], named: Sequence[str]) -> Outcome:
    """The outcome of a claim over the environments `named`, of which only `envs` could be looked at."""
    if len(envs) == len(named) or outcome.verdict == "inconclusive":
        return outcome
    told = f"{outcome.verdict} on {', '.join(envs)} alone, {len(envs)} of {len(named)} environments"
    return replace(outcome, verdict="inconclusive", explanation=_joined(outcome.explanation, told))


def _more_seeds(found: PairedDifference, bounds: Criterion) -> int | None:
    """How many more seeds would bring the interval beyond the nearest bound; at least the three that give one."""
    seeds = found.spread.seeds
    if seeds < 2:
        return MIN_SEEDS_FOR_INTERVAL - seeds
    if found.spread.same:
        return MIN_SEEDS_FOR_INTERVAL - seeds if seeds < MIN_SEEDS_FOR_INTERVAL else None
    squares = sum((value - found.spread.mean) ** 2 for value in found.differences)
    deviation = math.sqrt(squares / (seeds - 1))
    # To lie within a margin, the interval has to keep clear of both ends: nine of ten times of each.
    power = 0.9 if bounds.alike else 0.8
    counts = [seeds_needed(distance, deviation, power) for distance in bounds.distances(found.spread.mean)]
    enough = [count for count in counts if count is not None]
    return max(1, min(enough) - seeds) if enough else None


def _more(outcome: Outcome) -> str | None:
    """In words, of an inconclusive outcome with an interval; without one, that it takes three has been said."""
    if outcome.low is None:
        return None
    if outcome.more_seeds is None:
        return f"more than {MOST_SEEDS} seeds would not decide it"
    return f"about {outcome.more_seeds} more {'seed' if outcome.more_seeds == 1 else 'seeds'} would decide it"


def all_of(parts: Sequence[Outcome]) -> Outcome:
    """The conjunction: see the rule of this module. Of one part, that part."""
    if len(parts) == 1:
        return parts[0]
    verdict = next(v for v in _WORST_FIRST if any(p.verdict == v for p in parts))
    those = [part for part in parts if part.verdict == verdict]
    decides = min(those, key=lambda part: math.inf if part.effect is None else part.effect)
    counts = [f"{sum(p.verdict == v for p in parts)} {v}" for v in reversed(_WORST_FIRST)]
    told = ", ".join(count for count in counts if not count.startswith("0 "))
    waits = [part.more_seeds for part in those]
    missing = merged(each for part in parts for each in part.missing)
    if len(those) == len(parts) and verdict == "not run":
        return not_run(decides.label, decides.unit, missing, parts)
    return replace(
        decides,
        verdict=verdict,
        more_seeds=max((n for n in waits if n is not None), default=None) if None not in waits else None,
        explanation=_joined(
            f"of {len(parts)} parts {told}",
            None if verdict == "not run" else f"decided by: {decides.label}",
        ),
        missing=missing,
        parts=tuple(parts),
    )


def _joined(*texts: str | None) -> str:
    return "; ".join(text for text in texts if text)


def as_json(claim: Claim, outcome: Outcome) -> dict[str, Any]:
    """For programs; what is missing is null."""
    published = [vars(each) for each in claim.published]
    return {
        "claim": claim.name,
        "statement": claim.statement,
        "source": claim.source,
        "published": published,
    } | _fields(outcome)


def _fields(outcome: Outcome) -> dict[str, Any]:
    fields = {
        key: value for key, value in vars(outcome).items() if key not in ("missing", "equal_tokens", "parts")
    }
    return fields | {
        "commands": [each.command for each in outcome.missing],
        "equal_tokens": _fields(outcome.equal_tokens) if outcome.equal_tokens else None,
        "parts": [_fields(part) for part in outcome.parts],
    }

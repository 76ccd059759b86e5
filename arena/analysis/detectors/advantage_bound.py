"""The bound of a group-normalised advantage.

(r - mean) / std of n values, with the Bessel-corrected deviation, is at most (n-1)/sqrt(n) in size: reached where one
value differs from all others. A larger one means other groups than the ids say, a population deviation, rewards in
place of advantages (verl leaves the raw reward in a group of one; here the bound is 0), or a part added to another.
Judged are the episode part of GRPO's rule, GiGPO's and EMPG's (recorded before the modulation), and GiGPO's step part
among the visits of an anchor; not their sums, nor rules without a bound (Dr. GRPO, RLOO, GAE, REINFORCE++).
"""

from __future__ import annotations

from arena.analysis.detectors.base import CellRecords, Detector, Status, Verdict
from arena.analysis.detectors.parts import NORMALISED, cannot_judge, group_parts

#: Rounding of float64 sums, with room; the epsilon beside the deviation makes advantages smaller.
TOLERANCE = 1e-6


def judge(records: CellRecords) -> Verdict:
    """The steps in which a part exceeds its bound, with the |A| that exceeds it most."""
    if verdict := cannot_judge(records, NORMALISED, "group-normalised part"):
        return verdict
    parts = group_parts(records)
    faults = parts[parts.over > TOLERANCE]
    if faults.empty:
        return Verdict(Status.OK, f"|A| is within (n-1)/sqrt(n) of its group in all {len(parts)} steps")
    first = faults.iloc[0]
    bound = (first["size"] - 1) / first["size"] ** 0.5
    return Verdict.of(
        Status.CRITICAL,
        f"|A| exceeds its bound in {len(faults)} of {len(parts)} steps; first {first.largest:.4g} where "
        f"{first['size']:.0f} values allow {bound:.4g}",
        faults.largest,
    )


DETECTOR = Detector(
    name="advantage-bound",
    title="A normalised advantage exceeds its bound",
    kind="check",
    why="Such a value cannot come from normalising the group that it is recorded in: the update pushes with it all the "
    "same.",
    needs=("recipe", "episodes.advantage"),
    advice="Compare episodes.advantage with (reward - mean)/std of its group; look at group ids and groups of one.",
    source="reference: |A| <= (G-1)/sqrt(G), GRPO (arXiv 2402.03300), GiGPO (arXiv 2505.10978)",
    judge=judge,
)

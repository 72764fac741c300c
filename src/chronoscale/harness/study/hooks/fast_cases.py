"""Cases: FAST's speed-ups under other assumptions, and which of them comes near a printed one (Table 4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from chronoscale.harness.study.findings import AGREES, NOT_PRINTED, UNKNOWN

NEAR, PART = 0.15, 0.7  # a case explains what it brings within this of the printed; part, where it leaves at most this of the difference


def fits(lines: Sequence[Mapping[str, Any]], cases: Sequence[str]) -> list[dict[str, Any]]:
    """Return how well each assumption explains all printed speed-ups of FAST's Table 4, one row an assumption.

    lines: each with `printed` and our speed-up under each of `cases` (assumptions). Columns: 'assumption'; 'off by, times': the factor
    between ours and the printed (geometric mean); 'within 15 %': how many rows are, 'of' how many.
    """
    known = [line for line in lines if np.isfinite(line["printed"])]
    ours = np.asarray([[line[name] for line in known] for name in cases], np.float64)
    off = np.abs(np.log(ours / np.asarray([line["printed"] for line in known], np.float64)))
    columns = zip(cases, np.exp(off.mean(1)), (off <= np.log(1.15)).sum(1), strict=True)
    return [{"assumption": name, "off by, times": apart, "within 15 %": count, "of": len(known)} for name, apart, count in columns]


def cause(line: Mapping[str, Any], assumptions: Mapping[str, int], lines: Sequence[Mapping[str, Any]]) -> str:
    """Return in words which assumption brings our speed-up near the printed one, the reason of a row of FAST's Table 4.

    Of the cases within 15 % that leave at most `PART` of the difference, that with fewest assumptions, then the one that fits all rows
    best. line: `printed`, and a speed-up for each case, the first case being ours. assumptions: case -> how many it makes. lines: what
    `fits` returned.
    """
    printed, (base, *others) = line["printed"], assumptions
    off = {str(one["assumption"]): float(one["off by, times"]) for one in lines}
    if not np.isfinite(printed):
        return NOT_PRINTED
    if abs(line[base] / printed - 1) <= AGREES:
        return f"within {AGREES:.0%}"

    def apart(case: str) -> float:
        return float(abs(np.log(line[case] / printed)))

    near = [case for case in others if apart(case) <= min(np.log1p(NEAR), PART * apart(base))]
    if near:
        best = min(near, key=lambda case: (assumptions[case], off[case]))
        return f"{best}: {line[best]:.2f}"
    best = min(others, key=lambda case: (round(apart(case), 3), assumptions[case]))
    if apart(best) > PART * apart(base):
        return UNKNOWN
    return f"part of it: {best}: {line[best]:.2f}; the rest is {UNKNOWN}"

"""What REAL-L's solver did in the plans of REAL's studies: how often and how long it ran, and whether it found a shorter schedule."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from chronoscale.harness.study.point import Points, Record

RAN = re.compile(r"after (?P<seconds>[\d.]+) s\b[^(]*\((?P<solver>[^,]+), ")  # of the note of a plan whose program a solver was given
KEPT = ("REAL-G+ not improved on", "REAL-G+ instead")


class SolverRun(NamedTuple):
    """Solver's run on the integer program of one plan of REAL-L's, as the note in its schedule tells.

    seconds: wall time. solver: name and version. improved: whether the schedule is shorter than the one it started from (`real-g+-own`'s).
    timed_out: whether time ran out with the gap above the paper's 10 %.
    """

    seconds: float
    solver: str
    improved: bool
    timed_out: bool

    @classmethod
    def of(cls, note: str) -> SolverRun | None:
        """Read the note of a schedule. Returns None where no solver ran."""
        match = RAN.search(note)
        if match is None:
            return None
        return cls(float(match["seconds"]), match["solver"], not any(words in note for words in KEPT), "timed out" in note)


def settled(why: str, plans: Points) -> str:
    """Return a row's reason `why`, preceded by what a solver did in its plans, for rows of REAL's studies; `why` where none was asked.

    plans: points that the row sums up, with metric `note` (what a planner says of its schedule).
    """
    notes = [note for note in plans.all("note") if isinstance(note, str) and note.startswith("ILP")]
    runs = [run for note in notes if (run := SolverRun.of(note)) is not None]
    return (
        f"solved in {len(runs)} of {len(plans)}, shorter than real-g+-own's in {sum(run.improved for run in runs)}; {why}" if notes else why
    )


def solver_runs(plans: Sequence[Record]) -> list[str]:
    """Return notes of REAL's studies on what solvers did: how many plans, how long, how much shorter; one for each strategy that asks one.

    plans: points with metrics `note` (what the planner says) and `gap` (certified distance from the optimum).
    """
    plans, sentences = Points(plans), []
    for name in dict.fromkeys(plans.all("strategy")):
        asked = [one for one in plans.where(strategy=name) if str(one.get("note", "")).startswith("ILP")]
        if not asked:
            continue
        runs = [run for one in asked if (run := SolverRun.of(one.note)) is not None]
        solvers = ", ".join(f"{solver} in {count}" for solver, count in Counter(run.solver for run in runs).items())
        seconds = [run.seconds for run in runs]
        took = f" ({solvers}), {min(seconds):.1f} to {max(seconds):.1f} s each, {sum(seconds):.0f} s in all" if runs else ""
        late = sum(run.timed_out for run in runs)
        sentences.append(
            f"{name}: a solver ran in {len(runs)} of {len(asked)} plans{took}; time ran out in {late}, and a schedule shorter than "
            f"real-g+-own's was found in {sum(run.improved for run in runs)}. Gaps are at most {max(one.gap for one in asked):.1%}."
        )
    return sentences

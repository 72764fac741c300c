"""Making: studies made anew, those that time nothing in parallel processes, then the others one after another; one's failure is its own."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import Literal

from chronoscale.errors import MachineError, UserError, in_words
from chronoscale.harness.reproduce import pages
from chronoscale.harness.reproduce.state import StudyState
from chronoscale.harness.study.findings import Told
from chronoscale.harness.study.study_run import run_study
from chronoscale.harness.sweep.sweep import sweep


@dataclass(frozen=True, slots=True)
class StudyJob:
    """Study to make, for a process that may be another one. until: unix seconds after which it must not end by what it took last.
    workers: processes that work on its points."""

    state: StudyState
    until: float
    workers: int


@dataclass(frozen=True, slots=True)
class MadeStudy:
    """What became of a study: made, failed, or left because too little time was left. error: a failure's line."""

    state: StudyState
    status: Literal["made", "left", "failed"]
    seconds: float = 0.0
    error: str = ""


def make(job: StudyJob, on_progress: Told = lambda _: None) -> MadeStudy:
    """Run a study and write its result and page; whatever error ends it is told, not raised."""
    state, begin = job.state, time.time()
    if begin + state.seconds > job.until:
        return MadeStudy(state, "left")
    study = state.study
    try:
        findings = run_study(study.file, study.file_name, study.printed, state.folder, on_progress, workers=job.workers)
        pages.write(study, findings, state.folder)
    except Exception as error:
        return MadeStudy(state, "failed", time.time() - begin, _line(error))
    return MadeStudy(state, "made", time.time() - begin)


def _line(error: Exception) -> str:
    if isinstance(error, UserError | MachineError):
        return " ".join(str(error).split())
    if isinstance(error, OSError):
        return in_words(error)
    return " ".join(f"{type(error).__name__}: {error}".split())


def make_all(
    states: Sequence[StudyState],
    workers: int,
    budget_s: float,
    on_made: Callable[[MadeStudy, float], None],
    on_progress: Told,
) -> list[MadeStudy]:
    """Make studies, the longest first, and return what became of each.

    Those that execute nothing are shared out to `workers` processes; the others are made after them, one at a time, so that nothing
    disturbs what they time. budget_s: none is begun that would not end within so many seconds by what it took last; infinite: all are.
    on_made: called with each study that has come to its end, and about how many seconds those after it will take. on_progress: gets what is
    under way.
    """
    until = time.time() + budget_s if budget_s < inf else inf
    longest = sorted(states, key=lambda state: -state.seconds)
    beside, alone = ([state for state in longest if state.study.executes is timed] for timed in (False, True))
    if min(workers, len(beside)) == 1:
        beside, alone = [], beside + alone
    done: list[MadeStudy] = []

    def take(_: int, made: MadeStudy) -> None:
        done.append(made)
        ended = {one.state.name for one in done}
        waiting = [state for state in beside if state.name not in ended]
        timed = [state.seconds for state in alone if state.name not in ended]
        seconds = [state.seconds for state in waiting]
        on_made(made, max([sum(seconds) / workers, *seconds[:1]]) + sum(timed))
        if waiting:
            on_progress(f"now {', '.join(state.name for state in waiting[:workers])}")

    if beside:
        on_progress(f"now {', '.join(state.name for state in beside[:workers])}")
        points = max(1, workers // len(beside))
        try:
            sweep(make, {i: StudyJob(state, until, points) for i, state in enumerate(beside)}, take, workers)
        except MachineError as error:
            ended = {one.state.name for one in done}
            lost = [MadeStudy(state, "failed", 0.0, _line(error)) for state in beside if state.name not in ended]
            for made in lost:
                take(0, made)

    def say(name: str, line: str) -> None:
        on_progress(f"{name}: {line}")

    for state in alone:
        take(0, make(StudyJob(state, until, workers), partial(say, state.name)))
    return done

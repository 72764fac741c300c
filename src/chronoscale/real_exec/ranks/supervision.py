"""Supervision: whether the ranks of a job make progress; if not, which of them does not, where it is, and who waits for it."""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import psutil

from chronoscale.real_exec.ranks.positions import Phase, Position, PositionPage

SAY_S = 1.0  # between two lines on how far a job has come
SUSPECT = 0.25  # of the patience, after which the system is asked now and then whether a rank computes
ASK = 0.05  # of the patience, between two questions
STOPPED_S = 2.0  # between two looks, at least, after which the watch was stopped, or slept
COMPUTES = 0.05  # of a core: more than who only waits takes, with the heartbeats of its libraries


@dataclass(frozen=True, slots=True)
class Patience:
    """The time that a rank may stay where it is before its launcher takes it to hang: `seconds`, or `rows` times as long as the longest row
    so far, whichever is more.
    """

    seconds: float = 60.0
    rows: float = 10.0


class ProcessState(NamedTuple):
    """A rank's process as the system sees it.

    busy_s: CPU seconds so far (with children); then whether it is stopped, waits for a disk, is being debugged.
    """

    busy_s: float
    stopped: bool = False
    on_disk: bool = False
    traced: bool = False


def process_state(pid: int) -> ProcessState:
    """Read the state of a rank's process from /proc, for the launcher that watches it: CPU time, and whether it is held up.

    pid: its process id. CPU time 0, and held up by nothing, for one that has ended.
    """
    try:
        rank = psutil.Process(pid)
        family, status = [rank, *rank.children(recursive=True)], rank.status()
    except psutil.Error:
        return ProcessState(0.0)
    busy = 0.0
    for process in family:
        try:
            times = process.cpu_times()
            busy += times.user + times.system
        except psutil.Error:
            pass  # it ended just now
    return ProcessState(busy, *(status == state for state in (psutil.STATUS_STOPPED, psutil.STATUS_DISK_SLEEP, psutil.STATUS_TRACING_STOP)))


class _Rank:
    """State of a rank as its supervisor knows it: the last sign of progress, and the system's reports on its process since."""

    def __init__(self, now: float) -> None:
        self.position = Position()
        self.since = now
        self.arrived = now
        self.asked: tuple[float, ProcessState] | None = None


class Watch:
    """Watch of the launcher on the positions of all ranks. hung: why the job is taken to hang, in words; '' while it makes progress.

    A rank moves when its position changes, and while it sleeps as announced. Where nothing says how long a position may last (outside of
    passes, and in the first pass over a schedule), a rank that computes or waits for a disk counts as moving, unless it is in a collective.
    A job hangs when a rank is stopped, or stays in a row that was timed before and waits for nobody, or when no rank moves at all.
    first: the number of the first rank here, where others of the job are on other machines; then a rank that waits for others never hangs.
    """

    def __init__(
        self,
        pages: Sequence[PositionPage],
        pids: Sequence[int],
        patience: Patience,
        clock: Callable[[], float] = time.monotonic,
        ask: Callable[[int], ProcessState] = process_state,
        first: int | None = None,
    ) -> None:
        self._pages = pages
        self._pids = pids
        self._patience = patience
        self._clock = clock
        self._ask = ask
        self._first, self._apart = first or 0, first is not None
        self._ranks = [_Rank(clock()) for _ in pages]
        self._longest_s = 0.0
        self._reported = clock()
        self._looked = clock()
        self.hung = ""

    @property
    def limit_s(self) -> float:
        """Return the seconds that a rank may stay at one row before it is taken to hang."""
        return max(self._patience.seconds, self._patience.rows * self._longest_s)

    def look(self, ended: Container[int]) -> str:
        """Check whether all ranks make progress, and set `hung` where not; the launcher calls it several times a second.

        ended: ranks that have ended. Returns the progress of the first rank, in words, or '' where it is too early for another line.
        """
        now = self._clock()
        if (gap := now - self._looked) > max(STOPPED_S, SUSPECT * self.limit_s):  # it is this process that was stopped, not they
            for state in self._ranks:
                state.since = state.since + gap
                state.arrived = state.arrived + gap
                state.asked = None
        self._looked = now
        running = [rank for rank in range(len(self._ranks)) if rank not in ended]
        for rank in running:
            self._follow(rank, now)
        stuck = [rank for rank in running if now - self._ranks[rank].since > self.limit_s and not self._waits_elsewhere(rank)]
        if stuck and (len(stuck) == len(running) or any(self._hangs_by_itself(rank) for rank in stuck)):
            self.hung = self._blame(running, stuck, ended, now)
        if now - self._reported < SAY_S:
            return ""
        self._reported = now
        for rank in running:
            if now - (state := self._ranks[rank]).arrived > self.limit_s and not state.position.waiting:
                return f"rank {self._first + rank} has computed for {now - state.arrived:.0f} s {state.position}"
        return self._ranks[0].position.text

    @property
    def waits(self) -> str:
        """Return, in words, for whom the one rank here has waited for too long, where others of the job are on other machines; '' else."""
        state, now = self._ranks[0], self._clock()
        if not (self._waits_elsewhere(0) and now - state.since > self.limit_s):
            return ""
        return f"rank {self._first} has waited for {now - state.since:.0f} s {state.position}"

    def _waits_elsewhere(self, rank: int) -> bool:
        """Return whether a rank waits for ranks of other machines, which are watched there."""
        state = self._ranks[rank]
        return self._apart and state.position.waiting and not (state.asked is not None and state.asked[1].stopped)

    def _hangs_by_itself(self, rank: int) -> bool:
        """Return whether a stuck rank hangs whatever the others do."""
        state = self._ranks[rank]
        stopped = state.asked is not None and state.asked[1].stopped
        return stopped or (state.position.timed and bool(state.position.rows) and not state.position.waiting)

    def _follow(self, rank: int, now: float) -> None:
        """Update what is known of a rank's moves."""
        state, position = self._ranks[rank], self._pages[rank].read()
        stayed = now - state.since
        if position != state.position:
            if state.position.phase is Phase.PASS and not state.position.waiting:  # in a row, or where it waits for its device
                self._longest_s = max(self._longest_s, now - state.arrived)
            state.position = position
            state.since = now
            state.arrived = now
            state.asked = None
        elif position.due_s > now:
            state.since = now
        elif stayed > SUSPECT * self.limit_s and (state.asked is None or now - state.asked[0] >= ASK * self.limit_s):
            before, state.asked = state.asked, (now, self._ask(self._pids[rank]))
            if state.asked[1].traced:
                state.since = now - SUSPECT * self.limit_s
            if before is None or position.timed or (position.rows and position.waiting):
                return
            works = state.asked[1].on_disk or state.asked[1].busy_s - before[1].busy_s > COMPUTES * (now - before[0])
            if works:
                state.since = now - SUSPECT * self.limit_s

    def _blame(self, running: Sequence[int], stuck: Sequence[int], ended: Container[int], now: float) -> str:
        """Return one line: which ranks do not move, where, for how long, and which wait for them."""
        stopped = [rank for rank in stuck if self._ask(self._pids[rank]).stopped]
        guilty = stopped or [rank for rank in stuck if not self._ranks[rank].position.waiting]
        gone = [f"rank {self._first + rank} has ended" for rank in range(len(self._ranks)) if rank in ended]
        others = [f"rank {self._first + rank} {self._does(rank)} {self._ranks[rank].position}" for rank in running if rank not in guilty]
        parts = []
        for rank in guilty:
            stays = f"rank {self._first + rank} has not moved for {now - self._ranks[rank].since:.0f} s"
            parts.append(f"{stays}{', it is stopped,' * (rank in stopped)} {self._ranks[rank].position}")
        if not guilty:
            parts.append(f"ranks have waited for each other for {now - max(self._ranks[rank].since for rank in stuck):.0f} s")
        return "; ".join([*parts, *others, *gone])

    def _does(self, rank: int) -> str:
        return "waits" if self._ranks[rank].position.waiting else "is"

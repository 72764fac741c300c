"""Positions: where each rank of a job is, in a memory-mapped file that ranks write and their supervisor reads."""

from __future__ import annotations

import mmap
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

from chronoscale.real_exec.execution.task import Task
from chronoscale.real_exec.ranks.membership import Membership
from chronoscale.strategies.schedule import COLLECTIVES, Lane, Op

FILE = "positions"
PAGE = 4096  # bytes a rank: cells of 8 bytes, then text
TEXT = 1024  # where the text begins
_PHASE, _PASSES, _TIMED, _DUE, _ROWS = 0, 1, 2, 3, 4  # cells; the last begins one a lane
_OPS = 64  # of a cell: (row + 1) * _OPS + op, negative when the row is over


class Phase(IntEnum):
    """A phase of a rank's work, as the launcher that watches it sees it."""

    STARTING = 0
    JOINING = 1
    PREPARING = 2
    PASS = 3
    MEETING = 4
    TESTING = 5
    LEAVING = 6
    SAVING = 7


WAITING = frozenset({Phase.JOINING, Phase.MEETING, Phase.LEAVING})  # where ranks wait for each other
_WORDS = {
    Phase.STARTING: "starting",
    Phase.JOINING: "joining the others",
    Phase.PREPARING: "preparing",
    Phase.PASS: "looking for its next row",
    Phase.MEETING: "meeting the others around a pass",
    Phase.TESTING: "testing",
    Phase.LEAVING: "leaving together",
    Phase.SAVING: "writing results",
}


@dataclass(frozen=True, slots=True)
class Position:
    """A rank's place in its work, read by the launcher that watches it; equal to an earlier position where the rank has not moved.

    phase; passes: how many it has begun; rows: that it is in, as (row, operation), in order of lanes; done: the rows that lanes ended last.
    timed: it has passed over this schedule before, so that its rows' times are known. text: how far its job is. due_s: until when it has
    announced that it sleeps, by the monotonic clock.
    """

    phase: Phase = Phase.STARTING
    passes: int = 0
    timed: bool = False
    rows: tuple[tuple[int, Op], ...] = ()
    done: tuple[int, ...] = ()
    text: str = ""
    due_s: float = 0.0

    @property
    def waiting(self) -> bool:
        """Return whether the rank may be waiting for other ranks.

        It is in collectives only, or, outside of rows, in a phase where ranks meet.
        """
        return all(op in COLLECTIVES for _, op in self.rows) if self.rows else self.phase in WAITING

    def __str__(self) -> str:
        rows = " and ".join(f"row {row} ({op.name})" for row, op in self.rows)
        where = f"at {rows}" if rows else f"while {_WORDS[self.phase]}"
        return f"{where}, {self.text}" if self.text else where


class PositionPage:
    """Page of one rank in the memory-mapped file of positions: the rank writes where it is, its launcher reads that.

    report: passes the exception that ends this rank to the launcher, before anything is closed that other ranks may fail by. give_up: ends
    the rank for what one of its threads has raised, while another waits.
    """

    report: Callable[[BaseException], object] = staticmethod(lambda _: None)
    give_up: Callable[[BaseException], object] = staticmethod(lambda _: None)

    def __init__(self, page: memoryview) -> None:
        self._page = page
        self._cells = page[:TEXT].cast("q")
        self._passed = set[str]()

    def enter(self, phase: Phase) -> None:
        """Record for the launcher that this rank begins a phase."""
        self._cells[_PHASE], self._cells[_TIMED] = phase, 0
        for lane in Lane:
            self._cells[_ROWS + lane] = 0

    def enter_pass(self, schedule: str) -> None:
        """Record for the launcher that this rank begins a pass over the schedule of this name."""
        self.enter(Phase.PASS)
        self._cells[_PASSES] += 1
        self._cells[_TIMED] = schedule in self._passed
        self._passed.add(schedule)

    def set_text(self, text: str) -> None:
        """Record for the launcher, in words, how far this rank has come with its job."""
        data = text.encode()[: PAGE - TEXT - 1]
        self._page[TEXT : TEXT + len(data) + 1] = data + b"\0"

    def announce_sleep(self, until: int) -> None:
        """Record for the launcher that this rank sleeps on purpose until then, ns of `time.perf_counter_ns`, and does not hang."""
        self._cells[_DUE] = max(self._cells[_DUE], until)

    def record_rows(self, run: Callable[[Task], None]) -> Callable[[Task], None]:
        """Return `run`, which executes a row on this rank, with each row's begin and end recorded for the launcher: two stores into shared
        memory a row.
        """
        cells = self._cells

        def step(task: Task) -> None:
            lane, row = _ROWS + task.lane, (task.task + 1) * _OPS + task.op
            cells[lane] = row
            run(task)
            cells[lane] = -row

        return step

    def read(self) -> Position:
        """Return the rank's position, for the launcher: its phase, the rows that it runs, and how far its job is."""
        rows = self._cells[_ROWS : _ROWS + len(Lane)].tolist()
        text, _, _ = bytes(self._page[TEXT:PAGE]).partition(b"\0")
        return Position(
            Phase(self._cells[_PHASE]),
            self._cells[_PASSES],
            bool(self._cells[_TIMED]),
            tuple((cell // _OPS - 1, Op(cell % _OPS)) for cell in rows if cell > 0),
            tuple(cell for cell in rows if cell < 0),
            text.decode(errors="replace"),
            self._cells[_DUE] / 1e9,
        )


def make_file(folder: Path, ranks: int) -> None:
    """Create the file in which a job's ranks record their progress: the phase of work, the pass, and the schedule rows that they run.

    A page of zeros for each of `ranks` ranks, which it maps into memory; the launcher reads it to see that all move. folder: the job's
    private one.
    """
    (folder / FILE).write_bytes(bytes(ranks * PAGE))


def pages(folder: Path, ranks: int) -> Sequence[PositionPage]:
    """Return the pages on which a job's ranks record their progress, by rank, for the launcher that watches them.

    folder: the job's private one, in which `make_file` has made the file.
    """
    return [_map_page(folder / FILE, rank) for rank in range(ranks)]


def _map_page(path: Path, rank: int) -> PositionPage:
    with path.open("r+b") as file:
        return PositionPage(memoryview(mmap.mmap(file.fileno(), PAGE, offset=rank * PAGE)))


def private_page() -> PositionPage:
    """Return a page that is in no file, for a rank that no launcher watches."""
    return PositionPage(memoryview(bytearray(PAGE)))


_own = private_page()
_of_thread = threading.local()  # page: of the virtual rank that the thread executes


def own_page() -> PositionPage:
    """Return the page on which this rank records its progress; nobody reads it unless our own launcher has started the process."""
    page: PositionPage = getattr(_of_thread, "page", _own)
    return page


def own_page_of_thread(page: PositionPage) -> None:
    """Have the calling thread, which executes a virtual rank, write where that is to a page of its own until the thread ends."""
    _of_thread.page = page


def join(member: Membership) -> None:
    """Have this rank record its progress, from now on, on the page of the job's file that its launcher reads; called as it starts.

    member: its rank and the job's folder. Nothing changes under another launcher, which gives no folder.
    """
    global _own
    if member.folder:
        _own = _map_page(Path(member.folder) / FILE, member.seat)

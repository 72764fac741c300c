"""Root cause: of all ranks of a job that failed, the failure that brought about the others, and the error that reports it."""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from chronoscale.errors import MachineError, UserError
from chronoscale.real_exec.ranks.failure import Failure, FailureKind
from chronoscale.real_exec.ranks.positions import PositionPage

_BY_SYSTEM = (signal.SIGKILL, signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE)
_SYSTEM, _RECORDED, _ABORTED, _SILENT, _FOLLOWED = range(5)


class RootCause(NamedTuple):
    """A failure of one rank as a candidate for the cause of all other ranks' failures.

    The lower the order, the nearer to the cause; among equal ones the earlier (at_s). certain: no other can have caused it, so that none
    has to be waited for. trace: Python's traceback, '' where there is none to show.
    """

    order: int
    at_s: float
    error: UserError | MachineError
    certain: bool = False
    trace: str = ""


def find_root_cause(job: str, ended: Mapping[int, int], pages: Sequence[PositionPage], folder: Path, first: int = 0) -> RootCause:
    """Return, for the launcher's error, which of a job's ranks failed first and why; at least one has ended badly.

    job: its name. ended: exit codes, or minus signals, by rank, in the order in which they ended. pages: where each rank has recorded its
    progress. folder: where ranks leave records of failures, also those that have not ended yet. first: the rank to
    which the first page belongs, where others of the job are on other machines.
    """
    recorded = {seat: failure for seat in range(len(pages)) if (failure := Failure.load(folder, first + seat)) is not None}
    silent = [
        _unrecorded_cause(job, first + seat, status, pages[seat], folder)
        for seat, status in ended.items()
        if status and seat not in recorded
    ]
    return min(
        [*silent, *(_recorded_cause(job, failure) for failure in recorded.values())],
        key=lambda candidate: (candidate.order, candidate.at_s),
    )


def _recorded_cause(name: str, failure: Failure) -> RootCause:
    """Rate a failure that its rank has recorded: an unexpected exception may follow from another rank's end."""
    followed, surprised = failure.kind is FailureKind.PEER, failure.kind is FailureKind.UNEXPECTED
    return RootCause(_FOLLOWED if followed else _RECORDED, failure.at_s, failure.error(name), not (followed or surprised), failure.trace)


def _unrecorded_cause(name: str, rank: int, status: int, page: PositionPage, folder: Path) -> RootCause:
    """Rate a rank that ended without a record, by its exit status and its last line of output."""
    words = last_line(folder / f"rank-{rank}.log")
    if status > 0:
        return RootCause(_SILENT, 0.0, MachineError(f"rank {rank} of '{name}' ended with code {status}: {words or 'without a word'}"))
    lost = f"rank {rank} of '{name}' was lost ({_name(-status)}) {page.read()}"
    if -status in _BY_SYSTEM:
        return RootCause(_SYSTEM, 0.0, MachineError(lost), certain=True)
    return RootCause(_ABORTED, 0.0, MachineError(f"{lost}: {words}" if words else lost))


def _name(number: int) -> str:
    return signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"


def last_line(file: Path) -> str:
    """Return the last line of a file that a rank or its server wrote its errors to; '' for a file that is missing or empty."""
    try:
        lines = file.read_text(errors="replace").split("\n")
    except FileNotFoundError:
        return ""
    return next((line.strip() for line in reversed(lines) if line.strip()), "")

"""Cause: of all ranks of a job that failed, the one that the others failed by, and what to say of it."""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from chronoscale.errors import MachineError, UserError
from chronoscale.real_exec.failure import Failure, FailureKind
from chronoscale.real_exec.positions import Positions

_BY_SYSTEM = (signal.SIGKILL, signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE)
_SYSTEM, _KNOWN, _ABORTED, _SURPRISED, _FOLLOWED = range(5)
_ORDER = {FailureKind.UNEXPECTED: _SURPRISED, FailureKind.PEER: _FOLLOWED}


class Cause(NamedTuple):
    """The lower the order, the nearer to the cause."""

    order: int
    error: UserError | MachineError

    @property
    def certain(self) -> bool:
        """Whether it needs no other: a signal of the system, or what a rank says of itself. Others may follow from it, and end first."""
        return self.order <= _KNOWN


def cause(name: str, ended: Mapping[int, int], pages: Sequence[Positions], folder: Path, output: Path) -> Cause:
    """Return the cause among ranks of the job `name` that ended, at least one of them badly.

    ended: exit codes, or minus signals, by rank, in the order in which they ended. folder: where ranks left records. output: where Python's
    trace of what nobody expected is kept.
    """
    return min(
        (_of(name, rank, status, pages[rank], folder, output) for rank, status in ended.items() if status), key=lambda one: one.order
    )


def _of(name: str, rank: int, status: int, page: Positions, folder: Path, output: Path) -> Cause:
    failure, words = Failure.load(folder, rank), last_line(folder / f"rank-{rank}.log")
    if status < 0:
        lost = f"rank {rank} of '{name}' was lost ({_name(-status)}) {page.read()}"
        if -status in _BY_SYSTEM:
            return Cause(_SYSTEM, MachineError(lost))
        return Cause(_ABORTED, MachineError(f"{lost}: {words}" if words else lost))
    if failure is None:
        return Cause(_SURPRISED, MachineError(f"rank {rank} of '{name}' ended with code {status}: {words or 'without a word'}"))
    error = failure.error(name)
    if failure.trace:
        (file := output / f"traceback-rank-{rank}.txt").write_text(failure.trace)
        error = MachineError(f"{error}; its traceback: {file}")
    return Cause(_ORDER.get(failure.kind, _KNOWN), error)


def _name(number: int) -> str:
    return signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"


def last_line(file: Path) -> str:
    """Return the last line of what a process wrote; '' of a file that is not there, or empty."""
    lines = file.read_text(errors="replace").split("\n") if file.exists() else []
    return next((line.strip() for line in reversed(lines) if line.strip()), "")

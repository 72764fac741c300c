"""Failure: why a rank ended early, as a record (JSON) that it leaves for its launcher."""

from __future__ import annotations

import json
import os
import tempfile
import time
import traceback
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path

import torch
import torch.distributed as dist

from chronoscale.errors import MachineError, NotFiniteError, UserError, in_words
from chronoscale.records import read_json


class FailureKind(StrEnum):
    """Kind of a rank's failure, by who has to act on it."""

    USER = "user"
    NOT_FINITE = "not finite"
    MACHINE = "machine"
    MEMORY = "memory"
    PEER = "peer"  # another rank ended, or did not answer
    UNEXPECTED = "unexpected"


CODES = {FailureKind.USER: 2, FailureKind.NOT_FINITE: 3}  # exit codes; 1 for the others
RESERVED = 4096  # bytes; a record without a traceback has some hundreds
_RAISED: dict[FailureKind, type[UserError | MachineError]] = {FailureKind.USER: UserError, FailureKind.NOT_FINITE: NotFiniteError}
_SPENT = ("can't allocate memory", "not enough memory", "std::bad_alloc", "Cannot allocate memory", "can't start new thread")


@dataclass(frozen=True, slots=True)
class Failure:
    """Record of what ended a rank of a job early, left as a file for the launcher.

    message: one line for the user. position: where the rank was, in words. trace: Python's traceback of an unexpected exception. at_s:
    when, by the monotonic clock, which all ranks of a machine share.
    """

    rank: int
    kind: FailureKind
    exception: str
    message: str
    position: str = ""
    trace: str = ""
    at_s: float = 0.0

    @classmethod
    def of(cls, error: BaseException, rank: int, position: str) -> Failure:
        """Return the record of an exception that ended `rank` of a job, with its kind and the user's message.

        position: where the rank was, in words.
        """
        kind, message = _classify(error)
        trace = "".join(traceback.format_exception(error)) if kind is FailureKind.UNEXPECTED else ""
        return cls(rank, kind, type(error).__name__, message, position, trace, time.monotonic())

    @property
    def code(self) -> int:
        """Return the exit code with which the failed rank ends."""
        return CODES.get(self.kind, 1)

    def error(self, job: str) -> UserError | MachineError:
        """Return the exception that the launcher raises for a failed rank. job: the job's name, for the message.

        What is wrong with the input or the machine keeps its message; any other failure names its rank and row.
        """
        if self.kind in (FailureKind.USER, FailureKind.NOT_FINITE, FailureKind.MACHINE):
            return _RAISED.get(self.kind, MachineError)(self.message)
        return MachineError(f"rank {self.rank} of '{job}' {self._words()} ({self.position})")

    def error_with_trace(self, job: str) -> UserError | MachineError:
        """Return the exception of `error`; the traceback of what nobody expected goes to a file that the exception names."""
        return name_trace(self.error(job), self.trace)

    def _words(self) -> str:
        if self.kind is FailureKind.MEMORY:
            return f"is out of memory: {self.message}"
        return f"failed: {self.exception}: {self.message}" if self.message else f"failed: {self.exception}"

    def save(self, folder: Path) -> None:
        """Write the record of a rank's failure to the job's private folder, whole or not at all; where the disk is full, into the space
        that `reserve` has taken for it."""
        part = _part(folder, self.rank)
        try:
            _write(part, json.dumps(asdict(self)))
        except OSError:  # beyond that space
            _write(part, json.dumps(asdict(replace(self, trace=""))))
        os.replace(part, folder / f"failure-{self.rank}.json")

    @classmethod
    def load(cls, folder: Path, rank: int) -> Failure | None:
        """Read the record of a failure that a rank left in the job's private folder; None where it left none."""
        path = folder / f"failure-{rank}.json"
        return read_json(path, cls, "record of a failure") if path.exists() else None


def reserve(folder: Path, rank: int) -> None:
    """Take space in a job's private folder for the record of a rank's failure, which may be that the disk is full."""
    _part(folder, rank).write_bytes(bytes(RESERVED))


def _write(path: Path, text: str) -> None:
    with path.open("r+b" if path.exists() else "wb") as file:
        file.write(text.encode())
        file.truncate()


def _part(folder: Path, rank: int) -> Path:
    return folder / f".failure-{rank}"


def name_trace(error: UserError | MachineError, trace: str) -> UserError | MachineError:
    """Return an error of a job, with the name of the file that now has its traceback; itself where there is no traceback to show."""
    if not trace:
        return error
    with tempfile.NamedTemporaryFile("w", prefix="chronoscale-traceback-", suffix=".txt", delete=False) as file:
        file.write(trace)
    return MachineError(f"{error}; its traceback: {file.name}")


def _classify(error: BaseException) -> tuple[FailureKind, str]:
    """Return an exception's kind, and its message for the user."""
    text = str(error)
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    match error:
        case NotFiniteError():
            return FailureKind.NOT_FINITE, text
        case UserError():
            return FailureKind.USER, text
        case MachineError():
            return FailureKind.MACHINE, line
        case MemoryError() | torch.OutOfMemoryError():
            return FailureKind.MEMORY, line or "memory could not be had"
        case dist.DistError():
            return FailureKind.PEER, line
        case OSError() if error.errno is not None:
            return FailureKind.MACHINE, in_words(error)
        case RuntimeError() if any(part in text for part in _SPENT):
            return FailureKind.MEMORY, line
        case RuntimeError() if "gloo" in text or "NCCL" in text:
            return FailureKind.PEER, line
    return FailureKind.UNEXPECTED, line

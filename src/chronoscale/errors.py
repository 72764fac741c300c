"""Errors that end a command, by their exit codes, and the warning of this software."""

from __future__ import annotations

import difflib
import errno
import os
import re
from collections.abc import Iterable
from pathlib import Path


class UserError(Exception):
    """Wrong input. The message is one line: what, where, what was expected. Exit code 2."""


class DamagedFileError(UserError):
    """A file that this software wrote and cannot read again: its path, what is wrong with it, and the remedy."""

    def __init__(self, path: Path, reason: str, remedy: str) -> None:
        super().__init__(f"{path}: {reason}; {remedy}")
        self.path, self.reason, self.remedy = path, reason, remedy


class NotFiniteError(UserError):
    """A number in training that is not finite: which, where and when. Ranks end with code 3, commands with 2."""


class MachineError(Exception):
    """A failure of the machine: a full disk, a lost worker, too little memory. Exit code 1."""


class Interrupted(Exception):
    """An interruption by Ctrl-C; the message says of what, and what is left of it. Exit code 130."""


class ChronoscaleWarning(UserWarning):
    """A warning that a result stands, but not on the ground the user would assume (reference kernels, wide spread, extrapolation)."""


_REASONS = {
    errno.ENOSPC: "the disk is full; free some space and give the same command again",
    errno.EDQUOT: "the quota of the disk is used up; free some space and give the same command again",
    errno.EROFS: "the file system is read-only; choose a folder that can be written",
    errno.EACCES: "no permission",
    errno.EPERM: "not permitted",
    errno.ENOENT: "no such file or folder",
    errno.EEXIST: "is there already",
    errno.EISDIR: "is a folder, expected a file",
    errno.ENOTDIR: "part of the path is a file, expected a folder",
    errno.ENAMETOOLONG: "the name is too long",
    errno.EMFILE: "too many open files; raise the limit (`ulimit -n`)",
}


_CUT_SHORT = re.compile(r"^\d+ requested and \d+ written$")  # NumPy's words for a full disk, without a number


def in_words(error: OSError) -> str:
    """Describe an error of the operating system in words: the file where it is known, and what is wrong with it."""
    code = error.errno or (errno.ENOSPC if _CUT_SHORT.search(str(error)) else 0)
    reason = _REASONS.get(code) or (os.strerror(code) if code else str(error).splitlines()[0] if str(error) else type(error).__name__)
    files = [os.fsdecode(name) for name in (error.filename, error.filename2) if isinstance(name, str | bytes)]
    return f"{' -> '.join(files)}: {reason}" if files else reason


def unknown(kind: str, name: str, valid: Iterable[str]) -> UserError:
    """Return the error to raise for a name that does not exist, with the nearest one that does, or all of them.

    kind: what it is the name of, such as "strategy", for the message. valid: the names that exist.
    """
    names = sorted(valid)
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    hint = f"did you mean '{near[0]}'?" if near else f"valid: {', '.join(names)}"
    return UserError(f"unknown {kind} '{name}'; {hint}")

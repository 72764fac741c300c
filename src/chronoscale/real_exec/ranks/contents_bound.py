"""Bound of the contents that a machine keeps of jobs: the least recently used go, and none that a job may still read."""

from __future__ import annotations

import fcntl
import math
import os
import resource
import shutil
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from chronoscale.errors import UserError

VARIABLE = "CHRONOSCALE_CONTENTS_GB"
SHARE = 0.5  # of what is free in their file system and what they take there already, where the variable is not set
STAY_S = 86400.0  # after its last use, in which a content stays, whatever the bound: the job that asked for it may be about to begin
NAME = 64  # characters of a content's: its SHA-256
FILES = 512  # that a process opens besides
DRAFT = ".draft-"  # begins the name of a content that is being written


def note_use(content: Path) -> None:
    """Note that a content is used now: its time of access, which no reader of its time of change, such as `hash_file`, sees."""
    os.utime(content, ns=(time.time_ns(), content.stat().st_mtime_ns))


def make_room(folder: Path, coming: int) -> None:
    """Remove contents, the least recently used first, until what stays and what comes is within the bound, or no more may go.

    Those stay that were used within a day, by `note_use`, or that a process has locked. Drafts that nobody writes any more
    go, too.

    folder: of contents, locked by the caller. coming: bytes that are about to be added. Raises UserError for a malformed bound.
    """
    for draft in folder.glob(f"{DRAFT}*"):
        if not _is_locked(draft):  # of a process that was ended as it wrote
            draft.unlink(missing_ok=True)
    contents = {path: path.stat() for path in folder.iterdir() if len(path.name) == NAME}
    total = sum(status.st_size for status in contents.values())
    most, now = _most(folder, total), time.time()
    for path in sorted(contents, key=lambda path: contents[path].st_atime_ns):
        if total + coming <= most:
            return
        if now - contents[path].st_atime >= STAY_S and not _is_locked(path):
            path.unlink(missing_ok=True)
            total -= contents[path].st_size


def _most(folder: Path, total: int) -> float:
    """Return how many bytes of contents may be kept. total: bytes that are."""
    room = shutil.disk_usage(folder).free + total
    if not (text := os.environ.get(VARIABLE, "")):
        return SHARE * room
    with suppress(ValueError):
        if 0 <= (most := float(text)) < math.inf:
            return min(most * 1e9, room)
    raise UserError(f"{VARIABLE}: '{text}', expected a number of gigabytes, such as 50")


@contextmanager
def lock_contents(folder: Path) -> Iterator[None]:
    """Lock the contents that links below a folder lead to: within the block no job that needs room removes them, however long it takes."""
    contents = {path.resolve() for path in folder.rglob("*") if path.is_symlink()}
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < (needed := len(contents) + FILES):
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(needed, hard), hard))
    with ExitStack() as files:
        for content in contents:
            file = files.enter_context(content.open("rb"))
            with suppress(OSError):  # of a file system without such locks, where no content is removed
                fcntl.flock(file, fcntl.LOCK_SH)
        yield


def _is_locked(content: Path) -> bool:
    try:
        with content.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # held; or gone meanwhile
        return True
    return False

"""Parent process: whether a process ends with the one that started it."""

from __future__ import annotations

import ctypes
import os
import signal

_PDEATHSIG = 1  # PR_SET_PDEATHSIG, linux/prctl.h


def outlive_parent() -> None:
    """Let this process go on when its parent ends: undo `die_with_parent`."""
    ctypes.CDLL(None).prctl(_PDEATHSIG, 0)


def die_with_parent(parent: int) -> None:
    """Have the system kill this process when `parent`, or the thread of it that started this one, ends. Linux."""
    ctypes.CDLL(None).prctl(_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it ended before
        os._exit(1)

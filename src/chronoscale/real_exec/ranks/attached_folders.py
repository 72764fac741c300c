"""Attached folders: what a process that is attached to others keeps of their jobs, and removes however it ends, unless it is killed."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import threading
import time
from pathlib import Path

PREFIX = "chronoscale-attached-"
_TRIES, _PAUSE_S = 20, 0.01  # at a folder that a rank writes to meanwhile
_made: list[Path] = []  # by this process


def make_folder() -> Path:
    """Make a folder for one job in the temporary directory, of mode 0700."""
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    _made.append(folder)
    return folder


def is_made_here(folder: Path) -> bool:
    """Return whether a folder is one of `make_folder`, by this process."""
    return folder in _made


def remove_folder(folder: Path) -> None:
    """Remove a folder of `make_folder`, with all that is in it."""
    for _ in range(_TRIES):
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            return _made.remove(folder) if folder in _made else None
        time.sleep(_PAUSE_S)


def remove_folders() -> None:
    """Remove all folders that this process has made, before it ends at once."""
    for folder in [*_made]:
        remove_folder(folder)


def remove_at_sigterm() -> None:
    """Have SIGTERM remove this process's folders and end it with exit code 143, unless it is ignored; to be called in the first thread.

    Another thread does so: the first one may be waiting in a store whose machine is gone, where Python hears of no signal.
    """
    if signal.getsignal(signal.SIGTERM) is signal.SIG_IGN:
        return
    reads, writes = os.pipe()
    os.set_blocking(writes, False)
    signal.set_wakeup_fd(writes, warn_on_full_buffer=False)
    signal.signal(signal.SIGTERM, lambda *_: None)
    threading.Thread(target=_end_at_sigterm, args=(reads,), daemon=True).start()


def _end_at_sigterm(reads: int) -> None:
    while signal.SIGTERM not in os.read(reads, 64):  # a byte for each signal that has come, such as Ctrl-C's
        pass
    remove_folders()
    os._exit(128 + signal.SIGTERM)

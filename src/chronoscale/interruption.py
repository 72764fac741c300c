"""Interruption by Ctrl-C: a command ends with one line and exit code 130, and closes what is open.

While a module is imported, and in code whose exceptions nobody hears of (`__del__`, callbacks), KeyboardInterrupt would be printed, turned
into something else, or lost. There it waits until the interpreter is elsewhere.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

CODE = 130  # 128 + SIGINT, as shells have it
AGAIN_S = 0.02  # until an interruption that has to wait is tried again
PATIENCE = 2  # signals that are borne while what is open is closed; one more ends the process there
IMPORTING, WRITTEN = (
    "<frozen importlib._bootstrap",
    "<string>",
)  # code that is no file's: `exec`, whose KeyboardInterrupt ends Python by a signal
_came, _nothing_open = 0, False
_held = list[None]()  # one for each `masked` that is open, of any thread


def leave(*_: object) -> None:
    """End the process at once, and say so: a handler of SIGINT for as long as nothing is open."""
    os.write(2, b"interrupted\n")
    os._exit(CODE)


def came() -> bool:
    """Say whether `handled` has seen a SIGINT."""
    return _came > 0


@contextmanager
def handled() -> Iterator[None]:
    """Let SIGINT raise KeyboardInterrupt once within the block, where it is heard of. Does nothing where SIGINT is ignored, or in another
    thread than the first."""
    global _came
    before = signal.getsignal(signal.SIGINT) if threading.current_thread() is threading.main_thread() else signal.SIG_IGN
    if before is signal.SIG_IGN:
        yield
        return
    _came, alarm, hook = 0, signal.signal(signal.SIGALRM, _raise), sys.unraisablehook
    sys.unraisablehook = _unraisable
    signal.signal(signal.SIGINT, _count)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, alarm)
        sys.unraisablehook = hook


@contextmanager
def at_once() -> Iterator[None]:
    """Let SIGINT end the process at once within the block, where modules are imported and nothing is open yet; `handled` would wait."""
    global _nothing_open
    _nothing_open = True
    try:
        yield
    finally:
        _nothing_open = False


@contextmanager
def masked() -> Iterator[None]:
    """Let SIGINT wait within the block; processes and threads that are started in it never take it: whoever starts them has to end them."""
    _held.append(None)  # the mask alone is this thread's: another one may take the signal, for which Python interrupts the first
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        _held.pop()
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        if not _held and signal.getsignal(signal.SIGALRM) is _raise and any(signal.setitimer(signal.ITIMER_REAL, 0)):
            signal.raise_signal(signal.SIGALRM)  # what has waited for this


def _count(number: int, frame: FrameType | None) -> None:
    global _came
    _came += 1
    if _came == 1:
        _raise(number, frame)
    elif _came > PATIENCE:
        leave()


def _raise(_: int, frame: FrameType | None) -> None:
    if _held:
        signal.setitimer(signal.ITIMER_REAL, AGAIN_S)
        return
    while frame is not None:
        name = frame.f_code.co_filename
        if name.startswith(IMPORTING) or (name == WRITTEN and frame.f_back is not None):
            if _nothing_open:
                leave()
            signal.setitimer(signal.ITIMER_REAL, AGAIN_S)
            return
        frame = frame.f_back
    raise KeyboardInterrupt


def _unraisable(lost: Any) -> None:
    if isinstance(lost.exc_value, KeyboardInterrupt):
        signal.setitimer(signal.ITIMER_REAL, AGAIN_S)
    else:
        sys.__unraisablehook__(lost)

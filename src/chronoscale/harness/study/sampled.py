"""Sampled: memory of the processes that a study starts."""

from __future__ import annotations

import threading
from types import TracebackType

import psutil

EVERY_S = 0.02


class Sampler:
    """Context manager that samples the memory of the processes started within it every 20 ms, for studies that train on this machine.

    `bytes`, after it: the most that they held at once, without files that they map (resident less shared).
    """

    def __init__(self) -> None:
        self.bytes = 0
        self._done = threading.Event()
        self._before = {child.pid for child in psutil.Process().children(recursive=True)}
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Sampler:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._done.wait(EVERY_S):
            resident = 0
            for child in psutil.Process().children(recursive=True):
                if child.pid not in self._before:
                    try:
                        used = child.memory_info()
                    except psutil.Error:  # it has ended
                        continue
                    resident += used.rss - used.shared
            self.bytes = max(self.bytes, resident)

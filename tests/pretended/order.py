"""Order of events: what streams of the device and threads of the host know of each other's past, as vector clocks."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

_numbers = itertools.count(1)


class Moment(NamedTuple):
    """The `count`-th action of a line."""

    line: int
    count: int


class Line:
    """What happens one after another: a stream, or a thread of the host. `known`: how much of each line's past precedes its next."""

    def __init__(self) -> None:
        self.number = next(_numbers)
        self.known: dict[int, int] = {self.number: 0}

    def tick(self) -> Moment:
        """Count one more action."""
        self.known[self.number] += 1
        return Moment(self.number, self.known[self.number])

    def learn(self, known: Mapping[int, int]) -> None:
        """Go on after all of that past."""
        for line, count in known.items():
            if self.known.get(line, 0) < count:
                self.known[line] = count

    def follows(self, moment: Moment) -> bool:
        """Tell whether the line's next action comes after that moment."""
        return self.known.get(moment.line, 0) >= moment.count


class Event:
    """A point in a stream's order, with the interface of torch.cuda.Event."""

    def __init__(self) -> None:
        self._known: dict[int, int] = {}
        self._ns = 0
        self.capture: Any = None  # that it was recorded in

    def record(self, stream: Stream) -> None:
        self.capture = stream.capture
        stream.learn(host().known)
        self._known, self._ns = dict(stream.known), time.perf_counter_ns()

    def synchronize(self) -> None:
        if self.capture is not None:
            self.capture.forbid("the host waits for an event of a capture")
        host().learn(self._known)

    def elapsed_time(self, later: Event) -> float:
        return (later._ns - self._ns) / 1e6

    @property
    def known(self) -> Mapping[int, int]:
        return self._known


class Stream(Line):
    """A stream with the interface of torch.cuda.Stream. capture: the one that it is part of."""

    capture: Any = None

    @property
    def cuda_stream(self) -> int:
        return self.number

    def wait_event(self, event: Event) -> None:
        """Wait for an event, and join the capture that the event is of."""
        if event.capture is not None and event.capture is not self.capture:
            event.capture.join(self)
        elif self.capture is not None and event.capture is None:
            self.capture.forbid("a wait for what is not of the capture")
        self.learn(event.known)

    def synchronize(self) -> None:
        if self.capture is not None:
            self.capture.forbid("the host waits for a stream that is captured")
        host().learn(self.known)


class _Here(threading.local):
    """What is so on the calling thread. `issuing`: it issues a row, and must not wait. `watched`: calls are intercepted. `capture`: that it
    has begun, and not ended."""

    def __init__(self) -> None:
        self.host = Line()
        self.stream: Stream | None = None
        self.issuing = self.watched = False
        self.capture: Any = None


at = _Here()


def host() -> Line:
    """Return the line of the calling thread."""
    return at.host

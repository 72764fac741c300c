"""Meeting: where virtual ranks, threads of one process, take turns and communicate in memory."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any

import torch

NAMED = 4  # groups of ranks that a message about a deadlock names


class RankStopped(BaseException):
    """Signal in the thread of a virtual rank that another one has failed, and that this one is to end."""


class Meeting:
    """Turns of virtual ranks: threads of which one runs at a time, until it waits for others, and what they hand each other meanwhile.

    Which rank runs next depends on nothing but the order in which they met, so that every execution is the same. torch's generator of
    random numbers belongs to the process; each rank finds it as it left it. Ranks that wait for each other for ever are an error.
    """

    def __init__(self, ranks: int) -> None:
        self.ranks = ranks
        self.stopped = False
        self._turn = [threading.Semaphore(0) for _ in range(ranks)]
        self._ready = deque(range(ranks))
        self._waits: dict[int, str] = {}  # for what each rank waits, in words
        self._arrived: dict[int, Any] = {}  # what ranks have brought to the operation of all ranks that is under way
        self._operation = ""
        self._result: Any = None
        self._messages: dict[tuple[int, int], deque[torch.Tensor]] = {}  # from a rank to another
        self._over: list[int] = []

    def start(self) -> None:
        """Let the first rank run; called once all threads have been started."""
        self._turn[self._ready.popleft()].release()

    def enter(self, rank: int) -> None:
        """Wait in the thread of a rank for its first turn."""
        self._await_turn(rank)

    def leave(self, rank: int) -> None:
        """Hand the turn on from a rank that has ended. Raises RuntimeError where others wait for something that no rank will do now."""
        self._over.append(rank)
        if self._ready:
            self._turn[self._ready.popleft()].release()
        elif self._waits:
            raise RuntimeError(self._deadlock())

    def stop(self) -> None:
        """End all ranks, as the one whose turn it is has failed: each gets a turn, in which RankStopped is raised."""
        self.stopped = True
        self._ready.extend(sorted(self._waits))
        self._waits.clear()

    def meet(self, rank: int, operation: str, contribution: Any, combine: Callable[[Sequence[Any]], Any]) -> Any:
        """Take part in an operation of all ranks; return what `combine` makes of all contributions, in the order of ranks.

        operation: in words; ranks that meet in two different ones are an error. combine: called once, by the last rank that arrives, before
        any other goes on, so that it may read and write all contributions. Raises RuntimeError for ranks that can never meet.
        """
        self._require_running()
        if self._arrived and operation != self._operation:
            raise RuntimeError(f"virtual ranks meet in different operations: rank {rank} in {operation}, {self._those(self._arrived)}")
        self._operation = operation
        self._arrived[rank] = contribution
        if len(self._arrived) < self.ranks:
            self._wait(rank, operation)
            return self._result
        with torch.no_grad():
            self._result = combine([self._arrived[each] for each in range(self.ranks)])
        self._arrived.clear()
        self._ready.extend(sorted(self._waits))
        self._waits.clear()
        return self._result

    def send(self, rank: int, to: int, message: torch.Tensor) -> None:
        """Leave a message for another rank, which may receive it at any time."""
        self._messages.setdefault((rank, to), deque()).append(message)
        if self._waits.get(to) == _awaited(rank):
            del self._waits[to]
            self._ready.append(to)

    def receive(self, rank: int, sender: int) -> torch.Tensor:
        """Return the oldest message that a rank has left for this one; wait for it. Raises RuntimeError where it can never come."""
        self._require_running()
        if not (messages := self._messages.setdefault((sender, rank), deque())):
            self._wait(rank, _awaited(sender))
        return messages.popleft()

    def _wait(self, rank: int, what: str) -> None:
        """Hand the turn on from a rank that waits, until another has made it ready."""
        self._waits[rank] = what
        if not self._ready:
            raise RuntimeError(self._deadlock())
        generator = torch.get_rng_state()
        self._turn[self._ready.popleft()].release()
        self._await_turn(rank)
        torch.set_rng_state(generator)

    def _await_turn(self, rank: int) -> None:
        self._turn[rank].acquire()
        self._require_running()

    def _require_running(self) -> None:
        if self.stopped:
            raise RankStopped

    def _deadlock(self) -> str:
        over = f"; {_ranks(sorted(self._over))} {'has' if len(self._over) == 1 else 'have'} ended" if self._over else ""
        return f"virtual ranks wait for each other: {self._those(self._waits)}{over}"

    def _those(self, ranks: Any) -> str:
        """Say which of these ranks wait for what."""
        groups = [(what, list(same)) for what, same in groupby(sorted(ranks), lambda rank: self._waits[rank])]
        named = [f"{_ranks(same)} in {what}" for what, same in groups[:NAMED]]
        return ", ".join([*named, *([f"{len(groups) - NAMED} more"] if len(groups) > NAMED else [])])


def _awaited(sender: int) -> str:
    return f"a receive from rank {sender}"


def _ranks(numbers: Sequence[int]) -> str:
    """Name ranks, in ascending order."""
    if len(numbers) == 1:
        return f"rank {numbers[0]}"
    if numbers[-1] - numbers[0] == len(numbers) - 1 and len(numbers) > 2:
        return f"ranks {numbers[0]} to {numbers[-1]}"
    return f"ranks {', '.join(map(str, numbers))}"

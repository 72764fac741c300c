"""Virtual ranks: one process executes the mathematics of all ranks of a job, one after another, with the programs that real ranks run.

Losses, scores and models are those of so many ranks; times mean nothing, and none are taken.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

from chronoscale.real_exec.communication.meeting import Meeting, RankStopped
from chronoscale.real_exec.communication.memory import MemoryCollective, MemoryExchange
from chronoscale.real_exec.ranks import positions
from chronoscale.real_exec.ranks.failure import Failure
from chronoscale.real_exec.ranks.positions import PositionPage

Result = TypeVar("Result")


@dataclass(frozen=True)
class VirtualRank:
    """One of the virtual ranks that a process executes, in a thread of its own.

    shared: objects that all of them read, by key, so that there is one of each and not one a rank.
    """

    rank: int
    meeting: Meeting
    shared: dict[Hashable, Any] = field(default_factory=dict)

    @cached_property
    def collective(self) -> MemoryCollective:
        """Return the collective by which the rank meets the others."""
        return MemoryCollective(self.meeting, self.rank)

    @cached_property
    def exchange(self) -> MemoryExchange:
        """Return the exchange by which the rank sends to others, and receives from them."""
        return MemoryExchange(self.meeting, self.rank)


def run_virtual(work: Callable[[VirtualRank], Result], ranks: int, job: str) -> list[Result]:
    """Execute the work of every rank of a job in this process; return the results by rank.

    work: as of a real rank, whose passes (`worker.run_job`) or epochs (`training.epoch_loop.train`) it executes. job: its name, for
    messages. Raises what the launcher of real ranks raises where one of them fails; ranks that wait for each other in vain are such a
    failure.
    """
    meeting, shared = Meeting(ranks), dict[Hashable, Any]()
    results: dict[int, Result] = {}
    failures: list[tuple[Failure, BaseException]] = []
    watched = positions.own_page()

    def follow(virtual: VirtualRank) -> None:
        page = _FirstPage(watched) if virtual.rank == 0 else positions.private_page()
        positions.own_page_of_thread(page)
        try:
            meeting.enter(virtual.rank)
            results[virtual.rank] = work(virtual)
            meeting.leave(virtual.rank)
        except RankStopped:
            meeting.leave(virtual.rank)
        except BaseException as error:
            failures.append((Failure.of(error, virtual.rank, str(page.read())), error))
            meeting.stop()
            meeting.leave(virtual.rank)

    threads = [threading.Thread(target=follow, args=(VirtualRank(rank, meeting, shared),), daemon=True) for rank in range(ranks)]
    for thread in threads:
        thread.start()
    meeting.start()
    try:
        for thread in threads:
            thread.join()
    finally:
        meeting.stopped = True  # where this was interrupted
    if failures:
        failure, error = failures[0]
        raise failure.error_with_trace(job) from error
    return [results[rank] for rank in range(ranks)]


class _FirstPage(PositionPage):
    """Page of the first virtual rank, which tells the launcher of the process how far the job is."""

    def __init__(self, watched: PositionPage) -> None:
        super().__init__(memoryview(bytearray(positions.PAGE)))
        self._watched = watched

    def set_text(self, text: str) -> None:
        super().set_text(text)
        self._watched.set_text(text)

"""RowThreads: threads that share the rows of one rank, each in row order, and wait for one another's rows."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress

from chronoscale.real_exec.execution.nonfinite import NonFiniteValue
from chronoscale.real_exec.execution.task import Task
from chronoscale.real_exec.ranks import positions

GIVE_UP_S = 2.0  # for threads to end after one has failed: one in a collective may wait for ranks that wait for what the failed was to send
Step = Callable[[int, Task], None]  # of a row and its place among the tasks


class RowThreads:
    """The rows of one rank, split over threads of its process that wait for one another's rows.

    A row needs earlier rows only, and threads keep row order, so that no two threads wait for each other.
    """

    def __init__(self, tasks: Sequence[Task], thread: Sequence[int], needs: Sequence[Sequence[int]], threads: int) -> None:
        """Split rows: `thread` of each; the last of the `threads` is the caller's. needs: rows that each row waits for, by their places."""
        self._rows = [[(i, task) for i, task in enumerate(tasks) if thread[i] == number] for number in range(threads)]
        self._waits = [[need for need in of if thread[need] != thread[i]] for i, of in enumerate(needs)]
        self._awaited = {need for waits in self._waits for need in waits}
        self._done: set[int] = set()
        self._failure: BaseException | None = None
        self._timer: threading.Timer | None = None
        self._changed = threading.Condition()

    def run(self, steps: Sequence[Step]) -> None:
        """Run all of a rank's rows on its threads, once each.

        steps: for each thread, the function that runs a row, given its place and the row.

        A row counts as done when its step returns. An exception on one thread ends all, and is raised here.
        """
        helpers = [threading.Thread(target=self._follow, args=pair) for pair in zip(self._rows[:-1], steps[:-1], strict=True)]
        for helper in helpers:
            helper.start()
        self._follow(self._rows[-1], steps[-1])
        for helper in helpers:
            helper.join()
        if self._timer is not None:
            self._timer.cancel()
            self._timer.join()
        if self._failure is not None:
            raise self._failure

    def _follow(self, rows: Sequence[tuple[int, Task]], step: Step) -> None:
        try:
            for i, task in rows:
                self._await(self._waits[i])
                if self._failure is not None:
                    return
                step(i, task)
                if i in self._awaited:
                    with self._changed:
                        self._done.add(i)
                        self._changed.notify_all()
        except BaseException as error:  # handed to the thread that called run
            with self._changed:
                self._failure = self._failure or error
                self._changed.notify_all()
                if self._timer is None and not isinstance(error, NonFiniteValue):  # which every rank sees at the same row
                    timer = threading.Timer(GIVE_UP_S, positions.own_page().give_up, [error])
                    timer.daemon = True
                    with suppress(RuntimeError):  # no memory for a thread
                        timer.start()
                        self._timer = timer

    def _await(self, rows: Sequence[int]) -> None:
        if rows:
            with self._changed:
                self._changed.wait_for(lambda: self._failure is not None or self._done.issuperset(rows))

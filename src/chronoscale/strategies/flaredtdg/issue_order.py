"""Issue order: the order in which the rows of a window are issued. Every snapshot is a coroutine; a policy says which goes on (FlareDTDG
§3.4).

The order is found once, from predicted times, for all ranks alike: a collective that two ranks issue in different orders never ends.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from chronoscale.strategies.schedule import COLLECTIVES, Op


class Slot(NamedTuple):
    """Operation of a sliding window in FlareDTDG's plan, one row on each rank: on one of its snapshots (`step`, 0 the oldest), at a layer;
    `back`: on its gradient."""

    op: Op
    step: int
    layer: int
    back: bool = False

    @property
    def communicates(self) -> bool:
        """Whether the operation is a collective."""
        return self.op in COLLECTIVES


@dataclass(frozen=True, slots=True)
class Wait:
    """Awaitable of a snapshot's coroutine (FlareDTDG plans each snapshot of a window as one): the coroutine goes on when `slot` is issued,
    which is after the slots `after`."""

    slot: Slot
    after: tuple[Slot, ...] = ()

    def __await__(self) -> Generator[Wait, None, None]:
        yield self


Snapshot = Coroutine[Any, None, None]


@dataclass(slots=True)
class Runner:
    """Coroutine of a snapshot while FlareDTDG's planner runs it, and the row that it awaits.

    ready_ns: when the row could start; comm_ns: the duration of its communication, or of the last one that it depends on; asked: number of
    rows issued when it began to wait.
    """

    number: int
    run: Snapshot
    row: Wait
    end_ns: int = 0
    ready_ns: int = 0
    comm_ns: int = 0
    asked: int = 0


@dataclass(slots=True)
class Lanes:
    """State of FlareDTDG's planner: when the lanes of computation and of communication are free (ns), and the end of each issued
    operation."""

    free: list[int] = field(default_factory=lambda: [0, 0])
    end: dict[Slot, int] = field(default_factory=dict)

    def start_ns(self, runner: Runner) -> int:
        """Return when the operation that a coroutine awaits would start, ns: once it is ready, and its lane is free."""
        return max(runner.ready_ns, self.free[runner.row.slot.communicates])


Policy = Callable[[Runner, Lanes], tuple[int, ...]]  # of coroutines that may go on, the one with the least is taken


def one_by_one(runner: Runner, lanes: Lanes) -> tuple[int, ...]:
    """Order a window's snapshots by number, each as far as it gets, the first first: FlareDTDG's policy without overlap. Returns a sort
    key."""
    return (runner.number,)


def round_robin(runner: Runner, lanes: Lanes) -> tuple[int, ...]:
    """Order a window's snapshots by how long they have waited, counted in issued rows: a policy that FlareDTDG compares with (§3.4).
    Returns a sort key."""
    return runner.asked, runner.number


def early_ready(runner: Runner, lanes: Lanes) -> tuple[int, ...]:
    """Order a window's snapshots by FlareDTDG's own policy, Early-Ready & Short-Comm (§3.4). Returns a sort key.

    That is: the one whose row can start first; of those the one whose communication, with what depends on it, is ready first; then the one
    that communicates for the shortest time.
    """
    return lanes.start_ns(runner), runner.ready_ns, runner.comm_ns, runner.number


def awaited_rows(run: Snapshot) -> list[Wait]:
    """Return all operations that one snapshot's coroutine awaits, in its order, for FlareDTDG's planner."""
    rows = []
    try:
        while True:
            rows.append(run.send(None))
    except StopIteration:
        return rows


def issue_order(snapshots: Iterable[Snapshot], ns: Mapping[Slot, int], policy: Policy, issued: Iterable[Slot] = ()) -> list[Slot]:
    """Return the order in which a window's operations are issued (FlareDTDG §3.4), the same on all ranks: a policy picks, again and again,
    which snapshot's coroutine goes on.

    ns: predicted durations; issued: operations that were issued before, at no cost. Raises ValueError where coroutines wait for each other
    in a circle.
    """
    lanes, order = Lanes(end=dict.fromkeys(issued, 0)), []
    runners = [runner for number, run in enumerate(snapshots) if (runner := _resume(Runner(number, run, _NONE), 0)) is not None]
    while runners:
        ready = [runner for runner in runners if all(slot in lanes.end for slot in runner.row.after)]
        if not ready:
            raise ValueError(f"rows wait for each other: {', '.join(str(runner.row) for runner in runners)}")
        for runner in ready:
            runner.ready_ns = max([runner.end_ns, *(lanes.end[slot] for slot in runner.row.after)])
            if runner.row.slot.communicates:
                runner.comm_ns = ns.get(runner.row.slot, 0)
        runner = min(ready, key=lambda candidate: policy(candidate, lanes))
        slot, duration = runner.row.slot, ns.get(runner.row.slot, 0)
        runner.end_ns = lanes.end[slot] = lanes.free[slot.communicates] = lanes.start_ns(runner) + duration
        order.append(slot)
        if _resume(runner, len(order)) is None:
            runners.remove(runner)
    return order


_NONE = Wait(Slot(Op.AGGREGATE, -1, -1))


def _resume(runner: Runner, asked: int) -> Runner | None:
    """Resume a coroutine and return it with the row that it awaits next; None where it has ended."""
    try:
        runner.row, runner.asked = runner.run.send(None), asked
    except StopIteration:
        return None
    return runner

"""Plan: the rows of an epoch of sliding windows, one window an iteration, every snapshot's rows spread over all ranks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from chronoscale.strategies.cluster import Link
from chronoscale.strategies.costs import CostModel, FittedCosts, durations
from chronoscale.strategies.flaredtdg.descriptors import Descriptors
from chronoscale.strategies.flaredtdg.issue_order import Slot, one_by_one
from chronoscale.strategies.planning.builder import NONE, Builder
from chronoscale.strategies.planning.builder import Columns as Site
from chronoscale.strategies.schedule import COLLECTIVES, Ints, Lane, Op, Schedule
from chronoscale.strategies.snapshots.cell_variants import CellNumbering, CellTransfer
from chronoscale.strategies.snapshots.rows import FP32

UNKNOWN = Link(12.5e9, 1e-5)  # where costs know nothing of the network: 100 Gb/s
AHEAD = 2  # iterations whose snapshots are on their way or on the device: one trains, the next one's arrives


@dataclass(frozen=True)
class Plan(Descriptors):
    """FlareDTDG's plan of an epoch of sliding windows, one window an iteration, every snapshot's rows spread over all ranks; `schedule`
    makes the schedule."""

    def orders(self, costs: CostModel) -> list[list[Slot]]:
        """Return for every iteration the order in which its window's operations are issued: by the policy, from predicted times, those of
        the slowest rank."""
        if self.policy is one_by_one:
            return [self.window.order({}, one_by_one)] * len(self.newest)
        slots = list(self.window.needs())
        builder = Builder(self.name, self.ranks, kernels=self.kernels())
        for number, slot in enumerate(slots):
            self._add(builder, slot, np.full(len(self.newest) * self.ranks, number), [], number * len(self.newest))
        ns = expected_ns(costs, builder.finish()).reshape(len(slots), len(self.newest), self.ranks).max(2)
        return [self.window.order(dict(zip(slots, column.tolist(), strict=True)), self.policy) for column in ns.T]

    def _add(self, builder: Builder, slot: Slot, order: Ints, after: list[Ints], exchange: int) -> Ints:
        """Add a row of the window on every (rank, iteration) and return its handles. exchange: the first id of its collective."""
        row, (takes, gives) = self.row(slot), self.snapshot_memory(slot)
        op = Op.ALLTOALL if slot.back and slot.op is Op.ALLGATHER else slot.op
        here = {**self.site(), "order": order, "step": slot.step, "layer": slot.layer}
        memory = {"alloc": row["alloc"] + takes, "free": row["free"] + gives, "kernels": self.kernel_count(slot, builder.kernels)}
        if not slot.communicates:
            moved = {"bytes": self.moved(slot, row, builder.kernels)}
            return builder.add(op, Lane.COMPUTE, here, row, memory, moved, after=after)
        ids = {"collective": exchange + self.per_rank(np.arange(len(self.newest)))}
        return builder.add(op, Lane.COMM, here, row, memory, ids, after=after)

    def schedule(self, costs: CostModel) -> Schedule:
        """Return the epoch's schedule, rows ordered by the policy with times from `costs`."""
        model, iterations = self.workload.model, len(self.newest)
        orders, needs = self.orders(costs), self.window.needs()
        size = len(needs) + len(self.level) + 2
        place: Mapping[Slot, Ints] = {slot: np.array([order.index(slot) for order in orders]) for slot in needs}
        builder = Builder(self.name, self.ranks, self.resident(), "blocks", feeding=str(self.keeping), kernels=self.kernels())
        begin = self.per_rank(np.arange(iterations) * size)
        arrivals = {step: self._add_snapshot(builder, step, begin + step) for step in range(len(self.level))}
        handles: dict[Slot, Ints] = {}
        exchange = iterations
        last = NONE * np.ones(iterations * self.ranks, np.int64)
        chained = self.policy is one_by_one
        for slot in sorted(needs, key=lambda slot: int(place[slot][0])) if chained else needs:
            after = [last] if chained else []
            if (slot.op, slot.layer) in ((Op.AGGREGATE, 0), (Op.REMAP, 0)):
                after.append(arrivals[slot.step])
            order = begin + len(self.level) + self.per_rank(place[slot])
            last = handles[slot] = self._add(builder, slot, order, after, exchange)
            exchange += iterations * slot.communicates
        if not chained:
            for slot, others in needs.items():
                for other in others:
                    builder.link(handles[slot], handles[other])
        return self._add_synchronisation(builder, handles, last, begin + size - 1, arrivals, model.parameters)

    def _add_snapshot(self, builder: Builder, step: int, order: Ints) -> Ints:
        """Add the rows that renumber and send a step's snapshot where it comes from the host; return handles of the transfer."""
        here, comes = {**self.site(), "order": order, "step": step}, self.per_rank(self.comes(step))
        row, full_row = (self.cells.transfer(self.region(step, level)) for level in (self.level_on_device(step), 0))
        remapped: tuple[Ints, ...] = ()
        if self.shrinks:
            again = np.where(self.per_rank(self.numbered_first(step)), CellNumbering.COUNTED, CellNumbering.AGAIN)
            work = {**{name: row[name] for name in ("nodes", "edges", "rows")}, "variant": again}
            remapped = (builder.add(Op.REMAP, Lane.HOST, here, work, {"bytes": full_row["bytes"] + row["bytes"]}, where=comes),)
        variant = {} if self.shrinks else {"variant": np.full(1, CellTransfer.NUMBERED)}
        return builder.add(Op.H2D, Lane.H2D, here, row, variant, where=comes, after=remapped)

    def _add_synchronisation(
        self, builder: Builder, handles: dict[Slot, Ints], last: Ints, order: Ints, arrivals: dict[int, Ints], parameters: int
    ) -> Schedule:
        """Add the all-reduce and the optimiser step of every iteration, let snapshots wait for the steps before, and return the
        schedule."""
        ends = [handles[Slot(Op.BACKWARD, step, 0, back=True)] for step in range(len(self.level))]
        here: Site = {**self.site(), "order": order}
        if self.ranks > 1:
            ids: Site = {"collective": self.per_rank(np.arange(len(self.newest))), "bytes": parameters * FP32}
            ends = [builder.add(Op.ALLREDUCE, Lane.COMM, here, ids, after=ends)]
        update = {"rows": parameters, "flops": 10 * parameters}
        step = builder.add(Op.OPTIMIZE, Lane.COMPUTE, here, update, after=ends)
        for handle in arrivals.values():
            builder.link(handle, np.concatenate([np.full(AHEAD * self.ranks, NONE, np.int64), step])[: len(step)])
        return builder.finish()


def expected_ns(costs: CostModel, schedule: Schedule) -> Ints:
    """Predict durations of all rows of a schedule, communication included, int64 [rows] ns, by which FlareDTDG orders operations: with a
    learned predictor where costs have one (§3.4).

    Without one, and for costs of a single rank, which never communicated, collectives take what costs know of the link, or one of 100 Gb/s:
    orders need no more. Raises UserError for what was not profiled.
    """
    learned = costs.predictor if isinstance(costs, FittedCosts) else None
    joined = np.isin(schedule.op, [int(op) for op in COLLECTIVES])
    if learned is not None and learned.communicates:
        return learned.predict(schedule, np.arange(len(schedule)))
    ns = np.zeros(len(schedule), np.int64)
    if learned is not None:
        ns[~joined] = learned.predict(schedule, np.flatnonzero(~joined))
    else:
        ns, _ = durations(costs, schedule)
    link = costs.collective if isinstance(costs, FittedCosts) and costs.collective is not None else UNKNOWN
    ns[joined] = np.rint((link.latency_s + schedule.bytes[joined] / link.rate) * 1e9).astype(np.int64)
    return ns

"""ESDG: snapshots of a group spread over ranks (REAL §2.3, §7.1; Chakaravarthy et al., SC 2021)."""

from __future__ import annotations

import numpy as np

from chronoscale.strategies.costs import CostModel
from chronoscale.strategies.planning.builder import NONE, Builder
from chronoscale.strategies.planning.builder import Columns as Site
from chronoscale.strategies.schedule import Ints, Lane, Op, Schedule
from chronoscale.strategies.snapshots.cell_memory import Region, stages
from chronoscale.strategies.snapshots.cells import Cells, synchronise
from chronoscale.strategies.snapshots.folding import computed_rows, folded_bytes, spread_work
from chronoscale.strategies.snapshots.groups import deal
from chronoscale.strategies.snapshots.kernels import kernels_of
from chronoscale.strategies.snapshots.rows import FP32, Columns
from chronoscale.strategies.snapshots.strategy import SnapshotStrategy
from chronoscale.strategies.snapshots.targets import pair_bytes, pair_flops, predicted_snapshots
from chronoscale.strategies.workload import Workload


class ESDG(SnapshotStrategy):
    """ESDG: planner whose teams of up to `group_size` ranks train a snapshot group each: every rank convolves its snapshots, and the
    recurrent state travels from rank to rank in time order.

    The gradient of the state travels back; gradient checkpointing keeps cell inputs only. Ranks that make up no whole team stay idle.
    """

    name = "esdg"
    title = "ESDG"
    kind = "snapshots"
    source = "REAL §7.1 [3]"
    summary = "The snapshots of a group are spread over GPUs, and the recurrent state travels from GPU to GPU."

    def plan(self, workload: Workload, ranks: int, costs: CostModel) -> Schedule:
        """Plan one epoch of ESDG. Raises UserError for a workload that is no sequence of snapshots, or 0 ranks."""
        size, each = workload.hyper.group_size, workload.hyper.groups_per_rank
        team = min(max(ranks, 1), size)
        placement = deal(workload.groups, ranks // team, each)  # over teams
        seat = np.arange(size) * team // size  # the member of a team that has a step
        goals = predicted_snapshots(workload, np.arange(workload.groups))
        predicting = (placement.rank * team)[:, None] + seat[size - goals.shape[1] :]
        targets = pair_bytes(workload, predicting.ravel(), goals.ravel())
        nodes = computed_rows(workload, workload.group_start(np.arange(workload.groups)), size)
        folds = nodes < workload.snapshots.num_nodes
        seats = np.repeat(np.flatnonzero(folds), goals.shape[1]), predicting[folds].ravel()
        group, holder = np.unique(np.stack(seats), axis=1)
        stays = folded_bytes(workload, ranks, seats[1], goals[folds].ravel(), holder, nodes[group])
        resident = 4 * workload.model.parameters * FP32 + targets + stays
        builder = Builder(self.name, ranks, resident, self.kind, kernels=kernels_of(workload, self.kind, ranks))
        chain = _Chain(workload, builder, placement.rank * team, seat, placement.iterations, nodes)
        site: Site = {
            "order": placement.iteration * (each + 1) + placement.slot,
            "iteration": placement.iteration,
            "unit": np.arange(workload.groups),
        }
        chain.forward(site)
        chain.backward(site)
        first, last = (np.full((placement.iterations, ranks, each), NONE, np.int64) for _ in range(2))
        for member in range(team):
            at = placement.iteration, placement.rank * team + member, placement.slot
            first[at], last[at] = chain.first[member], chain.last[member]
        synchronise(builder, workload.model.parameters, first, last)
        return builder.finish()


class _Chain:
    """The cells of all groups at once. `base` int64 [groups]: first rank of a group's team; `member` [group_size]: which of the team has a
    step; `nodes` int64 [groups]: rows of the group's snapshots (`folding.computed_rows`)."""

    def __init__(self, workload: Workload, builder: Builder, base: Ints, member: Ints, iterations: int, nodes: Ints) -> None:
        self.model = workload.model
        self.builder = builder
        self.base = base
        self.member = member
        self.cells = Cells(workload.model, recomputes=True, parts=False)
        start, self.idle = workload.group_start(np.arange(len(base))), workload.snapshots.num_nodes - nodes
        summary = np.minimum(nodes, workload.model.hidden)
        self.kernels = builder.kernels
        self.decoded = np.zeros((len(base), len(member)), np.int64)  # flops in the last layer's gradient, by group and step
        goals = predicted_snapshots(workload, np.arange(len(base)))
        self.predicting = len(member) - goals.shape[1]  # the first step that predicts
        self.decoded[:, self.predicting :] = pair_flops(workload, goals)
        self.regions = [Region(nodes, workload.snapshots.edges[start + s], 0 * nodes, 0 * nodes, summary) for s in range(len(member))]
        self.messages = iterations  # collective ids below are all-reduces'
        team = int(member[-1]) + 1
        self.first: list[Ints] = [np.full(len(base), NONE, np.int64)] * team
        self.last: list[Ints] = [np.full(len(base), NONE, np.int64)] * team

    def _add_message(self, source: int, target: int, layer: int, ready: Ints, site: Site) -> Ints:
        """Add the message that takes the state (or its gradient, where time runs back) from one step's rank to another's; return the
        arrival's handles."""
        ids = {"collective": self.messages + np.arange(len(self.base)), "layer": layer}
        self.messages += len(self.base)
        leaves, arrives = ({**site, **ids, "step": step, "rank": self.base + self.member[step]} for step in (source, target))
        sent = self.cells.send(self.regions[source], layer, gradient=target < source)
        self.builder.add(Op.SEND, Lane.COMM, leaves, sent, after=(ready,))
        return self.builder.add(Op.RECV, Lane.COMM, arrives, self.cells.receive(self.regions[target], layer))

    def _spread(self, row: Columns) -> Columns:
        """Return a BACKWARD row that reads out predictions, with what spreading those of folded groups over all nodes adds to it."""
        kernels, moved = spread_work(self.model, self.idle, summed=True)
        kernels = kernels + self.kernels.rows(Op.BACKWARD, Lane.COMPUTE, row)
        moved = moved + self.kernels.moved(Op.BACKWARD, Lane.COMPUTE, row)
        values = 4 * FP32 * self.model.outputs * self.idle
        return {**row, "kernels": kernels, "bytes": moved, "alloc": row["alloc"] + values, "free": row["free"] + values}

    def forward(self, site: Site) -> None:
        """Add the forward rows layer by layer: what is local first, then the recurrence along the chain, then what needs its state."""
        steps = range(len(self.member))
        for layer in range(self.model.layers):
            order, recurs = stages(self.model, layer), self.model.recurs(layer)
            turn = order.index(Op.TEMPORAL) if recurs else len(order)
            here: list[Site] = [{**site, "rank": self.base + self.member[s], "step": s, "layer": layer} for s in steps]
            for step in steps:
                after: tuple[Ints, ...] = ()
                if layer == 0:
                    row = self.cells.transfer(self.regions[step])
                    after = (self.builder.add(Op.H2D, Lane.H2D, here[step], row),)
                    if step == 0 or self.member[step] != self.member[step - 1]:
                        self.first[self.member[step]] = after[0]
                for op in order[:turn]:
                    self.builder.add(op, Lane.COMPUTE, here[step], self.cells.stage(op, self.regions[step], layer), after=after)
            state: Ints | None = None
            for step in steps if recurs else ():
                arrival: tuple[Ints, ...] = ()
                if state is not None and self.member[step] != self.member[step - 1]:
                    arrival = (self._add_message(step - 1, step, layer, state, site),)
                row = self.cells.stage(Op.TEMPORAL, self.regions[step], layer, step == 0)
                state = self.builder.add(Op.TEMPORAL, Lane.COMPUTE, here[step], row, after=arrival)
            for step in steps:
                for op in order[turn + 1 :]:
                    self.builder.add(op, Lane.COMPUTE, here[step], self.cells.stage(op, self.regions[step], layer))

    def backward(self, site: Site) -> None:
        """Add the gradient rows, the chain in reverse; a cell is computed again while its gradient is on the way."""
        end = len(self.member) - 1
        for layer in reversed(range(self.model.layers)):
            gradient, recurs = None, self.model.recurs(layer)
            for step in reversed(range(end + 1)):
                here = {**site, "rank": self.base + self.member[step], "step": step, "layer": layer}
                at = self.regions[step]
                self.builder.add(Op.FORWARD, Lane.COMPUTE, here, self.cells.forward(at, layer, step == 0))
                arrival: tuple[Ints, ...] = ()
                if recurs and gradient is not None and self.member[step] != self.member[step + 1]:
                    arrival = (self._add_message(step + 1, step, layer, gradient, site),)
                received = step > 0 and bool(self.member[step] != self.member[step - 1])
                row = self.cells.backward(at, layer, step == 0, step == end, received, predicts=step >= self.predicting)
                if layer + 1 == self.model.layers:
                    row = self.cells.with_pairs(row, 0, self.decoded[:, step])
                    row = self._spread({**here, **row}) if step >= self.predicting else row
                gradient = self.builder.add(Op.BACKWARD, Lane.COMPUTE, here, row, after=arrival)
                self.last[self.member[step]] = gradient

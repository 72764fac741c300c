"""Window: one training step as coroutines, a snapshot each (FlareDTDG §3.4), and the rows that each of them issues."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from chronoscale.strategies.flaredtdg.issue_order import Policy, Slot, Wait, awaited_rows, issue_order
from chronoscale.strategies.schedule import Op
from chronoscale.strategies.snapshots.cell_memory import stages
from chronoscale.strategies.workload import ModelShape


@dataclass(frozen=True, slots=True)
class Window:
    """Operations of one training step in FlareDTDG's plan, a coroutine for each of `length` snapshots (§3.4), on several ranks (`spread`)
    or one.

    remaps: steps whose snapshots are built anew before they are aggregated. gathers: steps that predict pairs of nodes, for which ranks
    gather what is read out of all nodes.
    """

    model: ModelShape
    length: int
    spread: bool
    remaps: frozenset[int] = frozenset()
    gathers: frozenset[int] = frozenset()

    def order(self, ns: Mapping[Slot, int], policy: Policy) -> list[Slot]:
        """Return all operations in the order of a policy: the forward pass, then the gradients. ns: predicted durations."""
        forward = issue_order([self.snapshot(step) for step in range(self.length)], ns, policy)
        back = [self.gradient(step) for step in reversed(range(self.length))]
        return forward + issue_order(back, ns, policy, forward)

    async def snapshot(self, step: int) -> None:
        """Await the operations of a snapshot's forward pass, one after another; remote input features came with it, and above the first
        layer remote rows are exchanged. step: 0 is the oldest."""
        if step in self.remaps:
            await Wait(Slot(Op.REMAP, step, 0))
        for layer in range(self.model.layers):
            if self.spread and layer:
                await Wait(Slot(Op.ALLTOALL, step, layer))
            for op in stages(self.model, layer):
                await Wait(Slot(op, step, layer), self._before(op, step, layer))
                if op is Op.AGGREGATE and self.spread and self.model.summarises:
                    await Wait(Slot(Op.ALLGATHER, step, layer))
        if step in self.gathers:
            await Wait(Slot(Op.ALLGATHER, step, self.model.layers))

    async def gradient(self, step: int) -> None:
        """Await the operations of a snapshot's backward pass, one after another; above the first layer gradients of remote rows go back to
        their owners."""
        for layer in reversed(range(self.model.layers)):
            recurs = self.model.recurs(layer) and step + 1 < self.length
            later = (Slot(Op.BACKWARD, step + 1, layer, back=True),) if recurs else ()
            await Wait(Slot(Op.BACKWARD, step, layer, back=True), later)
            if self.spread and layer:
                await Wait(Slot(Op.ALLTOALL, step, layer, back=True))
                if self.model.summarises:
                    await Wait(Slot(Op.ALLGATHER, step, layer, back=True))

    def needs(self) -> dict[Slot, list[Slot]]:
        """Return the dependencies of each operation of the window: the one before it on its snapshot, and that of the snapshot before (of
        gradients: after)."""
        needs: dict[Slot, list[Slot]] = {}
        for step in range(self.length):
            last: list[Slot] = []
            for row in (*awaited_rows(self.snapshot(step)), *awaited_rows(self.gradient(step))):
                needs[row.slot] = [*last, *row.after]
                last = [row.slot]
        return needs

    def _before(self, op: Op, step: int, layer: int) -> tuple[Slot, ...]:
        """Return the slots that an operation waits for beside those of its snapshot: a recurrence for the one of the snapshot before."""
        return (Slot(Op.TEMPORAL, step - 1, layer),) if op is Op.TEMPORAL and step else ()

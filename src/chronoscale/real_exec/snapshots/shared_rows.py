"""Shared rows: the first layer's recurrence of snapshot groups that share what stays as it is (`strategies.snapshots.shared_rows`)."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from chronoscale.cuda_ext.operators.cell_weights import CellWeights
from chronoscale.cuda_ext.operators.lasting_input import LastingInput
from chronoscale.real_exec.execution.transfers import acquire, record_use
from chronoscale.real_exec.snapshots.model import Recurrence, State


@dataclass(frozen=True, slots=True)
class RowParts:
    """Rows of a snapshot in two parts: those that stay as they are in all snapshots of one or two groups, and the rest.

    order int64 [N]: the nodes, those of the first part, `stays` of them, before the rest; place int64 [N]: where each node stands in it.
    """

    order: Tensor
    place: Tensor
    stays: int

    @property
    def nbytes(self) -> int:
        return self.order.nbytes + self.place.nbytes

    @property
    def rest(self) -> Tensor:
        """The nodes whose rows change, int64."""
        return self.order[self.stays :]

    def spread(self, values: Tensor) -> Tensor:
        """Return the values of all nodes, [N, W], in their order, of rows in the order of parts."""
        return values.index_select(0, self.place)

    @classmethod
    def of(cls, stays: Tensor, pin: bool = False) -> RowParts:
        """Part the rows by a mask of those that stay, bool [N]; all in host memory, in pinned memory where they go to a GPU (`pin`)."""
        order = torch.cat([stays.nonzero()[:, 0], (~stays).nonzero()[:, 0]])
        place = torch.empty_like(order)
        place[order] = torch.arange(len(order))
        order, place = (part.pin_memory() if pin else part for part in (order, place))
        return cls(order, place, int(stays.sum()))

    def to(self, device: torch.device) -> RowParts:
        """Copy the lists to a rank's device, asynchronously where the host memory is pinned."""
        order, place = (part.to(device, non_blocking=True, copy=True) for part in (self.order, self.place))
        return RowParts(order, place, self.stays)


@dataclass(slots=True)
class SharedRecurrence:
    """The first layer's recurrence of one group, or of two that share snapshots: `units`, in their order.

    The first group computes the rows that stay (`lasting`), and every group the rest, each from no state. What later groups read of the
    first one is cut off there, so that its gradient goes back once, with the first group's own. parted: inputs are in the order of `parts`,
    all rows in the first snapshot, and the rest alone in others; else all rows in the order of nodes.
    """

    units: tuple[int, ...]
    listed: RowParts  # in host memory
    device: torch.device
    parted: bool = False
    _parts: RowParts | None = None
    lasting: LastingInput | None = None
    lasting_state: State | None = None
    states: dict[int, State] = field(default_factory=dict)  # of the rest, by unit
    outputs: dict[int, Tensor] = field(default_factory=dict)  # of rows that stay, [stays, H] by step: what the first group made
    leaves: dict[int, Tensor] = field(default_factory=dict)  # and what later groups read of it

    def bring_lists(self) -> None:
        """Copy the lists of rows to the device, with the first snapshot of the groups; they stay to the groups' end."""
        self._parts = self.listed.to(self.device)

    @property
    def parts(self) -> RowParts:
        """The two parts of rows on the device, marked as read by this lane's CUDA stream (`transfers.record_use`)."""
        assert self._parts is not None
        record_use(self._parts.order, self._parts.place)
        return self._parts

    def step(self, cell: Recurrence, unit: int, step: int, z: Tensor, wanted: bool) -> Tensor | None:
        """Take one step of a group's recurrence; return its output, [N, H] in the order of `parts`, if that is `wanted`.

        z: its input, [N, H] or [rest, H]. wanted: for every group of these alike.
        """
        z, parts = acquire(z), self.parts
        begins = unit == self.units[0] and step == 0
        if not self.parted:
            z = z.index_select(0, parts.order if begins else parts.rest)
        self.states[unit] = cell(z[parts.stays :] if begins else z, self.states[unit] if step else None)
        if unit == self.units[0]:
            if begins:
                self.lasting, self.lasting_state = LastingInput(z[: parts.stays], CellWeights.of(cell.cell)), None
            assert self.lasting is not None
            self.lasting_state = self.lasting.step(self.lasting_state)
            if wanted:
                self.outputs[step] = self.lasting_state[0]
                if len(self.units) > 1:
                    self.leaves[step] = self.outputs[step].detach().requires_grad_()
        if not wanted:
            return None
        above = self.outputs[step] if unit == self.units[0] else acquire(self.leaves[step])
        return torch.cat([above, self.states[unit][0]])

    def rows_of(self, unit: int, step: int) -> Tensor:
        """Return which rows of a snapshot the recurrence reads, by node, int64: all of the first one, else those that change."""
        return self.parts.order if unit == self.units[0] and step == 0 else self.parts.rest

    def put(self, before: Tensor, nodes: Tensor, rows: Tensor) -> Tensor:
        """Return the rows that change of a snapshot, [rest, H], where `rows` take the place of those of `nodes`, int64.

        before: rows of the snapshot before, these alone or, of the first one, all.
        """
        changing = before[len(before) - len(self.parts.rest) :]
        return changing.index_copy(0, self.parts.place[nodes] - self.parts.stays, rows)

    def returned_gradients(self, unit: int) -> list[tuple[Tensor, Tensor]]:
        """Return which tensors of the first group have a gradient from later groups, and that; none for these."""
        if unit != self.units[0]:
            return []
        grads = ((self.outputs[step], leaf.grad) for step, leaf in self.leaves.items())
        return [(output, grad) for output, grad in grads if grad is not None]

    def forget(self, unit: int) -> None:
        """Drop what a group that has ended leaves behind; the first one ends last."""
        self.states.pop(unit, None)
        if unit == self.units[0]:
            self.lasting = self.lasting_state = self._parts = None
            self.outputs, self.leaves = {}, {}

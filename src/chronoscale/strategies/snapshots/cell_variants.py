"""Cell variants: which implementation of an operation runs a row on a cell (`Schedule.variant`): a snapshot and layer on one rank, of a
sliding window, a vertex part or a sample.

Numbers follow those of whole groups (`variants`), with which no curve is shared: cells are smaller, and other rows run between theirs.
"""

from __future__ import annotations

from enum import IntEnum, IntFlag

from chronoscale.strategies.schedule import Op


class CellTransfer(IntEnum):
    """Implementations of a schedule's H2D rows on cells, which costs tell apart."""

    COPIED = 3  # what lies ready in host memory
    NUMBERED = 4  # a window's snapshot, whose rows are numbered on the host first, by the same row


class CellNumbering(IntEnum):
    """Implementations of a schedule's REMAP rows on sliding windows, which costs tell apart, beside their lane (host or device)."""

    COUNTED = 0  # for the first time in the epoch: what each rank reads of the others is found, too
    AGAIN = 1  # once more: what is read of others is known
    REBUILT = 2  # on the device


class CellAggregate(IntEnum):
    """Implementations of a schedule's AGGREGATE rows on cells, which costs tell apart."""

    DATA = 3  # without gradients
    CUT = 4  # likewise, after the snapshot has been cut to what an older place of a window keeps
    TRACKED = 5  # with what its gradient needs
    TURNED = 6  # likewise; the first reader of an adjacency transposes it, where forward kernels do that


class CellTemporal(IntEnum):
    """Implementations of a schedule's TEMPORAL and FORWARD rows on cells, which costs tell apart: where the state before comes from."""

    ON = 4  # from the snapshot before, as it is
    FIRST = 5  # there is none, which saves the product with it
    INHERITED = 6  # a window's oldest snapshot, from the window before; the next window's is kept
    JOINED = 7  # from the snapshot before, with the rows behind it that only the window before has; as many are kept
    SCATTERED = 8  # both are put where their nodes stand among all rows, and collected from there


class CellBackward(IntFlag):
    """Parts of a schedule's BACKWARD rows on cells, which costs tell apart by which of them a row has."""

    CELL = 2  # every cell's
    LOSS = 4  # begins with a prediction and its loss
    AFTER = 8  # the state's gradient comes from the next snapshot
    STATE = 16  # there was a state before
    BEFORE = 32  # whose gradient is computed
    SCATTERED = 64  # through rows that were scattered (`CellTemporal`)
    UPPER = 128  # the layer below gets a gradient
    SECOND = 256  # the other half of a pass that is cut in two: attention's transformation


def stage_variant(op: Op, tracked: bool, first: bool) -> int:
    """Return which implementation runs a stage of a cell's forward pass. tracked: gradients flow through it; first: no state comes before;
    TRANSFORM rows are all alike, and like those of groups."""
    if op is Op.AGGREGATE:
        return CellAggregate.TRACKED if tracked else CellAggregate.DATA
    if op in (Op.TEMPORAL, Op.FORWARD):
        return CellTemporal.FIRST if first else CellTemporal.ON
    return 0


def backward_variant(upper: bool, recurs: bool, first: bool, last: bool, loss: bool) -> CellBackward:
    """Return the parts of a cell's gradient pass. upper: of a layer above the first; first, last: of its group's snapshots."""
    parts = CellBackward.CELL
    flags = {CellBackward.UPPER: upper, CellBackward.LOSS: loss, CellBackward.AFTER: recurs and not last}
    for part, there in {**flags, CellBackward.STATE | CellBackward.BEFORE: recurs and not first}.items():
        parts |= part if there else CellBackward(0)
    return parts

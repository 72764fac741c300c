"""Shared rows: rows of the first layer's recurrence whose input stays as it is, for planners of REAL.

Snapshot groups that overlap on a rank begin from the same state. A row (node) whose input is the same in every snapshot of all of them has
the same states step by step: the first group computes it, and the others read it, compute the rest, and hand its gradient back. The
products of such an input with the weights are made once, too, in the group's first step. Rows above the first layer are all computed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chronoscale.datasets.snapshots.lasting import SPAN
from chronoscale.strategies.costing.kernels import Kernels
from chronoscale.strategies.schedule import Ints, Op
from chronoscale.strategies.snapshots.groups import CAPACITY
from chronoscale.strategies.snapshots.rows import FP32, Columns, Rows, working_numbers
from chronoscale.strategies.snapshots.tasks import task_of
from chronoscale.strategies.snapshots.variants import BackwardVariant, TemporalVariant, TransformVariant
from chronoscale.strategies.workload import Workload

PARTS = 16  # bytes of a node in the lists of which rows stay (`real_exec.snapshots.shared_rows.RowParts`)


def can_share_rows(workload: Workload) -> bool:
    """Return whether rows of a recurrence can be shared between the snapshot groups of a workload.

    They can where rows that stay were counted, over as many snapshots as the groups of a rank span, the first layer has a recurrence of one
    cell on nodes, and what it reads is exact and depends on the adjacency alone.
    """
    model, hyper = workload.model, workload.hyper
    recurs = model.recurs(0) and not model.evolves_weights and model.depth == 1
    exact = hyper.variant == "exact" and not task_of(hyper.task).varies
    longest = CAPACITY * (hyper.group_size - 1) + 1
    return recurs and exact and hyper.group_size > 1 and workload.snapshots.lasting is not None and longest <= SPAN


@dataclass(frozen=True, slots=True)
class SharedRows:
    """Counts of the first layer's recurrence in groups that share rows, for planners of REAL; all of int64 [n], one number a group.

    kernels: laws of groups that share rows. stays: rows whose input stays as it is, in all groups that overlap on the rank. follows bool
    [n]: an earlier group computes these, and this one the rest; else it computes all.
    """

    rows: Rows
    kernels: Kernels
    stays: Ints
    follows: NDArray[np.bool_]

    @classmethod
    def of(cls, rows: Rows, kernels: Kernels, origin: Ints, span: Ints, follows: NDArray[np.bool_]) -> SharedRows:
        """Count the rows that stay in the `span` snapshots from each `origin` on, int64 [n] each."""
        lasting = rows.workload.snapshots.lasting
        assert lasting is not None
        return cls(rows, kernels, lasting.count("listed" if rows.attends else "weighted", origin, span), follows)

    @property
    def computed(self) -> Ints:
        """The rows that a group computes in a step, int64 [n]."""
        return self.rows.nodes - self.follows * self.stays

    def listed(self, begins: NDArray[np.bool_]) -> Columns:
        """Return what the planned H2D row of a snapshot has more where it is the first one of the groups: lists of which rows stay.

        begins: whether it is, bool [n].
        """
        first = begins.astype(np.int64)
        size = first * PARTS * self.rows.nodes
        return {"bytes": size, "alloc": size, "kernels": 2 * first}

    def parted_product(self, begins: NDArray[np.bool_], product: Columns, into: bool) -> Columns:
        """Return which columns of a planned TRANSFORM row differ (`Rows.transform`), where it leaves only rows that the recurrence reads.

        These are all of the first snapshot of the groups (`begins`, bool [n]), else those that do not stay; they are gathered first, and
        the sums then dropped. into: rows that changed are put into a copy of those that do not stay.
        """
        model, all_rows = self.rows.workload.model, np.full_like(self.stays, self.rows.nodes)
        result = all_rows - ~begins * self.stays
        rows = product["rows"] if into else result
        gathered, sums = (0 * rows, 0 * rows) if into else (rows * model.inputs, all_rows * model.inputs)
        sizes: dict[str, Any] = {"rows": rows, "width": model.inputs, "result": result, "into": into, "gathers": not into}
        return {
            "rows": rows, "flops": 2 * rows * model.inputs * model.hidden, "alloc": FP32 * (result * model.hidden + gathered),
            "free": FP32 * sums, "variant": np.full_like(rows, TransformVariant.INTO_PART if into else TransformVariant.PART),
            "kernels": self.kernels.count(Op.TRANSFORM.name, into=into), "bytes": self.kernels.bytes(Op.TRANSFORM.name, **sizes),
        }  # fmt: skip

    def _flops(self, step: int) -> Ints:
        """Return the multiplications and additions of a step, int64 [n]: products of input and of state, and the gates."""
        model = self.rows.workload.model
        product = 2 * model.gates * model.hidden * model.hidden
        anew = self.computed - (self.stays * ~self.follows if step else 0)  # rows whose input is multiplied
        return anew * product + self.computed * (product + 4 * model.gates * model.hidden)

    def step(self, step: int) -> Columns:
        """Return the columns of a group's planned TEMPORAL row of the first layer, one recurrent step.

        Left allocated are gates and states of the rows computed, and inputs where they are gathered; from the first step to the last the
        products that are made once; and all rows in the order of nodes, where a layer above or a later group's prediction reads them.
        """
        rows, model = self.rows, self.rows.workload.model
        width, last, led = model.hidden, step == rows.workload.hyper.group_size - 1, ~self.follows
        products = led * self.stays * model.gates * width * FP32
        saved = self.computed * width * model.stepped
        if model.transforms_first:  # gathers its input
            saved = saved + (rows.nodes - self.stays * (self.follows | (step > 0))) * width
        whole = rows.nodes * width * ((model.layers > 1) + self.follows * (last or model.layers > 1))
        ones = np.ones_like(self.stays)
        columns = {
            "nodes": ones * rows.nodes, "edges": 0 * ones, "rows": self.computed, "width": ones * width, "flops": self._flops(step),
            "alloc": (saved + whole) * FP32 + products * (step == 0), "free": products * last,
        }  # fmt: skip
        sizes: dict[str, Any] = {"nodes": rows.nodes, "width": width, "stays": led * self.stays, "rest": rows.nodes - self.stays}
        flags: dict[str, Any] = {"later": step > 0, "last": last, "follows": self.follows}
        variants = (TemporalVariant.REST, TemporalVariant.LASTING) if step else (TemporalVariant.REST_FIRST, TemporalVariant.LASTING_FIRST)
        return {
            **columns,
            "kernels": self.kernels.count(Op.TEMPORAL.name, **flags),
            "bytes": self.kernels.bytes(Op.TEMPORAL.name, **flags, **sizes),
            "variant": np.where(self.follows, *variants),
        }

    def backward(self, planned: Columns, leads: NDArray[np.bool_]) -> Columns:
        """Return the columns of a group's planned BACKWARD row, of those of a group that computes all rows and shares none.

        leads: whether a later group reads its rows, bool [n].
        """
        rows, model = self.rows, self.rows.workload.model
        size = rows.workload.hyper.group_size
        all_rows = size * int(rows.recurrence(0)["flops"][0])
        own = np.sum([self._flops(step) for step in range(size)], axis=0)
        products = ~self.follows * self.stays * model.gates * model.hidden
        numbers = self.computed * model.hidden + working_numbers(model, self.computed, 0) + products
        if model.layers > 1:  # which compute all rows
            numbers = np.maximum(numbers, working_numbers(model, rows.nodes, 1))
        before = int(max(working_numbers(model, rows.nodes, layer) for layer in range(model.layers)))
        variant = np.where(self.follows, BackwardVariant.REST, np.where(leads, BackwardVariant.LED, BackwardVariant.LASTING))
        shared = {"rows": planned["rows"] - size * (rows.nodes - self.computed), "flops": planned["flops"] + 2 * (own - all_rows)}
        return {**planned, **shared, "alloc": planned["alloc"] + FP32 * (numbers - before), "variant": variant}

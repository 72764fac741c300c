"""Kernels: how many kernels a row launches on a GPU and what they move there, by laws in a schedule's sizes that were counted.

`kernels.yaml` and `moved.yaml` are made by `benchmarks/count_kernels.py` and `count_moved.py`, which execute schedules under
`real_exec.measurement.kernels.KernelCounter`. A law is a sum of products, {"1": 41, "upper*top": 11}: each a coefficient of the product of

==========================  ===============================================================================
upper, top                  1 above the first layer; in the last one
later, last                 1 after the first snapshot of a group (of windows: in validation); in the last one
partial                     1 where not every node has a row
own                         snapshots of a group to which no earlier gradient pass of its pair has come
steps, links, above, deep   snapshots a group, and but one; layers above the first; 1 if there are any
spread                      1 on several ranks
follows, leads              1 where a group's rows that stay are an earlier one's; where a later group reads its own
joins, joined, narrows,     of sliding windows (`flaredtdg.kernels.law_variables`)
cuts, routed, stays, begins
anew, each                  1 where nothing shrinks; where every snapshot of a window predicts
window, horizon, layers     of a signal's model, and its diffusion steps `hops`
windows                     of a model of events
features, edges             1 where a model of events reads features of nodes; of events
log, gaps, both             1 where its clock is logarithmic; divides by the stream's gaps; has decibels
                            beside the encoding (then, or with features of events: beside)
parted, dropout             1 where its attention has several heads; where it has dropout
present                     1 where a rank has events in the iteration
compressed, cached          1 where rows of features are sent once a batch; where some lie on the device
changing                    1 where others lie there from batch to batch
==========================  ===============================================================================

Laws of bytes also have a row's descriptors `nodes`, `edges`, `rows` and `width`, what a planner says beside them (`fresh`: edges of those
`own` snapshots; `stays`: rows that groups share), and a model's widths.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from math import prod

import numpy as np
import yaml
from numpy.typing import ArrayLike

from chronoscale.errors import UserError
from chronoscale.strategies.schedule import COLLECTIVES, Ints, Lane, Op

MOVES = COLLECTIVES | {Op.H2D, Op.D2H, Op.GATHER, Op.FETCH}  # one copy or call each where a planner does not say more
COMPLEMENTS = {
    "first": "later",
    "goes": "last",
    "below": "top",
    "whole": "partial",
    "lowest": "upper",
    "ongoing": "begins",
}  # 1 where the other is 0
Law = Mapping[str, float]
Laws = Mapping[str, Law]
DESCRIPTORS = ("nodes", "edges", "rows", "width")
Values = Mapping[str, ArrayLike]


@dataclass(frozen=True, slots=True)
class Kernels:
    """Counts of the GPU kernels that a schedule's rows launch, and of the bytes that these read and write, for planners of one model.

    laws: the formula of a count (a polynomial in sizes, {"1": 41, "upper*top": 11}) for each operation, or a planner's own name for a part
    of one; counted in real runs. moves: such formulas for bytes. sizes: the formulas' variables that are the same for every row.
    """

    laws: Laws
    sizes: Mapping[str, int]
    moves: Laws = field(default_factory=dict)

    @classmethod
    def of_model(cls, kind: str, model: str, sizes: Mapping[str, int]) -> Kernels:
        """Return the counts for schedules of one `kind` (as `Schedule.kind`: "groups", "events" ...) that train `model`, read from the
        package's tables. sizes: the formulas' variables that all rows share, such as "steps". Raises UserError for a model that was not
        counted."""
        laws_by_model = read_laws()[kind]
        if model not in laws_by_model:
            raise UserError(f"kernels of '{model}' ({kind}) were not counted (tools/count_kernels.py); known: {', '.join(laws_by_model)}")
        return cls(laws_by_model[model], {"above": 0, **sizes}, read_laws("moved")[kind][model])

    def rows(self, op: Op, lane: Lane, columns: Values) -> Ints:
        """Return how many kernels each row of a block launches, int64 [rows], or [1] for all alike: 0 in the host's lane, 1 for copies and
        collectives that have no formula. columns: the block's columns of the schedule. Raises KeyError for an operation that was not
        counted."""
        if lane is Lane.HOST:
            return np.zeros(1, np.int64)
        if op in MOVES and op.name not in self.laws:
            return np.ones(1, np.int64)
        return self.count(op.name, **self._variables(columns))

    def _variables(self, columns: Values) -> Values:
        """Return the variables of laws that follow from a block's columns."""
        step, layer = (np.asarray(columns.get(name, -1)) for name in ("step", "layer"))
        return {
            "later": step > 0,
            "last": step == self.sizes["steps"] - 1,
            "upper": layer > 0,
            "top": layer == self.sizes["above"],
            "partial": np.asarray(columns.get("rows", 0)) != np.asarray(columns.get("nodes", 0)),
        }

    def count(self, name: str, **values: ArrayLike) -> Ints:
        """Return the number of kernels by the formula called `name` (an operation, or a planner's part of one), int64; `values` of its
        variables differ from row to row and broadcast. Raises KeyError for a formula that does not exist."""
        return self._evaluate(self.laws[name] if self.laws else {"1": 1}, values)

    def moved(self, op: Op, lane: Lane, columns: Values) -> Ints:
        """Return the bytes of device memory that each row of a block reads and writes, int64, for planners that do not say so themselves; 0
        in the host's lane and for copies and collectives. columns: the block's columns of the schedule."""
        if lane is Lane.HOST or op in MOVES or not self.moves:
            return np.zeros(1, np.int64)
        return self.bytes(op.name, **self._variables(columns), **{name: columns.get(name, 0) for name in DESCRIPTORS})

    def bytes(self, name: str, **values: ArrayLike) -> Ints:
        """Return the bytes of device memory that rows read and write by the formula called `name`, int64; 0 where nothing was counted.
        `values` of its variables differ from row to row and broadcast. Raises KeyError for a formula that does not exist."""
        return self._evaluate(self.moves[name], values) if self.moves else np.zeros(1, np.int64)

    def _evaluate(self, terms: Law, values: Values) -> Ints:
        """Evaluate a law: the sum of its coefficients times the products of its variables, int64."""
        variables: dict[str, ArrayLike] = {**self.sizes, **values}
        variables |= {name: 1 - np.asarray(variables[other], np.int64) for name, other in COMPLEMENTS.items() if other in variables}
        parts = {term: [np.asarray(variables[part], np.int64) for part in term.split("*") if part != "1"] for term in terms}
        return np.asarray(np.rint(sum(factor * prod(parts[term]) for term, factor in terms.items())), np.int64)


SINGLE = Kernels({}, {"steps": 0, "above": 0})  # one kernel a row


@cache
def read_laws(name: str = "kernels") -> Mapping[str, Mapping[str, Laws]]:
    """Read the package's formulas for planners: of launched kernels (`name` "kernels"), or of the bytes that these move ("moved"). Keys:
    kind of schedule, then model, then operation."""
    text = resources.files("chronoscale.strategies.costing").joinpath(f"{name}.yaml").read_text(encoding="utf-8")
    laws: Mapping[str, Mapping[str, Laws]] = yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    return laws

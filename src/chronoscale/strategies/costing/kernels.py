"""Kernels: how many a row launches on a GPU, and what they move there, from counts kept as laws of a schedule's sizes.

`kernels.yaml` and `moved.yaml` are made by `benchmarks/count_kernels.py` and `count_moved.py`, which execute schedules under
`real_exec.measurement.kernels.KernelCounter`. A law is a sum of products, {"1": 41, "upper*top": 11}: each a coefficient of the product of

==========================  ===============================================================================
upper, top                  1 above the first layer; in the last one
later, last                 1 after the first snapshot of a group (of windows: in validation); in the last one
partial                     1 where not every node has a row
own                         snapshots of a group that no earlier group of its pair has brought in
steps, links, above, deep   snapshots a group, and but one; layers above the first; 1 if there are any
spread                      1 on several ranks
joins, joined, narrows,     of sliding windows (`flaredtdg.kernels.told`)
cuts, routed, stays, begins
anew, each                  1 where nothing shrinks; where every snapshot of a window predicts
window, horizon, layers     of a signal's model, and its diffusion steps `hops`
windows                     of a model of events
features, edges             1 where a model of events reads features of nodes; of events
log, both, parted, dropout  1 where its clock is logarithmic; on both scales (then, or
                            with features of events: beside); its attention has several heads; it has dropout
present                     1 where a rank has events in the iteration
compressed, cached          1 where rows of features are sent once a batch; where some lie on the device
changing                    1 where others lie there from batch to batch
==========================  ===============================================================================

Laws of bytes also have a row's descriptors `nodes`, `edges`, `rows` and `width`, what a planner says beside them (`fresh`: edges of those
`own` snapshots), and a model's widths.
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
    """Of the rows of one workload's schedules. `laws` of kernels and `moves` of bytes: by operation, or by a name of the planner's for a
    part of one; `sizes`: of variables that are the same for every row."""

    laws: Laws
    sizes: Mapping[str, int]
    moves: Laws = field(default_factory=dict)

    @classmethod
    def counted(cls, kind: str, model: str, sizes: Mapping[str, int]) -> Kernels:
        """Of schedules of one kind and a model, by what tells models apart. Raises UserError for one that was not counted."""
        known = table()[kind]
        if model not in known:
            raise UserError(f"kernels of '{model}' ({kind}) were not counted (benchmarks/count_kernels.py); known: {', '.join(known)}")
        return cls(known[model], {"above": 0, **sizes}, table("moved")[kind][model])

    def rows(self, op: Op, lane: Lane, columns: Values) -> Ints:
        """Of a block with these columns of a schedule; none in the host's lane. Raises KeyError as `count`."""
        if lane is Lane.HOST:
            return np.zeros(1, np.int64)
        if op in MOVES and op.name not in self.laws:
            return np.ones(1, np.int64)
        return self.count(op.name, **self._told(columns))

    def _told(self, columns: Values) -> Values:
        """Variables of a block with these columns."""
        step, layer = (np.asarray(columns.get(name, -1)) for name in ("step", "layer"))
        return {
            "later": step > 0,
            "last": step == self.sizes["steps"] - 1,
            "upper": layer > 0,
            "top": layer == self.sizes["above"],
            "partial": np.asarray(columns.get("rows", 0)) != np.asarray(columns.get("nodes", 0)),
        }

    def count(self, name: str, **values: ArrayLike) -> Ints:
        """By a law; `values` of its variables that differ from row to row, broadcast: int64. Raises KeyError for what was not counted."""
        return self._worth(self.laws[name] if self.laws else {"1": 1}, values)

    def moved(self, op: Op, lane: Lane, columns: Values) -> Ints:
        """Bytes of a block with these columns of a schedule, of which the planner has not said what it moves; none in the host's lane."""
        if lane is Lane.HOST or op in MOVES or not self.moves:
            return np.zeros(1, np.int64)
        return self.bytes(op.name, **self._told(columns), **{name: columns.get(name, 0) for name in DESCRIPTORS})

    def bytes(self, name: str, **values: ArrayLike) -> Ints:
        """That a row reads and writes in device memory, by a law; otherwise as `count`. 0 where nothing was counted."""
        return self._worth(self.moves[name], values) if self.moves else np.zeros(1, np.int64)

    def _worth(self, terms: Law, values: Values) -> Ints:
        found: dict[str, ArrayLike] = {**self.sizes, **values}
        found |= {name: 1 - np.asarray(found[other], np.int64) for name, other in COMPLEMENTS.items() if other in found}
        parts = {term: [np.asarray(found[part], np.int64) for part in term.split("*") if part != "1"] for term in terms}
        return np.asarray(np.rint(sum(factor * prod(parts[term]) for term, factor in terms.items())), np.int64)


SINGLE = Kernels({}, {"steps": 0, "above": 0})  # one kernel a row


@cache
def table(of: str = "kernels") -> Mapping[str, Mapping[str, Laws]]:
    """All laws of kernels, or of what they have "moved": by kind of schedule, by model, by operation."""
    text = resources.files("chronoscale.strategies.costing").joinpath(f"{of}.yaml").read_text(encoding="utf-8")
    found: Mapping[str, Mapping[str, Laws]] = yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    return found

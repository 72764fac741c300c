"""Predictor: a small network that tells how long a task takes from what it works on (FlareDTDG §3.4, "Execution Time Prediction")."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from chronoscale.errors import UserError
from chronoscale.strategies.schedule import Ints, Lane, Op, Schedule

SIZES = ("nodes", "edges", "rows", "width", "bytes", "flops", "alloc")  # descriptors of a task, as log(1 + value)
FLAGS = ("upper", "oldest", "newest", "begins", "anew")  # see `flags`
Floats = NDArray[np.float64]
Names = NDArray[np.str_]
Row = tuple[float, ...]


@dataclass(frozen=True, slots=True)
class HeldOutError:
    """How far predictions of one kind of task are off on `tasks` that were not learned from: |predicted - measured| / measured, the
    median and what nine tenths stay below."""

    kind: str
    median: float
    most: float
    tasks: int


@dataclass(frozen=True, slots=True)
class DenseLayer:
    """Weights [inputs][outputs] and one bias an output."""

    weights: tuple[Row, ...]
    biases: Row


@dataclass(frozen=True, slots=True)
class Predictor:
    """A multi-layer perceptron with tanh between `layers`; the last one has one output, log ns, of mean `centre` and deviation `scale`.

    Inputs: one of `kinds`, an operation and its lane as "ALLTOALL@COMM", is 1; `SIZES` and ranks as log(1 + value) less `means`,
    divided by `deviations` (`scaled`); `FLAGS`. What was not learned from is refused; sizes beyond those that were are not cut off,
    the network goes on. Raises UserError for layers that do not fit together.
    """

    kinds: tuple[str, ...]
    means: Row
    deviations: Row
    layers: tuple[DenseLayer, ...]
    centre: float
    scale: float
    held_out: tuple[HeldOutError, ...] = ()

    def __post_init__(self) -> None:
        wide = len(self.kinds) + len(SIZES) + 1 + len(FLAGS)
        if len(self.means) != len(SIZES) + 1 or len(self.deviations) != len(self.means) or not self.layers:
            raise UserError(f"predictor: expected {len(SIZES) + 1} means and deviations, and a layer; has {len(self.means)} means")
        for layer in self.layers:
            if len(layer.weights) != wide or any(len(row) != len(layer.biases) for row in layer.weights):
                raise UserError(f"predictor: a layer takes {len(layer.weights)} numbers, and gets {wide}")
            wide = len(layer.biases)
        if wide != 1:
            raise UserError(f"predictor: its last layer has 1 number, the time, got {wide}")

    def ns(self, columns: Mapping[str, ArrayLike], kinds: Names) -> Floats:
        """Times of tasks, float64 [n] ns: `columns` by `SIZES`, `FLAGS` and "ranks" [n], `kinds` one a task. Raises UserError for a
        kind that is not known."""
        if unknown := sorted(set(np.unique(kinds).tolist()) - set(self.kinds)):
            known = ", ".join(self.kinds)
            raise UserError(f"predictor: {', '.join(unknown)} was not profiled, {known} were; profile this experiment first")
        found = network_inputs(standardise(log_sizes(columns), self.means, self.deviations), columns, kinds, self.kinds)
        for layer in self.layers[:-1]:
            found = np.tanh(found @ np.asarray(layer.weights) + np.asarray(layer.biases))
        last = self.layers[-1]
        found = found @ np.asarray(last.weights) + np.asarray(last.biases)
        return np.asarray(np.exp(found[:, 0] * self.scale + self.centre), np.float64)

    @property
    def communicates(self) -> bool:
        """Whether it knows how long communication takes."""
        return any(kind.endswith(Lane.COMM.name) for kind in self.kinds)

    def predict(self, schedule: Schedule, rows: Ints) -> Ints:
        """Times of rows, int64 [len(rows)] ns. Raises UserError as `ns`."""
        columns = {name: getattr(schedule, name)[rows] for name in SIZES} | {name: of[rows] for name, of in row_flags(schedule).items()}
        columns["ranks"] = np.full(len(rows), schedule.ranks)
        return np.rint(self.ns(columns, row_kinds(schedule)[rows])).astype(np.int64)


def row_kinds(schedule: Schedule) -> Names:
    """The kind of each row, text [rows]."""
    found, of = np.unique(np.stack([schedule.op, schedule.lane], axis=1), axis=0, return_inverse=True)
    return np.array([f"{Op(op).name}@{Lane(lane).name}" for op, lane in found.tolist()], np.str_)[of.ravel()]


def row_flags(schedule: Schedule) -> dict[str, NDArray[np.bool_]]:
    """`FLAGS` of all rows, bool [rows] each: above the first layer; of a window's first and last snapshot; of a window whose snapshots have
    all just come; of a schedule where nothing shrinks."""
    anew = bool(((schedule.op == Op.REMAP) & (schedule.lane == Lane.COMPUTE)).any())
    return {
        "upper": schedule.layer > 0,
        "oldest": schedule.step == 0,
        "newest": schedule.step == schedule.step.max(initial=0),
        "begins": np.isin(schedule.unit, schedule.unit[(schedule.op == Op.H2D) & (schedule.step == 0)]),
        "anew": np.full(len(schedule), anew),
    }


def log_sizes(columns: Mapping[str, ArrayLike]) -> Floats:
    """Of `SIZES` and ranks, float64 [n, 8]."""
    return np.stack([np.log1p(np.asarray(columns[name], np.float64)) for name in (*SIZES, "ranks")], axis=1)


def standardise(numbers: Floats, means: Row, deviations: Row) -> Floats:
    """Less the mean, divided by the deviation; 0 of what never differed, which says nothing of where it does."""
    by = np.asarray(deviations)
    return np.asarray((numbers - np.asarray(means)) / np.where(by > 0, by, 1.0) * (by > 0))


def network_inputs(numbers: Floats, columns: Mapping[str, ArrayLike], kinds: Names, known: tuple[str, ...]) -> Floats:
    """What the first layer reads: kinds, scaled numbers, flags; float64 [n, ·]."""
    one_hot = (kinds[:, None] == np.array(known, np.str_)).astype(np.float64)
    return np.concatenate([one_hot, numbers, *(np.asarray(columns[name], np.float64)[:, None] for name in FLAGS)], axis=1)

"""Predictor: a small neural network that predicts how long a task takes from its sizes (FlareDTDG §3.4, "Execution Time Prediction")."""

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
    """Error of a learned cost predictor on one kind of task, as profiles report it: |predicted - measured| / measured on `tasks` tasks that
    it was not trained on, the median and the 90th percentile (`most`). kind: operation and lane, as "ALLTOALL@COMM"."""

    kind: str
    median: float
    most: float
    tasks: int


@dataclass(frozen=True, slots=True)
class DenseLayer:
    """Linear layer of the perceptron that predicts durations: weights [inputs][outputs] and one bias for each output."""

    weights: tuple[Row, ...]
    biases: Row


@dataclass(frozen=True, slots=True)
class Predictor:
    """Learned cost model of FlareDTDG (§3.4): a multi-layer perceptron with tanh between `layers` that predicts log ns of a schedule's
    rows.

    Inputs: a one-hot of `kinds` (an operation and its lane, "ALLTOALL@COMM"); the descriptors `SIZES` and the number of ranks as log(1 +
    value), less `means`, divided by `deviations`; and `FLAGS`. The network's output times `scale` plus `centre` is log ns. Kinds that were
    not learned from are refused; sizes beyond those that were are extrapolated. held_out: its errors. Raises UserError for layers that do
    not fit together.
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
        """Predict durations of n tasks from a table of their sizes, float64 [n] ns; for rows of a schedule there is `predict`.

        columns: those of `SIZES` and `FLAGS`, and "ranks", [n] each. kinds: operation and lane of each task, as "H2D@H2D". Raises UserError
        for a kind that was not learned from.
        """
        if unknown := sorted(set(np.unique(kinds).tolist()) - set(self.kinds)):
            known = ", ".join(self.kinds)
            raise UserError(f"predictor: {', '.join(unknown)} was not profiled, {known} were; profile this experiment first")
        activations = network_inputs(standardise(log_sizes(columns), self.means, self.deviations), columns, kinds, self.kinds)
        for layer in self.layers[:-1]:
            activations = np.tanh(activations @ np.asarray(layer.weights) + np.asarray(layer.biases))
        last = self.layers[-1]
        activations = activations @ np.asarray(last.weights) + np.asarray(last.biases)
        return np.asarray(np.exp(activations[:, 0] * self.scale + self.centre), np.float64)

    @property
    def communicates(self) -> bool:
        """Whether this cost model also predicts collectives, which are otherwise timed by a model of the network."""
        return any(kind.endswith(Lane.COMM.name) for kind in self.kinds)

    def predict(self, schedule: Schedule, rows: Ints) -> Ints:
        """Predict durations of rows of a schedule, int64 [len(rows)] ns; rows: row numbers. Raises UserError for a kind (operation and
        lane) that was not learned from."""
        columns = {name: getattr(schedule, name)[rows] for name in SIZES} | {name: of[rows] for name, of in row_flags(schedule).items()}
        columns["ranks"] = np.full(len(rows), schedule.ranks)
        return np.rint(self.ns(columns, row_kinds(schedule)[rows])).astype(np.int64)


def row_kinds(schedule: Schedule) -> Names:
    """Return the kind of each row of a schedule as a `Predictor` knows it, text [rows]: its operation and its lane, as "ALLTOALL@COMM"."""
    pairs, index = np.unique(np.stack([schedule.op, schedule.lane], axis=1), axis=0, return_inverse=True)
    return np.array([f"{Op(op).name}@{Lane(lane).name}" for op, lane in pairs.tolist()], np.str_)[index.ravel()]


def row_flags(schedule: Schedule) -> dict[str, NDArray[np.bool_]]:
    """Return the yes/no inputs (`FLAGS`) of a learned cost predictor for all rows of a schedule of sliding windows (FlareDTDG), bool [rows]
    each.

    upper: above the first layer; oldest, newest: of a window's first, last snapshot; begins: of a window whose snapshots have all just
    arrived; anew: of a schedule in which older snapshots are rebuilt in every window.
    """
    anew = bool(((schedule.op == Op.REMAP) & (schedule.lane == Lane.COMPUTE)).any())
    return {
        "upper": schedule.layer > 0,
        "oldest": schedule.step == 0,
        "newest": schedule.step == schedule.step.max(initial=0),
        "begins": np.isin(schedule.unit, schedule.unit[(schedule.op == Op.H2D) & (schedule.step == 0)]),
        "anew": np.full(len(schedule), anew),
    }


def log_sizes(columns: Mapping[str, ArrayLike]) -> Floats:
    """Return the size inputs of a learned cost predictor, float64 [n, 8]: log(1 + value) of each column of `SIZES`, then of "ranks"."""
    return np.stack([np.log1p(np.asarray(columns[name], np.float64)) for name in (*SIZES, "ranks")], axis=1)


def standardise(numbers: Floats, means: Row, deviations: Row) -> Floats:
    """Return a cost predictor's size inputs ([n, sizes]) less their training means, divided by their training deviations.

    A column that never differed in training (deviation 0) becomes 0, since the predictor cannot know what it does.
    """
    by = np.asarray(deviations)
    return np.asarray((numbers - np.asarray(means)) / np.where(by > 0, by, 1.0) * (by > 0))


def network_inputs(numbers: Floats, columns: Mapping[str, ArrayLike], kinds: Names, known: tuple[str, ...]) -> Floats:
    """Return the inputs of a cost predictor's first layer, float64 [n, inputs]: one-hot kinds (their order is that of `known`), `numbers`
    (standardised sizes, [n, sizes]), then `FLAGS` from `columns` ([n] each). kinds: text [n], as of `row_kinds`."""
    one_hot = (kinds[:, None] == np.array(known, np.str_)).astype(np.float64)
    return np.concatenate([one_hot, numbers, *(np.asarray(columns[name], np.float64)[:, None] for name in FLAGS)], axis=1)

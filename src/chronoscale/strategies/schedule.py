"""Schedule: the plan of an epoch, a table with one row an operation on a rank; it is executed and simulated alike."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, replace
from enum import IntEnum
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from chronoscale.datasets.arrays import Bool, Int32, UInt8
from chronoscale.errors import UserError
from chronoscale.records import reading
from chronoscale.strategies import columnar

Ints = NDArray[np.int64]
WORK = ("nodes", "edges", "rows", "width", "bytes", "flops", "kernels", "alloc", "free")  # columns that say how much a row has to do


class Op(IntEnum):
    """Kind of operation that a row of a schedule performs. Values are stored in files: append, never renumber."""

    SAMPLE = 0
    GATHER = 1
    FETCH = 2
    H2D = 3
    D2H = 4
    AGGREGATE = 5
    INCREMENT = 6
    RECONSTRUCT = 7
    TRANSFORM = 8
    TEMPORAL = 9
    FORWARD = 10
    BACKWARD = 11
    OPTIMIZE = 12
    MEMORY_READ = 13
    MEMORY_UPDATE = 14
    MEMORY_WRITE = 15
    REMAP = 16
    MATERIALISE = 17
    ALLREDUCE = 18
    ALLGATHER = 19
    ALLTOALL = 20
    SEND = 21
    RECV = 22
    COPY = 23
    COMPUTE = 24  # whatever a trace of another tool computes
    GRAPH = 25  # in traces: rows that ran as one CUDA graph, in the place of the last of them


class Lane(IntEnum):
    """Queue of one rank in a schedule, a CUDA stream or a host thread: its operations run one after another."""

    HOST = 0
    H2D = 1
    D2H = 2
    COMPUTE = 3
    COMPUTE2 = 4
    COMM = 5


COLLECTIVES = frozenset({Op.ALLREDUCE, Op.ALLGATHER, Op.ALLTOALL, Op.SEND, Op.RECV})
IDLE = (*COLLECTIVES, Op.OPTIMIZE, Op.D2H, Op.MEMORY_WRITE)  # what a rank without work has to do


@dataclass(frozen=True, slots=True, eq=False)
class Schedule:
    """Plan of one training epoch (or a part of it) by one strategy on `ranks` ranks, which is executed and simulated alike: a row is an
    operation on a rank, columns have one entry a row.

    Rows of one (rank, lane) run in row order. `dep[dep_ptr[i]:dep_ptr[i+1]]` are the rows that row i waits for beyond that order; all are
    earlier rows, so row order is a topological order. `unit` is a snapshot group, a batch or a window; `step` a snapshot in it; -1 where
    none applies.

    Work descriptors: `nodes`, `edges` of the graph that is read; `rows` written; `width` of the input features; `bytes` moved (over the bus
    or network for transfers, through device memory for compute); `flops`; `kernels` that a GPU's host launches (`costing.kernels`).
    `variant`: which implementation of its operation runs the row, where there are several (0: the usual one, or the only one); a planner
    numbers them, and rows of different ones share no curve of a profile. Rows of one `collective` id (-1: none) form one operation that
    starts when its last rank arrives. `alloc` bytes of device memory are taken at a row's start, `free` returned at its end; `resident`
    bytes are allocated on every rank throughout (parameters, gradients, optimiser state, and `cached` bytes of features, as many as
    training.cache_ratio says). `host` bytes are the most that a rank has in host memory (data set, materialised windows, and what making
    them needs).

    `planned_ns`: the epoch's makespan as a scheduler sees it (REAL eq. 10, synchronisation left out), 0 where none planned; `bound_ns`: no
    schedule of that problem is shorter, 0 where unknown; `note`: a remark on the planning for readers. A part of a schedule keeps the three
    of the whole.

    `kind` says what executes it: "groups" of snapshots, each whole on a rank; "snapshots" of a group spread over ranks; "parts" of
    snapshots; "blocks" of sliding windows; "sampled" windows; "hybrid" batches; "windows" of a signal; "events" of a stream, and "spread",
    whose memory ranks have parts of; "preparation", once before the first epoch; "collectives" alone; "modelled", which nothing executes.
    `feeding`: of a signal's windows and preparation, where batches come from (`strategies.signals.feeding`), of events alike
    (`strategies.streams.feeding`); of spread ones, what ranks share (`strategies.streams.spread.sharing`); of blocks, what windows keep
    (`strategies.flaredtdg.retention`). `targets`, `mathematics`: what the epoch trains on (`strategies.trained_work`), 0 and '' where
    nobody said; a part of a schedule keeps those of the whole.
    """

    name: str
    ranks: int
    resident: int
    op: UInt8
    rank: Int32
    lane: UInt8
    iteration: Int32
    unit: Int32
    step: Int32
    layer: Int32
    nodes: Ints
    edges: Ints
    rows: Ints
    width: Ints
    bytes: Ints
    flops: Ints
    kernels: Ints
    variant: Int32
    collective: Ints
    alloc: Ints
    free: Ints
    dep_ptr: Ints
    dep: Ints
    kind: str = "groups"
    planned_ns: int = 0
    bound_ns: int = 0
    note: str = ""
    host: int = 0
    feeding: str = ""
    cached: int = 0
    targets: int = 0
    mathematics: str = ""

    def __post_init__(self) -> None:
        n = len(self.op)
        columnar.check(f"schedule '{self.name}': column", self, COLUMNS)
        if self.ranks < 1:
            raise UserError(f"a schedule needs at least one rank, got {self.ranks}")
        if n and (int(self.rank.min()) < 0 or int(self.rank.max()) >= self.ranks):
            raise ValueError(f"schedule '{self.name}': rank outside 0..{self.ranks - 1}")
        if n and (int(self.op.max()) > max(Op) or int(self.lane.max()) > max(Lane)):
            raise ValueError(f"schedule '{self.name}': unknown op or lane")
        self._check_work()
        if self.dep_ptr.shape != (n + 1,) or self.dep_ptr[0] != 0 or self.dep_ptr[-1] != len(self.dep) or (np.diff(self.dep_ptr) < 0).any():
            raise ValueError(f"schedule '{self.name}': dependency pointers do not fit")
        owner = np.repeat(np.arange(n), np.diff(self.dep_ptr))
        if len(self.dep) and ((self.dep < 0) | (self.dep >= owner)).any():
            raise ValueError(f"schedule '{self.name}': a task depends on a later row")
        self._check_collectives()

    def _check_work(self, names: tuple[str, ...] = WORK) -> None:
        """Raise ValueError for a column of work with a negative entry."""
        for name in names:
            if len(self) and int(getattr(self, name).min()) < 0:
                raise ValueError(f"schedule '{self.name}': negative {name}")

    def _check_collectives(self) -> None:
        """Raise ValueError for a collective with a rank twice, or with several operations."""
        tasks = np.flatnonzero(self.collective >= 0)
        if not len(tasks):
            return
        order = tasks[np.lexsort((self.rank[tasks], self.collective[tasks]))]
        same = self.collective[order][1:] == self.collective[order][:-1]
        if (same & (self.rank[order][1:] == self.rank[order][:-1])).any():
            raise ValueError(f"schedule '{self.name}': a rank takes part twice in one collective")
        kind = np.where(self.op == Op.RECV, np.uint8(Op.SEND), self.op)[order]
        if (same & (kind[1:] != kind[:-1])).any():
            raise ValueError(f"schedule '{self.name}': one collective mixes operations")

    def __len__(self) -> int:
        return len(self.op)

    @property
    def gap(self) -> float:
        """How far the plan may be from the best one, relative to its makespan: (planned - lower bound) / planned; NaN where either is
        unknown."""
        return 1 - self.bound_ns / self.planned_ns if self.planned_ns and self.bound_ns else float("nan")

    @property
    def idle(self) -> int:
        """The number of ranks without work of their own (more ranks than work): they only synchronise and write what others compute."""
        works = ~np.isin(self.op, IDLE)
        return self.ranks - len(np.unique(self.rank[works]))

    @property
    def iterations(self) -> int:
        """The number of optimiser steps in the schedule."""
        return int(self.iteration.max()) + 1 if len(self) else 0

    @property
    def hosted(self) -> Bool:
        """Mask of the rows that the host of a GPU runs itself, whatever lane they are in, bool [rows].

        These are fetches of a data engine, and exchanges between ranks of partitioned node memory, which lies in the host's memory.
        """
        exchanged = np.isin(self.op, (Op.ALLTOALL, Op.ALLGATHER)) & (self.kind == "spread")
        hosted: Bool = (self.lane == Lane.HOST) | (self.op == Op.FETCH) | exchanged
        return hosted

    def tasks(self, op: Op) -> Ints:
        """Return the numbers of the rows with one operation, int64, ascending."""
        return np.flatnonzero(self.op == op)

    def dependencies(self, task: int) -> Ints:
        """Return the numbers of the rows that row `task` waits for beyond the order of its lane, int64."""
        return self.dep[self.dep_ptr[task] : self.dep_ptr[task + 1]]

    def head(self, iterations: int) -> Schedule:
        """Return the part of the schedule up to the given number of optimiser steps, on every rank."""
        return self.take(np.flatnonzero(self.iteration < iterations))

    def take(self, tasks: Ints) -> Schedule:
        """Return the part of the schedule with the given rows (int64 row numbers, ascending). Raises ValueError when a row depends on one
        that is left out."""
        new = np.full(len(self), -1, np.int64)
        new[tasks] = np.arange(len(tasks))
        counts = np.diff(self.dep_ptr)
        selected = np.repeat(new >= 0, counts)
        dep = new[self.dep[selected]]
        if (dep < 0).any():
            raise ValueError(f"schedule '{self.name}': a kept task depends on one that is left out")
        columns = {name: getattr(self, name)[tasks] for name in COLUMNS}
        ptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts[tasks])])
        return replace(self, dep_ptr=ptr, dep=dep, **columns)

    def with_work(self, unit: Int32, **work: Ints) -> Schedule:
        """Return a schedule with the same rows, order and dependencies, but on other data: `unit` (int32 [rows], the batch, window or group
        of each row) and all columns of `WORK` are replaced; what stays is not checked again.

        Raises ValueError for a column that does not fit, or is negative.
        """
        schedule = copy(self)
        for name, column in {"unit": unit, **{name: work[name] for name in WORK}}.items():
            object.__setattr__(schedule, name, column)
        columnar.check(f"schedule '{self.name}': column", schedule, COLUMNS)
        schedule._check_work(tuple(name for name in WORK if work[name] is not getattr(self, name)))
        return schedule

    def saying(self, targets: int, mathematics: str) -> Schedule:
        """Return the schedule with a word on what it trains on, as `Strategy.trained_work` gives it, without checking its rows again."""
        schedule = copy(self)
        object.__setattr__(schedule, "targets", targets)
        object.__setattr__(schedule, "mathematics", mathematics)
        return schedule

    def save(self, path: Path) -> None:
        """Write the schedule as Parquet, one column each; dependencies are a list column."""
        columnar.save(path, self, COLUMNS, deps=pa.LargeListArray.from_arrays(pa.array(self.dep_ptr), pa.array(self.dep)))

    @classmethod
    def load(cls, path: Path) -> Schedule:
        """Read a Parquet file that `save` wrote. Raises UserError when it is missing, truncated or not a schedule."""
        with reading(path, "schedule"):
            values, written = columnar.load(path, cls, COLUMNS)
            deps = written["deps"].combine_chunks()
            ptr = deps.offsets.to_numpy().astype(np.int64)
            return cls(**values, dep_ptr=ptr, dep=deps.values.to_numpy(zero_copy_only=False).astype(np.int64))


# Column -> dtype: all arrays but the dependencies.
COLUMNS = {name: dtype for name, dtype in columnar.columns_of(Schedule).items() if name not in ("dep_ptr", "dep")}

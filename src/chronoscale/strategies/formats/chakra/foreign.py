"""Conversion of the execution traces of other tools to a schedule that can be replayed."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from chronoscale.errors import UserError
from chronoscale.strategies.costing.recorded import Recording
from chronoscale.strategies.evaluation.fifos import previous_in_fifo
from chronoscale.strategies.formats.chakra.messages import CommType, Node, NodeType
from chronoscale.strategies.schedule import COLUMNS, Lane, Op, Schedule
from chronoscale.strategies.trace import Source, Trace

Files = Mapping[int, tuple[Path, Sequence[Node]]]  # by rank
# An all-gather's time is that of half an all-reduce, and so is a reduce-scatter's, of the share that a rank keeps.
COLLECTIVE = {
    CommType.ALL_REDUCE: Op.ALLREDUCE,
    CommType.ALL_GATHER: Op.ALLGATHER,
    CommType.REDUCE_SCATTER: Op.ALLGATHER,
    CommType.REDUCE_SCATTER_BLOCK: Op.ALLGATHER,
    CommType.ALL_TO_ALL: Op.ALLTOALL,
    CommType.BARRIER: Op.ALLREDUCE,
}
SHARED = (CommType.REDUCE_SCATTER, CommType.REDUCE_SCATTER_BLOCK)
MEMORY = {NodeType.MEM_LOAD: (Op.H2D, Lane.H2D), NodeType.MEM_STORE: (Op.D2H, Lane.D2H)}
MESSAGE = {NodeType.COMM_SEND: Op.SEND, NodeType.COMM_RECV: Op.RECV}
Key = tuple[str, ...]
NO_DEVICE = "as traced in "  # what such a trace's device is called, and the file: Chakra has no attribute for it


class _Row(NamedTuple):
    """A node and the file and rank that it comes from."""

    rank: int
    path: Path
    node: Node

    def integer(self, name: str) -> int:
        """Return an integer attribute, 0 where it is absent. Raises UserError where it is no integer from 0 to 2^63 - 1."""
        value = self.node.attributes.get(name, 0)
        if not isinstance(value, int) or not 0 <= value < 1 << 63:
            raise self.wrong(f"{name} is {value!r}, expected a number from 0")
        return int(value)

    def wrong(self, problem: str) -> UserError:
        """Return an error that names file and node."""
        return UserError(f"{self.path}, node {self.node.id} ({self.node.name}): {problem}")


def foreign(files: Files) -> Recording:
    """Convert Chakra traces of another tool, one file of nodes for each rank, to a schedule that can be replayed (kind "modelled") and a
    trace with their times (`Source.PUBLISHED`), on ranks 0 to n - 1.

    Nodes become rows in an order that their dependencies allow, by start and id where they leave one. Lanes are FIFOs, as ASTRA-sim has one
    operation of a kind under way at a time: what computes on the host, on the device, what loads, stores, communicates. Collectives meet in
    the order in which a rank has them in its process group, messages by sender, receiver and tag. Sizes: `num_ops`, `tensor_size`,
    `comm_size`, what a rank contributes.

    Raises UserError naming file and node for a dependency on what is not there or on itself, for collectives that have no partner or are
    not modelled, and for values that no schedule holds.
    """
    rows = [row for rank, (path, nodes) in files.items() for row in _order_nodes(rank, path, nodes)]
    place = {(row.rank, row.node.id): i for i, row in enumerate(rows)}
    deps = [sorted({place[row.rank, dep] for dep in row.node.deps}) for row in rows]
    shapes = [_op_and_lane(row) for row in rows]
    together = _match_collectives(rows, [op for op, _ in shapes])
    sizes = np.bincount(together[together >= 0]) if (together >= 0).any() else np.zeros(0, np.int64)
    values: dict[str, object] = {name: np.zeros(len(rows), dtype) for name, dtype in COLUMNS.items()}
    values |= {name: np.full(len(rows), -1, np.int32) for name in ("unit", "step", "layer")}
    values |= {"op": np.array([op for op, _ in shapes], np.uint8), "lane": np.array([lane for _, lane in shapes], np.uint8)}
    values |= {"rank": np.array([row.rank for row in rows], np.int32), "collective": together}
    values |= {"flops": np.array([row.integer("num_ops") for row in rows], np.int64)}
    values |= {"bytes": np.array([_bytes(row, sizes, group) for row, group in zip(rows, together.tolist(), strict=True)], np.int64)}
    ptr = np.concatenate([np.zeros(1, np.int64), np.cumsum([len(row_deps) for row_deps in deps], dtype=np.int64)])
    dep = np.array([number for row_deps in deps for number in row_deps], np.int64)
    first = files[0][0]
    schedule = Schedule(first.name.partition(".")[0], len(files), 0, **values, dep_ptr=ptr, dep=dep, kind="modelled")  # type: ignore[arg-type]
    start, duration = (np.array([_nanoseconds(row, name) for row in rows], np.int64) for name in ("start_us", "duration_us"))
    trace = Trace.of(schedule, start, start + duration, np.full(len(rows), Source.PUBLISHED, np.uint8), f"{NO_DEVICE}{first.name}")
    return Recording(schedule, trace, previous_in_fifo(schedule, [(lane,) for lane in Lane]))


def _order_nodes(rank: int, path: Path, nodes: Sequence[Node]) -> list[_Row]:
    """Return the nodes of a rank, each after all that it waits for. Raises UserError where that cannot be."""
    rows = {node.id: _Row(rank, path, node) for node in nodes}
    if len(rows) < len(nodes):
        duplicate = next(node.id for i, node in enumerate(nodes) if any(other.id == node.id for other in nodes[:i]))
        raise UserError(f"{path}: two nodes have id {duplicate}")
    waiting, after = {}, defaultdict(list)
    for row in rows.values():
        waiting[row.node.id] = len(set(row.node.deps))
        for dep in set(row.node.deps):
            if dep not in rows:
                raise row.wrong(f"waits for node {dep}, which is not in the file")
            after[dep].append(row.node.id)
    ready = [(rows[one].node.start_us, one) for one, count in waiting.items() if not count]
    heapq.heapify(ready)
    ordered = []
    while ready:
        _, number = heapq.heappop(ready)
        ordered.append(rows[number])
        for other in after[number]:
            waiting[other] -= 1
            if not waiting[other]:
                heapq.heappush(ready, (rows[other].node.start_us, other))
    if len(ordered) < len(nodes):
        stuck = min(one for one, count in waiting.items() if count)
        raise rows[stuck].wrong("waits for itself, by others")
    return ordered


def _op_and_lane(row: _Row) -> tuple[Op, Lane]:
    """Return a node's operation and lane. Raises UserError for a type or a collective that is not modelled."""
    kind = row.node.type
    if kind == NodeType.COMM_COLL:
        number = row.integer("comm_type")
        if number not in COLLECTIVE:
            names = {CommType(value).name for value in COLLECTIVE}
            type_name = CommType(number).name if number in CommType._value2member_map_ else str(number)
            raise row.wrong(f"comm_type {type_name} is not modelled; known: {', '.join(sorted(names))}")
        return COLLECTIVE[CommType(number)], Lane.COMM
    if kind in MESSAGE:
        return MESSAGE[NodeType(kind)], Lane.COMM
    if kind in MEMORY:
        return MEMORY[NodeType(kind)]
    if kind not in NodeType._value2member_map_ or kind == NodeType.INVALID:
        raise row.wrong(f"type {kind} is no type of a node")
    on_host = bool(row.node.attributes.get("is_cpu_op", True)) or kind != NodeType.COMP  # the feeder's default
    return Op.COMPUTE, Lane.HOST if on_host else Lane.COMPUTE


def _match_collectives(rows: Sequence[_Row], ops: Sequence[Op]) -> np.ndarray:
    """Return the collective of each row, -1 for none; int64 [rows]. Raises UserError for collectives and messages without partners."""
    count: dict[tuple[int, Key], int] = defaultdict(int)
    groups: dict[tuple[Key, int], list[int]] = defaultdict(list)
    for i, (row, op) in enumerate(zip(rows, ops, strict=True)):
        if row.node.type == NodeType.COMM_COLL:
            key: Key = (str(row.node.attributes.get("pg_name", "")),)
        elif op in (Op.SEND, Op.RECV):
            key = tuple(str(row.integer(name)) for name in ("comm_src", "comm_dst", "comm_tag"))
            if row.rank != int(key[op is Op.RECV]):
                raise row.wrong(f"{'comm_dst' if op is Op.RECV else 'comm_src'} is {key[op is Op.RECV]}, and the file rank {row.rank}'s")
        else:
            continue
        groups[key, count[row.rank, key]].append(i)
        count[row.rank, key] += 1
    ranks = {key: {rows[i].rank for i in groups[key, 0]} for key, _ in groups}
    collective = np.full(len(rows), -1, np.int64)
    for number, ((key, _), members) in enumerate(groups.items()):
        first = rows[members[0]]
        if len(key) > 1 and len(members) < 2:
            raise first.wrong(
                f"no {'RECV' if ops[members[0]] is Op.SEND else 'SEND'} of message {' '.join(key)} (source, destination, tag)"
            )
        if missing := ranks[key] - {rows[i].rank for i in members}:
            raise first.wrong(f"rank {min(missing)} does not take part, and did before in process group '{key[0]}'")
        if other := [rows[i] for i in members if len(key) == 1 and rows[i].integer("comm_type") != first.integer("comm_type")]:
            raise other[0].wrong(f"comm_type {other[0].integer('comm_type')} meets {first.integer('comm_type')} in {first.path}")
        collective[members] = number
    return collective


def _bytes(row: _Row, sizes: np.ndarray, group: int) -> int:
    """Return the bytes that a row moves; of a reduce-scatter the share that a rank keeps."""
    if group < 0:
        return row.integer("tensor_size")
    return row.integer("comm_size") // (
        int(sizes[group]) if row.node.type == NodeType.COMM_COLL and row.integer("comm_type") in SHARED else 1
    )


def _nanoseconds(row: _Row, name: str) -> int:
    """Return a time of a node in ns. Raises UserError for one that is too large."""
    micros = int(getattr(row.node, name))
    if micros >= 1 << 52:
        raise row.wrong(f"{name.removesuffix('_us')} of {micros} µs")
    return micros * 1000

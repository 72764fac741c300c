"""Writer of a trace and its schedule as Chakra execution traces, from which both can be read back whole."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from chronoscale.strategies.evaluation.fifos import Streams, collective_members, previous_in_fifo
from chronoscale.strategies.formats.chakra import messages
from chronoscale.strategies.formats.chakra.attribute import FIELD, NAME, attribute
from chronoscale.strategies.formats.chakra.messages import CommType, Node, NodeType
from chronoscale.strategies.formats.chakra.wire import Wire, delimited, tag, varint
from chronoscale.strategies.schedule import COLUMNS, Lane, Op, Schedule
from chronoscale.strategies.trace import Source, Trace

FORMAT = 1  # of our attributes
MADE_BY = "chronoscale"  # the attribute of the metadata that says so; its value is FORMAT
COMM = {Op.ALLREDUCE: CommType.ALL_REDUCE, Op.ALLGATHER: CommType.ALL_GATHER, Op.ALLTOALL: CommType.ALL_TO_ALL}
TYPES = {
    **dict.fromkeys(COMM, NodeType.COMM_COLL),
    Op.SEND: NodeType.COMM_SEND,
    Op.RECV: NodeType.COMM_RECV,
    Op.H2D: NodeType.MEM_LOAD,
    Op.D2H: NodeType.MEM_STORE,
}  # the rest computes
NOWHERE = {"unit": -1, "step": -1, "layer": -1, "collective": -1}  # what a column says of no snapshot; others 0. Not written
# Columns by the attributes that simulators know; bytes are `comm_size` of what communicates, `tensor_size` of the rest.
RENAMED = {"flops": "num_ops"}
KEPT = [name for name in COLUMNS if name not in ("op", "rank", "lane", "bytes")]
ABOUT = [field.name for field in fields(Schedule) if field.name not in (*COLUMNS, "dep_ptr", "dep")]


def write(trace: Trace, schedule: Schedule, streams: Streams, folder: Path, name: str) -> list[Path]:
    """Export a trace and its schedule as Chakra execution traces (MLCommons), `<name>.<rank>.et`, one file a rank, in `folder`; return the
    paths.

    A node is a row, its id the row's number. Durations are written in µs, as in Chakra, and in ns; dependencies within a rank are
    data_deps, and a control dependency leads to the row before in the FIFO (`streams`: lanes that share one). Collectives name their
    process group, the number of a list of ranks (`process_groups`), messages their sender, receiver and tag. Dependencies on another rank,
    and all other columns of a schedule and a trace, are attributes.

    Raises ValueError for a trace that has not every row of the schedule.
    """
    if not np.array_equal(trace.task, np.arange(len(schedule))) or not np.array_equal(trace.bytes, schedule.bytes):
        raise ValueError(f"trace of '{trace.strategy}': a Chakra trace needs every row of its schedule")
    nodes = _Nodes(trace, schedule, streams)
    paths = []
    for rank in range(schedule.ranks):
        about: dict[str, Any] = {MADE_BY: FORMAT, "rank": rank, "tasks": len(schedule), "device": trace.device}
        about |= {key: getattr(schedule, key) for key in ABOUT}
        meta = [attribute(key, "string" if isinstance(value, str) else "int64", value) for key, value in about.items()]
        rows = np.flatnonzero(schedule.rank == rank).tolist()
        paths.append(folder / f"{name}.{rank}.et")
        messages.write(paths[-1], _messages(messages.encode_metadata(meta), nodes, rows))
    return paths


def process_groups(schedule: Schedule) -> dict[str, list[int]]:
    """Return the process groups of a schedule's collectives, name ("1", "2" ...) -> ranks, as ASTRA-sim reads them by
    --comm-group-configuration beside exported Chakra traces."""
    groups = {tuple(sorted(schedule.rank[rows].tolist())) for rows in collective_members(schedule).values() if schedule.op[rows[0]] in COMM}
    return {str(i + 1): list(ranks) for i, ranks in enumerate(sorted(groups))}


def groups_json(schedule: Schedule) -> str:
    """Return the process groups of a schedule's collectives (`process_groups`) as JSON, for ASTRA-sim."""
    return json.dumps(process_groups(schedule))


def _messages(metadata: bytes, nodes: _Nodes, rows: list[int]) -> Iterator[bytes]:
    """Yield the messages of a file: the metadata, then one node a row."""
    yield metadata
    for row in rows:
        yield nodes.message(row)


class _Nodes:
    """An encoder of rows as messages. Columns become lists once: single items of arrays are slow."""

    def __init__(self, trace: Trace, schedule: Schedule, streams: Streams) -> None:
        self._schedule = schedule
        self._op, self._lane, self._source = ([int(code) for code in column] for column in (schedule.op, schedule.lane, trace.source))
        self._start, self._took = trace.start_ns.tolist(), trace.duration_ns.tolist()
        self._before, self._bytes = previous_in_fifo(schedule, streams).tolist(), schedule.bytes.tolist()
        self._columns = [(_integer(RENAMED.get(name, name)), getattr(schedule, name).tolist(), NOWHERE.get(name, 0)) for name in KEPT]
        self._lanes = {lane: attribute("lane", "string", lane.name) for lane in Lane}
        self._on_host = {lane: attribute("is_cpu_op", "bool", lane is Lane.HOST) for lane in Lane}
        self._sources = {source: attribute("source", "string", source.name.lower()) for source in Source}
        self._begin, self._last = _integer("start_ns"), _integer("duration_ns")
        self._sent, self._held = _integer("comm_size"), _integer("tensor_size", "uint64")
        groups = {tuple(ranks): name for name, ranks in process_groups(schedule).items()}
        self._together = {
            row: attributes
            for rows in collective_members(schedule).values()
            for row, attributes in self._communication(rows.tolist(), groups)
        }

    def message(self, row: int) -> bytes:
        """Encode one row as a Chakra node."""
        op = Op(self._op[row])
        lane = Lane(self._lane[row])
        own = self._schedule.rank[row]
        deps = self._schedule.dependencies(row)
        near = deps[self._schedule.rank[deps] == own]
        attributes = [self._on_host[lane], self._lanes[lane], self._sources[Source(self._source[row])]]
        attributes += [self._begin(self._start[row]), self._last(self._took[row])]
        attributes += [write(values[row]) for write, values, nowhere in self._columns if values[row] != nowhere]
        if self._bytes[row]:
            attributes.append((self._sent if row in self._together else self._held)(self._bytes[row]))
        attributes += self._together.get(row, ())
        if len(near) < len(deps):
            attributes.append(attribute("deps", "int64", deps.tolist()))
        control = () if self._before[row] < 0 else (self._before[row],)
        times = (max(self._start[row], 0) // 1000, round(self._took[row] / 1000))
        return messages.encode_node(Node(row, op.name, TYPES.get(op, NodeType.COMP), control, tuple(near.tolist()), *times), attributes)

    def _communication(self, rows: list[int], groups: dict[tuple[int, ...], str]) -> Iterator[tuple[int, list[bytes]]]:
        """Yield the rows of one collective or message, each with the attributes that say with whom it communicates."""
        ranks, op = [int(self._schedule.rank[row]) for row in rows], Op(self._op[rows[0]])
        if op in COMM:
            attributes = [attribute("comm_type", "int64", COMM[op]), attribute("pg_name", "string", groups[tuple(sorted(ranks))])]
        else:
            ends = {Op(self._op[row]): rank for row, rank in zip(rows, ranks, strict=True)}
            numbers = {
                "comm_src": ends.get(Op.SEND),
                "comm_dst": ends.get(Op.RECV),
                "comm_tag": self._schedule.collective[rows[0]] & 0x7FFFFFFF,
            }
            attributes = [attribute(name, "int32", int(value)) for name, value in numbers.items() if value is not None]
        for row in rows:
            yield row, attributes


def _integer(name: str, kind: str = "int64") -> Callable[[int], bytes]:
    """Return an encoder of integer attributes of one name, which share their first bytes."""
    front = delimited(NAME, name.encode()) + tag(FIELD[kind], Wire.VARINT)
    return lambda value: front + varint(value)

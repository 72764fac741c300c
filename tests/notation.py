"""Schedules as text, for tests: `label: OP@LANE column=value ... <- label label/rank label?`, one line for all ranks.

A value is one number or one a rank (`ns=10,10,50,10`). `rank=1` keeps the row to one rank, `all` makes it a collective of all. A
dependency is on the same rank unless it names another; `?` leaves it out where there is no such row. `ns` is how long `NsCosts` takes it to
last (10 by default); a collective moves 10 bytes by default, and `gpus` moves a byte a ns.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from chronoscale.strategies.cluster import Cluster, Device, Link
from chronoscale.strategies.costs import Floats
from chronoscale.strategies.planning.builder import Builder
from chronoscale.strategies.schedule import COLLECTIVES, Ints, Lane, Op, Schedule
from chronoscale.strategies.trace import Source, Trace

ROW = re.compile(r"(\S+): (\w+)@(\w+)([^<]*)(?:<-(.*))?")


@dataclass(frozen=True)
class Written:
    """A schedule and the row of every `label/rank`."""

    schedule: Schedule
    row: dict[str, int]

    def span(self, trace: Trace, label: str) -> tuple[int, int]:
        """Start and end (ns) of a row; rank 0 unless named."""
        task = self.row[label if "/" in label else f"{label}/0"]
        return int(trace.start_ns[task]), int(trace.end_ns[task])

    def overlap(self, trace: Trace, *labels: str) -> bool:
        """Is there a moment at which all of them run?"""
        spans = [self.span(trace, label) for label in labels]
        return max(start for start, _ in spans) < min(end for _, end in spans)

    def after(self, trace: Trace, later: str, earlier: str) -> bool:
        return self.span(trace, later)[0] >= self.span(trace, earlier)[1]


def write(text: str, ranks: int = 1, name: str = "test", resident: int = 0) -> Written:
    builder, row = Builder(name, ranks, resident), {}
    for number, line in enumerate(line for line in text.splitlines() if line.strip()):
        label, op, lane, columns, deps = ROW.fullmatch(line.strip()).groups()  # type: ignore[union-attr]
        values: dict[str, object] = {"ns": 0, "bytes": 10} if Op[op] in COLLECTIVES else {"ns": 10}
        for part in columns.split():
            key, _, value = part.partition("=")
            values[key] = 1000 + number if part == "all" else np.array([int(v) for v in value.split(",")])
        values["collective"] = values.pop("all", values.pop("group", -1))
        values["flops"] = values.pop("ns")
        where = np.arange(ranks) if (only := values.pop("rank", None)) is None else only
        after = []
        for dep in (deps or "").split():
            target, _, at = dep.removesuffix("?").partition("/")
            rows = [row.get(f"{target}/{at or rank}", -1) for rank in where]
            assert dep.endswith("?") or -1 not in rows, f"no such row: {dep}"
            after.append(np.array(rows))
        handles = builder.add(Op[op], Lane[lane], values, {"rank": where, "order": number}, after=after)
        row |= {f"{label}/{rank}": int(handle) for rank, handle in zip(where, handles, strict=True)}
    return Written(builder.finish(), row)


class NsCosts:
    """`flops` are nanoseconds; so is what launching a kernel takes."""

    name = "ns"

    def __init__(self, launch_ns: int = 0) -> None:
        self.launch_ns = launch_ns

    def predict(self, schedule: Schedule, rows: Ints) -> tuple[Ints, Source]:
        return schedule.flops[rows], Source.MEASURED

    def occupies(self, schedule: Schedule, rows: Ints, ns: Ints) -> tuple[Floats, Floats]:
        return np.zeros(len(rows)), np.zeros(len(rows))


def gpus(
    count: int,
    per_node: int | None = None,
    streams: tuple[tuple[Lane, ...], ...] | None = None,
    memory: float = 1e9,
    origin: str = "specified for a test",
    contention: bool = False,
) -> Cluster:
    """Devices joined by links of 1 B/ns within a node and half of that between nodes, without latency; fitted ones have no rails. Rows run
    as if each were alone."""
    each = per_node or count
    extra = {} if streams is None else {"streams": streams}
    device = Device("Test GPU", memory, 1e12, 1e12, Link(1e9, 0.0), 0.0, **extra)
    links = Link(1e9, 0.0), Link(0.5e9, 0.0)
    return Cluster("test", device, -(-count // each), each, *links, origin, collectives="alpha-beta", contention=contention)


def log(schedule: Schedule, trace: Trace) -> list[tuple[str, int, int, int]]:
    """Operation, rank, start and end of every row, in row order."""
    return [
        (Op(op).name, int(rank), int(start), int(end))
        for op, rank, start, end in zip(trace.op, trace.rank, trace.start_ns, trace.end_ns, strict=True)
    ]


Facts = Callable[[Written, Trace], list[bool]]


@dataclass(frozen=True)
class Case:
    text: str
    facts: Facts


CASES: dict[str, Case] = {}


def case(name: str, *lines: str) -> Callable[[Facts], Facts]:
    def keep(facts: Facts) -> Facts:
        CASES[name] = Case("\n".join(lines), facts)
        return facts

    return keep


def each(count: int, *lines: str) -> str:
    """The lines for b = 0, 1, ...; {b}, {p} (the one before) and {pp} stand for numbers."""
    return "\n".join(line.format(b=b, p=b - 1, pp=b - 2) for b in range(count) for line in lines)


def count(written: Written, op: Op) -> int:
    """Rows of an operation on rank 0."""
    return int(((written.schedule.op == op) & (written.schedule.rank == 0)).sum())

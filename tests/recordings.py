"""Random schedules with everything in them, and traces of them, for what is written and read again."""

import numpy as np

from chronoscale.strategies.planning.builder import Builder
from chronoscale.strategies.schedule import Lane, Op, Schedule
from chronoscale.strategies.trace import Source, Trace

WORK = (Op.H2D, Op.D2H, Op.AGGREGATE, Op.BACKWARD, Op.OPTIMIZE, Op.SAMPLE, Op.COMPUTE)
BIG = ("nodes", "edges", "rows", "width", "bytes", "flops", "kernels", "alloc", "free")


def recording(seed: int, ranks: int = 3, events: int = 20) -> tuple[Schedule, Trace]:
    """Rows of all kinds with columns from 0 to 2^40, collectives of some ranks, messages, dependencies within a rank and between."""
    rng = np.random.default_rng(seed)
    builder = Builder(f"random-{seed}", ranks, int(rng.integers(1 << 40)), "spread", host=7, feeding="spread:é")
    rows: list[tuple[int, int]] = []

    def add(op: Op, rank: int, collective: int, lane: Lane, size: int | None = None) -> None:
        values = {name: int(rng.integers(1 << int(rng.integers(1, 40)))) * int(rng.integers(2)) for name in BIG}
        values |= {name: int(rng.integers(-1, 3)) for name in ("unit", "step", "layer")} | {"iteration": len(rows) // 7}
        deps = [row for row, other in rows if rng.random() < (0.2 if other == rank else 0.02)] if collective < 0 else []
        site = {"rank": rank, "order": len(rows), "collective": collective} | ({} if size is None else {"bytes": size})
        row = builder.add(op, lane, values, site, after=[np.array([dep]) for dep in deps])
        rows.append((int(row[0]), rank))

    for event in range(events):
        kind = rng.integers(5)
        if kind == 0:
            op = Op(rng.choice([Op.ALLREDUCE, Op.ALLGATHER, Op.ALLTOALL]))
            for rank in np.flatnonzero(rng.random(ranks) < 0.7).tolist():
                add(op, rank, event, Lane.COMM)
        elif kind == 1 and ranks > 1:
            one, two = rng.choice(ranks, 2, replace=False).tolist()
            add(Op.SEND, one, event, Lane.COMM, 99)
            add(Op.RECV, two, event, Lane.COMM, 99)
        else:
            add(Op(rng.choice(WORK)), int(rng.integers(ranks)), -1, Lane(rng.integers(len(Lane))))
    schedule = builder.finish()
    start, took = rng.integers(1 << 40, size=(2, len(schedule)))
    source = rng.integers(len(Source), size=len(schedule)).astype(np.uint8)
    return schedule, Trace.of(schedule, start, start + took, source, "a device, é")

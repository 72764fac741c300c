"""Schedules drawn by chance: random lanes, dependencies, launches, iterations and collectives, deadlocks included."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from chronoscale.strategies.planning.builder import Builder
from chronoscale.strategies.schedule import Lane, Op, Schedule

ONE_STREAM = (tuple(Lane),)


@st.composite
def schedules(draw: st.DrawFn) -> Schedule:
    ranks = draw(st.integers(1, 4))
    rows: list[tuple[int, Op, int, Lane, int, int]] = []  # position, op, rank, lane, ns or bytes, collective
    for event in range(draw(st.integers(1, 14))):
        work = st.integers(0, 9)
        lane = st.sampled_from(list(Lane))
        if draw(st.booleans()):
            members = draw(st.lists(st.integers(0, ranks - 1), min_size=1, unique=True))
            op = draw(st.sampled_from([Op.ALLREDUCE, Op.ALLTOALL, Op.ALLGATHER, Op.SEND]))
            late = draw(st.integers(0, 9)) == 0  # now and then ranks meet their collectives in different orders
            for rank in members:
                position = draw(st.integers(event, event + 3)) if late else event
                rows.append((position, op, rank, draw(lane), draw(work), event))
        else:
            rows.append(
                (
                    event,
                    draw(st.sampled_from([Op.H2D, Op.AGGREGATE, Op.FETCH, Op.OPTIMIZE])),
                    draw(st.integers(0, ranks - 1)),
                    draw(lane),
                    draw(work),
                    -1,
                )
            )
    rows.sort(key=lambda row: row[0])
    builder, iteration = Builder("random", ranks), 0
    for i, (_, op, rank, lane, work, collective) in enumerate(rows):
        deps = draw(st.lists(st.integers(0, i - 1), max_size=3)) if i and (collective < 0 or draw(st.integers(0, 3)) == 0) else []
        iteration += draw(st.integers(0, 5)) == 0
        site = {"rank": rank, "order": i, "flops": work, "bytes": work, "collective": collective, "iteration": iteration}
        builder.add(op, lane, site, {"kernels": draw(st.integers(0, 4))}, after=[np.array([dep]) for dep in deps])
    return builder.finish()

"""Rows that share resources, drawn by a seed: chains, dependencies between ranks, collectives, launches, few and many rivals."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from sharing_case import Entries, shares

from chronoscale.simulator.sharing.shares import Shares
from chronoscale.strategies.planning.builder import Builder
from chronoscale.strategies.schedule import Lane, Op, Schedule

LANES = (Lane.COMPUTE, Lane.COMPUTE2, Lane.H2D, Lane.D2H, Lane.HOST)
SHARE = (1 / 3, 0.5, 0.7, 1.0)


@dataclass(frozen=True)
class ContendedRows:
    """Schedule without deadlocks, and what its rows take: entries (row, resource, share), delays (ns) and demands by row."""

    schedule: Schedule
    entries: Entries
    delay: dict[int, int]
    demand: dict[int, float]
    launch_ns: int

    @property
    def shares(self) -> Shares | None:
        return shares(self.schedule, self.entries, self.delay, demand=self.demand)


def draw(seed: int, longest: int, launches: bool = True) -> ContendedRows:
    """Draw up to 60 rows of up to `longest` ns on up to 5 ranks; two or three ranks share their resources, or all of them one."""
    rng = np.random.default_rng(seed)
    ranks, together = int(rng.integers(1, 6)), int(rng.integers(1, 4))
    often, abroad, joint, takes = rng.choice([0.1, 0.4]), rng.choice([0, 0, 0.1]), rng.choice([0, 0.15, 0.3]), rng.choice([0.5, 0.9])
    lanes = LANES[: rng.integers(2, len(LANES) + 1)]
    small = rng.random() < 0.2  # shares of a resource that all streams take
    builder, entries, delay, demand = Builder("contended", ranks), Entries(), dict[int, int](), dict[int, float]()
    last = [list[int]() for _ in range(ranks)]  # rows of each rank
    for number in range(int(rng.integers(1, 60))):
        collective = rng.random() < joint
        members = np.flatnonzero(rng.random(ranks) < 0.6) if collective else rng.integers(ranks, size=1)
        members = members if len(members) else np.arange(ranks)
        after = []
        for k in range(2):
            near = [last[rank] if rng.random() >= abroad else last[int(rng.integers(ranks))] for rank in members]
            after.append(np.array([rows[-1 - k - int(rng.integers(3)) :][0] if rows and rng.random() < often else -1 for rows in near]))
        work = int(rng.integers(longest))
        site = {"rank": members, "order": number, "flops": work, "bytes": work, "collective": number if collective else -1}
        op = Op.ALLREDUCE if collective else Op.OPTIMIZE if rng.random() < 0.1 else Op.COPY
        lane = Lane.COMM if collective else lanes[rng.integers(len(lanes))]
        rows = builder.add(op, lane, site, {"kernels": rng.integers(3), "iteration": number // 12}, after=after)
        for rank, row in zip(members.tolist(), rows.tolist(), strict=True):
            last[rank].append(row)
        if rng.random() < takes:
            row, place = int(rows[0]), int(members[0]) // together * 3
            chosen = [0] if small else sorted({place + int(rng.integers(3)) for _ in range(rng.integers(1, 3))})
            entries += [(row, r, float(rng.choice(SHARE) * (0.3 if small else 1) * rng.choice([1, rng.uniform(0.5, 1)]))) for r in chosen]
            demand[row] = float(rng.choice([0.3, 1.0, rng.uniform(0.1, 2)]))
            if rng.random() < 0.2:
                delay[row] = int(rng.integers(longest))
    return ContendedRows(builder.finish(), entries, delay, demand, int(rng.choice([0, 3])) if launches else 0)

"""Pairs: the link between each two machines of several, and inside each, by messages of many sizes from one rank to another."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from chronoscale.real_exec.execution.passes import Pass
from chronoscale.real_exec.measurement.collectives import MESSAGES
from chronoscale.real_exec.measurement.fit import solve
from chronoscale.real_exec.measurement.repeats import row_durations
from chronoscale.strategies.cluster import Link, PairLink
from chronoscale.strategies.planning.builder import Builder
from chronoscale.strategies.schedule import Lane, Op, Schedule


def messages(ranks_of_machines: Sequence[range]) -> Schedule:
    """Return a schedule of messages, of every size in MESSAGES, both ways between the first ranks of each two machines, and between two
    ranks of each machine that has two. ranks_of_machines: the ranks of each. A row's `step` is the other rank, its `layer` the pair.
    """
    builder = Builder(f"messages-{ranks_of_machines[-1].stop}", ranks_of_machines[-1].stop, kind="collectives")
    count = 0
    for pair, (first, second) in enumerate(_pairs(ranks_of_machines)):
        for size in MESSAGES:
            for source, target in ((first, second), (second, first)):
                common = {"order": count, "collective": count, "bytes": size, "iteration": 0, "layer": pair}
                builder.add(Op.SEND, Lane.COMM, common, {"rank": np.array([source]), "step": target})
                builder.add(Op.RECV, Lane.COMM, common, {"rank": np.array([target]), "step": source})
                count += 1
    return builder.finish()


def is_messages(schedule: Schedule) -> bool:
    """Return whether a schedule is one of `messages`."""
    return schedule.kind == "collectives" and bool((schedule.op == Op.RECV).any())


def fit_pairs(schedule: Schedule, passes: Sequence[Pass], ranks_of_machines: Sequence[range]) -> tuple[PairLink, ...]:
    """Fit latency and bandwidth of each pair to measured passes over `messages`: T = alpha + n / B for the n bytes of a message.

    A message lasts from when both ranks have come to when it is received; of its passes the median counts, for now and then it is sent
    only once the receiver's word that it has come is there, a round trip after. A pair's first message always is, and is left out; so are
    those that took less than clocks agree, and a pair of which fewer than two sizes are left.
    """
    ns, clock_ns = np.median(row_durations(passes), axis=0), max(each.trace.clock_ns for each in passes)
    machine = {rank: number for number, ranks in enumerate(ranks_of_machines) for rank in ranks}
    links = []
    for pair, ends in enumerate(_pairs(ranks_of_machines)):
        sent = np.flatnonzero((schedule.op == Op.RECV) & (schedule.layer == pair))
        rows = sent[(schedule.collective[sent] > schedule.collective[sent].min()) & (ns[sent] >= clock_ns)]
        if len(np.unique(schedule.bytes[rows])) < 2:
            continue
        alpha, beta = solve(np.stack([np.ones(len(rows)), schedule.bytes[rows].astype(np.float64)], axis=1), ns[rows])
        first, second = (machine[rank] for rank in ends)
        links.append(PairLink(first, second, Link(1e9 / max(beta, 1e-12), alpha / 1e9)))
    return tuple(links)


def _pairs(ranks_of_machines: Sequence[range]) -> list[tuple[int, int]]:
    inside = [(ranks[0], ranks[1]) for ranks in ranks_of_machines if len(ranks) > 1]
    return [*combinations((ranks[0] for ranks in ranks_of_machines), 2), *inside]

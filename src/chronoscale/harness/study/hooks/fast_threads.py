"""Threads: how much of what two sampling threads read is the same (Figure 11a), and whether this machine binds them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from chronoscale.batching.streams.prepared import PreparedStream
from chronoscale.batching.streams.sampling.affinity import Roots, thread_affinity
from chronoscale.batching.streams.sampling.redundancy import BATCH
from chronoscale.batching.streams.sampling.thread_binding import bind_by_affinity
from chronoscale.cuda_ext.sampling.cpu_topology import CpuTopology
from chronoscale.datasets.arrays import Float64
from chronoscale.errors import MachineError, UserError
from chronoscale.harness.study.hooks.fast_points import prepared

THREADS = 8  # §6.1, and Figure 11a
SAMPLED = 64  # batches whose roots are compared
WITHOUT = "Executed without binding"


def roots(data: PreparedStream, count: int) -> Iterator[Roots]:
    """Of so many batches, evenly over the training events."""
    deal = data.assignment(False, 1, BATCH, 0, max(-(-data.training_events // BATCH) // count, 1))
    others = data.negatives_of(False, 0, data.protocol.seed)
    for iteration in range(deal.iterations):
        own = deal.rank_events(iteration, 0)
        node, before, _ = data.training.roots(own, others(own), own.start)
        yield node, before


def alike(quick: bool) -> Float64:
    """Mean affinity of a batch, float64 [threads, threads], -1 on the diagonal."""
    data = prepared("wikitalk", quick)
    batches = list(roots(data, 8 if quick else SAMPLED))
    found = thread_affinity(data.training.tcsr, batches, THREADS) / len(batches)
    np.fill_diagonal(found, -1.0)
    return found


def bound_here(near: Float64) -> str:
    """Whether threads of this affinity are bound on this machine, a sentence."""
    try:
        note = bind_by_affinity(near, CpuTopology.detect()).note
    except (UserError, MachineError) as error:
        note = str(error)
    return f"{WITHOUT}: {note}." if note else "Executed with threads bound where the last rung says so."


def of_pairs(near: Float64) -> list[float]:
    """Return the affinity of each pair of threads."""
    return [float(one) for one in near[np.triu_indices(len(near), 1)]]

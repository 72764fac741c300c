"""Binding: which CPU each sampling thread is bound to, so that those that sample alike share caches (FAST, section 4.4)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from chronoscale.cuda_ext.native.loader import cpu_library
from chronoscale.cuda_ext.sampling.cpu_topology import LEVELS, Cpu, CpuTopology, Level
from chronoscale.datasets.arrays import Float64
from chronoscale.errors import MachineError, UserError

Pair = tuple[int, ...]  # two threads, or the one that is left over
Place = tuple[Cpu, ...]  # two CPUs, or the one that is left over


@dataclass(frozen=True, slots=True)
class ThreadBinding:
    """Binding of sampling threads to CPUs. cpus: the CPU of each thread; none where threads are better left to the system, and `note` says
    why. pairs: of threads that sample alike."""

    cpus: tuple[int, ...]
    pairs: tuple[Pair, ...]
    note: str = ""


def bind_by_affinity(affinity: Float64, topology: CpuTopology) -> ThreadBinding:
    """Choose a CPU for each of T sampling threads so that those that sample alike share caches (FAST §4.4): threads are paired for the most
    affinity (`match_threads`; affinity [T, T] from `thread_affinity`), and pairs placed on pairs of CPUs. Raises as `place_pairs`."""
    return place_pairs(match_threads(affinity), affinity, topology)


def match_threads(affinity: Float64) -> tuple[Pair, ...]:
    """Pair sampling threads so that the sum of affinities within pairs is largest (blossom algorithm, Edmonds 1965); affinity [T, T]. Of an
    odd number of threads one has no partner, and comes last.

    Raises UserError for anything but a symmetric matrix of finite numbers.
    """
    square = affinity.ndim == 2 and affinity.shape[0] == affinity.shape[1]
    if not square or not np.isfinite(affinity).all() or (affinity != affinity.T).any():
        raise UserError(f"affinity {list(affinity.shape)}; expected a symmetric matrix of finite numbers")
    import networkx  # noqa: PLC0415 (heavy, and ranks whose threads are not bound do without)

    graph = networkx.Graph()
    graph.add_nodes_from(range(len(affinity)))
    first, second = np.triu_indices(len(affinity), 1)
    graph.add_weighted_edges_from(zip(first.tolist(), second.tolist(), affinity[first, second].tolist(), strict=True))
    pairs = sorted((min(pair), max(pair)) for pair in networkx.max_weight_matching(graph, maxcardinality=True))
    alone = set(range(len(affinity))) - {thread for pair in pairs for thread in pair}
    return (*pairs, *((thread,) for thread in alone))


def place_pairs(pairs: Sequence[Pair], affinity: Float64, topology: CpuTopology) -> ThreadBinding:
    """Place pairs of sampling threads on pairs of CPUs: SMT siblings first, then those that share an L2, an L3, a NUMA node.

    Nodes and L3 caches are filled one after another, those with the most CPUs first; next to pairs that are there comes the one with most
    affinity to them, within the L3, then within the node. Threads stay where the system puts them where no two CPUs share a core or an L2
    and all share one L3. Raises UserError for more threads than CPUs.
    """
    threads = sum(len(pair) for pair in pairs)
    if threads > len(topology):
        raise UserError(f"{threads} sampling threads for {len(topology)} CPUs; one CPU a thread, so at most {len(topology)} can be bound")
    if note := reason_unbound(topology):
        return ThreadBinding((), tuple(pairs), note)
    of_pairs = np.array([[affinity[np.ix_(a, b)].sum() if a != b else 0.0 for b in pairs] for a in pairs])
    places, order = _places(topology)[: len(pairs)], list[int]()
    for place in places:
        order.append(_next(place, places, order, pairs, of_pairs))
    cpus = {thread: cpu.number for pair, place in zip(order, places, strict=True) for thread, cpu in zip(pairs[pair], place, strict=False)}
    return ThreadBinding(tuple(cpus[thread] for thread in range(threads)), tuple(pairs))


def _next(place: Place, places: Sequence[Place], order: Sequence[int], pairs: Sequence[Pair], affinity: Float64) -> int:
    """Return the pair for a place: of those that are left, the one with most affinity to its neighbours; where they are alike, to all
    pairs."""

    def to_neighbours(pair: int, level: Level) -> float:
        shared = getattr(place[0], level)
        return sum(
            float(affinity[pair, other]) for other, neighbour in zip(order, places, strict=False) if getattr(neighbour[0], level) == shared
        )

    def rank(pair: int) -> tuple[float, ...]:
        return len(pairs[pair]), to_neighbours(pair, "l3"), to_neighbours(pair, "node"), float(affinity[pair].sum()), -pair

    return max(set(range(len(pairs))) - set(order), key=rank)


def _places(topology: CpuTopology) -> list[Place]:
    """Return all CPUs in pairs, and the one that is left over, those that share most first; among equals by node and L3, the largest
    first."""
    remaining, ranked = topology, list[tuple[int, Place]]()
    for step, level in enumerate((*LEVELS, None)):
        groups = [list(remaining.cpus)] if level is None else remaining.groups(level)
        pairs = [(group[n], group[n + 1]) for group in groups for n in range(0, len(group) - 1, 2)]
        ranked += [(step, place) for place in pairs]
        taken = {cpu for place in pairs for cpu in place}
        unpaired = tuple(cpu for cpu in remaining.cpus if cpu not in taken)
        if not unpaired:
            break
        remaining = CpuTopology(unpaired)
    else:
        ranked.append((len(LEVELS) + 1, (remaining.cpus[0],)))
    size = {level: {getattr(group[0], level): -len(group) for group in topology.groups(level)} for level in LEVELS}

    def rank(of: tuple[int, Place]) -> tuple[int, ...]:
        step, (cpu, *_) = of
        return step, size["node"][cpu.node], cpu.node, size["l3"][cpu.l3], cpu.l3, cpu.number

    return [place for _, place in sorted(ranked, key=rank)]


def reason_unbound(topology: CpuTopology) -> str:
    """Return why sampling threads are not bound to CPUs on this machine: no two CPUs share anything but one L3, which all share; '' where
    they are bound."""
    if topology.shares("core") or topology.shares("l2") or len(topology.groups("l3")) > 1:
        return ""
    finding = f"sampling threads are not bound: no two of {len(topology)} CPUs share a core or an L2 cache, and all share one L3"
    return f"{finding}, so that it makes no difference where a thread runs"


def choose_processors(file: str, threads: int, rank: int, ranks: int) -> tuple[CpuTopology | None, str]:
    """Return the processors to which one of a machine's ranks can bind its neighbour-sampling threads, or None, and a note that says why.

    The note is '' where there is one thread, which has nobody to be near. file: what `lscpu -p` printed; '': as the system reports it.
    rank, ranks: on this machine. Raises UserError for a file that does not parse.
    """
    if threads < 2:
        return None, ""
    topology = CpuTopology.load(Path(file)) if file else None
    try:
        if cpu_library() is None:
            raise MachineError("there is no native library")
        topology = CpuTopology.detect() if topology is None else topology.restricted_to(os.sched_getaffinity(0))
        own = topology.share_of(rank, ranks)
        if threads > len(own):
            raise UserError(f"{threads} threads of each of {ranks} ranks, and {len(topology)} CPUs")
        return (None, note) if (note := reason_unbound(own)) else (own, "")
    except (UserError, MachineError) as error:
        return None, f"sampling threads are not bound: {error}"

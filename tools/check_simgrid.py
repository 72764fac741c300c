"""Flows on a cluster's links, here and in SimGrid: rings, two flows on a link, fan-in, all-to-all pairs, PCIe fan-out; within 1 %.

    PYTHONPATH=<SimGrid's lib> python tools/check_simgrid.py [CLUSTER ...]

SimGrid (4.1) is no dependency: its Python binding is built from the package's source in about ten minutes, with Boost's headers. Here,
flows are activities that share links (`sharing.speeds`) and end one after another; there, messages between hosts whose routes are the same
links (model CM02 without its corrections for TCP, no latency). Collectives are their patterns' seconds here, chunks in steps or messages in
pairs there.
"""

from __future__ import annotations

import sys
from multiprocessing import get_context

import numpy as np
import simgrid

from chronoscale.simulator import presets
from chronoscale.simulator.network.links import LinkGraph
from chronoscale.simulator.network.patterns import Patterns, ring_edges
from chronoscale.simulator.sharing.resources import speeds

GPUS, SIZE, ALLOWED = 16, 100_000_000, 0.01
MODEL = ("network/model:CM02", "network/crosstraffic:0", "network/TCP-gamma:0", "network/bandwidth-factor:1", "network/latency-factor:1")
Flow = tuple[int, int, float]  # from, to (a rank; -1: the memory of the other's socket), bytes


def way(graph: LinkGraph, a: int, b: int) -> list[int]:
    """Links from rank to rank, or from a host's memory to one of its devices (a < 0)."""
    source, target = np.array([a]), np.array([b])
    if a < 0:
        ways = [graph.to_device(target)]
    elif a // graph.gpus == b // graph.gpus:
        ways = [graph.inside(source, target)]
    else:
        ways = [graph.leaving(source), graph.between(source // graph.gpus, target // graph.gpus), graph.entering(target)]
    return [int(link) for part in ways for link in part[0] if link >= 0]


def ours(graph: LinkGraph, flows: list[Flow]) -> float:
    """Seconds until all have ended."""
    per_byte = np.zeros((len(flows), len(graph)))  # seconds
    for i, (a, b, _) in enumerate(flows):
        np.add.at(per_byte[i], way(graph, a, b), 1 / graph.bandwidth[way(graph, a, b)])
    alone = 1 / per_byte.max(axis=1)
    taken = [{int(link): float(row[link] * rate) for link in np.flatnonzero(row)} for row, rate in zip(per_byte, alone, strict=True)]
    left, now = np.array([moved for *_, moved in flows], float), 0.0
    while (going := np.flatnonzero(left > 1e-3)).size:
        speed = np.array(speeds([taken[i] for i in going], alone[going].tolist())) * alone[going]
        step = (left[going] / speed).min()
        now, left[going] = now + step, left[going] - speed * step
    return now


def scenarios(graph: LinkGraph) -> dict[str, tuple[float, list[list[Flow]]]]:
    """By name, our seconds, and the rounds of flows that SimGrid is to make."""
    ranks, half = np.arange(GPUS), graph.gpus
    nodes = [ranks[i : i + half] for i in range(0, GPUS, half)]
    edges, steps = ring_edges(nodes, half), 2 * (GPUS - 1)
    patterns, moved = Patterns(graph), np.full((GPUS, 1), SIZE)
    chunk = SIZE / GPUS / half
    pairs: list[Flow] = [(a, b, SIZE / (GPUS - 1)) for a in range(GPUS) for b in range(GPUS) if a != b]
    one: dict[str, list[Flow]] = {
        "two flows on a link": [(0, half, SIZE), (0, half + 1, SIZE / 2)],
        "fan-in": [(a, 0, SIZE) for a in range(1, GPUS)],
        "all-to-all pairs": pairs,
        "PCIe fan-out": [(-1, b, SIZE * (1 + b % 3)) for b in range(half)],
    }
    return {
        "ring of rails": (float(patterns.of("ring", ranks).seconds(moved)[0]), [[(a, b, chunk) for a, b in edges.tolist()]] * steps),
        **{name: (ours(graph, flows), [flows]) for name, flows in one.items()},
        "all-to-all, alone": (float(patterns.of("exchange", ranks).seconds(moved)[0]), [pairs]),
    }


def theirs(graph: LinkGraph, wanted: dict[str, list[list[Flow]]]) -> dict[str, float]:
    """Seconds of each scenario in SimGrid."""
    engine = simgrid.Engine(["check", *(f"--cfg={one}" for one in MODEL), "--log=root.threshold:error"])
    zone = engine.netzone_root.add_netzone_full("cluster")
    host = {rank: zone.add_host(f"gpu{rank}", 1e9) for rank in range(GPUS)}
    memory = {rank: zone.add_host(f"memory{rank}", 1e9) for rank in range(GPUS)}
    link = [zone.add_link(f"link{i}", float(min(rate, 1e15))) for i, rate in enumerate(graph.bandwidth)]
    known = set()
    for a, b, _ in (flow for rounds in wanted.values() for flows in rounds for flow in flows):
        if (a, b) not in known:
            known.add((a, b))
            zone.add_route(memory[b] if a < 0 else host[a], host[b], [simgrid.LinkInRoute(link[i]) for i in way(graph, a, b)], False)
    zone.seal()
    seconds = {}

    def play() -> None:
        for name, rounds in wanted.items():
            start = simgrid.Engine.clock
            for flows in rounds:
                sent = [simgrid.Comm.sendto_async(memory[b] if a < 0 else host[a], host[b], round(moved)) for a, b, moved in flows]
                for one in sent:
                    one.wait()
            seconds[name] = simgrid.Engine.clock - start

    host[0].add_actor("play", play)
    engine.run()
    return seconds


def check(name: str) -> None:
    graph = LinkGraph.of(presets.scaled(presets.cluster(name), GPUS))
    wanted = scenarios(graph)
    expected = theirs(graph, {scenario: rounds for scenario, (_, rounds) in wanted.items()})
    for scenario, (seconds, _) in wanted.items():
        error = seconds / expected[scenario] - 1
        print(f"{name:<12}{scenario:<22}{seconds * 1e3:>12.4f}{expected[scenario] * 1e3:>12.4f}{100 * error:>+10.4f} %", flush=True)
        if abs(error) > ALLOWED:
            sys.exit(1)


def main() -> None:
    print(f"{'cluster':<12}{'flows':<22}{'ours, ms':>12}{'SimGrid, ms':>12}{'error':>12}")
    for name in sys.argv[1:] or ("h200", "h20", "a40-ib", "polaris"):
        process = get_context("spawn").Process(target=check, args=(name,))  # SimGrid has one engine a process
        process.start()
        process.join()
        if process.exitcode:
            sys.exit(1)


if __name__ == "__main__":
    main()

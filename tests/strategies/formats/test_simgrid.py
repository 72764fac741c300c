"""What SimGrid is given: a platform that is one, a script that compiles, and rows that replayed by their gaps are the trace."""

import compileall
import importlib.util
import json
import re
import subprocess
import sys
from itertools import pairwise
from xml.etree import ElementTree

import networkx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from notation import NsCosts, gpus, write
from profiles import examples
from recordings import recording

from chronoscale.simulator import presets
from chronoscale.simulator.engine import replay
from chronoscale.strategies.cluster import CPU_STREAMS, Cluster
from chronoscale.strategies.evaluation.fifos import previous_in_fifo, start_gaps
from chronoscale.strategies.formats import simgrid

HERE = importlib.util.find_spec("simgrid") is not None


def replayed(given: dict[str, object]) -> dict[int, tuple[int, int]]:
    """Start and end of each row: FIFOs take their rows in turn, again and again, as far as they come."""
    rows, fifos = given["rows"], [list(fifo["rows"]) for fifo in given["fifos"]]  # type: ignore[attr-defined,index]
    free, starts, arrived = [0] * len(fifos), {}, {}
    members = [row["collective"] for row in rows]  # type: ignore[attr-defined]
    while any(fifos):
        left = sum(map(len, fifos))
        for i, fifo in enumerate(fifos):
            while fifo and all(dep in starts for dep in rows[fifo[0]]["after"]):  # type: ignore[index]
                row, number = rows[fifo[0]], fifo[0]  # type: ignore[index]
                ready = max([free[i], *(starts[dep][1] for dep in row["after"])])
                group = row["collective"]
                if group >= 0:
                    arrived.setdefault(group, {})[number] = ready
                    if len(arrived[group]) < members.count(group):
                        break
                    ready = max(arrived[group].values())
                start = ready + row["gap_ns"]
                starts[number], free[i] = (start, start + row["ns"]), start + row["ns"]
                fifo.pop(0)
        assert sum(map(len, fifos)) < left
    return starts


@examples(40)
@given(st.integers(0, 10**6), st.sampled_from([None, CPU_STREAMS]), st.sampled_from([0, 3]))
def test_rows_replayed_by_their_gaps_are_the_trace(tmp_path_factory, seed, streams, launch_ns):
    schedule, _ = recording(seed, 3)
    cluster = gpus(3, streams=streams)
    trace = replay(schedule, cluster, NsCosts(launch_ns))
    folder = tmp_path_factory.mktemp("simgrid")
    simgrid.write(trace, schedule, cluster, folder)
    given = json.loads((folder / simgrid.ROWS).read_text())
    replay_trace = replayed(given)
    zero = trace.start_ns.min() if len(trace) else 0
    starts, ends = (trace.start_ns - zero).tolist(), (trace.end_ns - zero).tolist()
    assert [replay_trace[row] for row in range(len(schedule))] == list(zip(starts, ends, strict=True))
    assert given["span_ns"] == trace.span_ns


def test_gaps_by_hand():
    """Of two rows of a FIFO and one that waits for the first elsewhere; a collective waits for its last rank."""
    written = write("a: H2D@H2D\nb: H2D@H2D\nc: BACKWARD@COMPUTE ns=10,30 <- a\nr: ALLREDUCE@COMM all bytes=0 <- c", ranks=2)
    trace = replay(written.schedule, gpus(2), NsCosts())
    row = written.row
    start = trace.start_ns.copy()
    start[row["b/0"]] += 4
    start[[row["r/0"], row["r/1"]]] += 7
    later = type(trace).of(written.schedule, start, start + trace.duration_ns, trace.source, "d")
    gaps = start_gaps(later, written.schedule, previous_in_fifo(written.schedule, gpus(2).device.streams))
    assert {name: int(gaps[number]) for name, number in row.items() if gaps[number]} == {"b/0": 4, "r/0": 7, "r/1": 7}


def routes(text: str) -> tuple[networkx.DiGraph, dict[str, dict[str, str]]]:
    """A platform's graph, an edge a route with its links, and its links."""
    root = ElementTree.fromstring(text)
    graph = networkx.DiGraph()
    for route in root.iter("route"):
        links = [(link.get("id"), link.get("direction")) for link in route]
        graph.add_edge(route.get("src"), route.get("dst"), links=links, weight=len(links))
    return graph, {str(link.get("id")): dict(link.attrib) for link in root.iter("link")}


@pytest.mark.parametrize("cluster", [gpus(4), gpus(6, 2), presets.scaled(presets.cluster("h200"), 16)], ids=["one", "three", "h200"])
def test_ways_between_ranks_have_the_clusters_links(cluster: Cluster):
    """Through the switch of a machine where there is one, else through the network: twice half the latency, the link's bandwidth."""
    ranks = min(cluster.gpus, 12)
    graph, links = routes(simgrid.platform(cluster, ranks))
    for one in range(ranks):
        for other in set(range(ranks)) - {one}:
            [way] = networkx.all_shortest_paths(graph, f"rank-{one}", f"rank-{other}", weight="weight")
            used = [link for pair in pairwise(way) for link in graph.edges[pair]["links"]]
            inside = one // cluster.gpus_per_node == other // cluster.gpus_per_node
            link, kind = (cluster.intra, "intra") if inside else (cluster.inter, "inter")
            assert [pair for pair in used if pair[0] != "fabric"] == [(f"{kind}-{one}", "UP"), (f"{kind}-{other}", "DOWN")]
            assert sum(float(links[name]["latency"].removesuffix("s")) for name, _ in used) == pytest.approx(link.latency_s, abs=1e-15)
            assert min(float(links[name]["bandwidth"].removesuffix("Bps")) for name, _ in used) == link.rate


def test_the_script_compiles_and_the_platform_says_what_it_is(tmp_path):
    schedule, _ = recording(4, 2)
    trace = replay(schedule, gpus(2), NsCosts())
    paths = simgrid.write(trace, schedule, gpus(2), tmp_path / "job")
    assert [path.name for path in paths] == ["platform.xml", "rows.json", "replay.py"]
    assert compileall.compile_file(paths[2], quiet=2, force=True)
    root = ElementTree.parse(paths[0]).getroot()
    assert root.get("version") == "4.1" and [host.get("id") for host in root.iter("host")] == ["rank-0", "rank-1"]
    assert "simgrid.org/simgrid.dtd" in paths[0].read_text().splitlines()[1]
    with pytest.raises(ValueError, match="a replay needs every row of its schedule"):
        simgrid.write(trace.take(np.arange(3)), schedule, gpus(2), tmp_path)


@pytest.mark.skipif(not HERE, reason="SimGrid is not installed (pip install simgrid, which compiles it)")
@pytest.mark.parametrize("seed", range(4))
def test_simgrid_comes_to_the_same_makespan(tmp_path, seed):
    schedule, _ = recording(seed, 3, 40)
    trace = replay(schedule, gpus(3), NsCosts(2))
    simgrid.write(trace, schedule, gpus(3), tmp_path)
    assert run(tmp_path) == pytest.approx(trace.span_ns, abs=0.5)


@pytest.mark.skipif(not HERE, reason="SimGrid is not installed (pip install simgrid, which compiles it)")
@pytest.mark.parametrize("op", ["ALLREDUCE", "ALLGATHER", "ALLTOALL"])
def test_simgrids_flows_take_the_time_of_the_closed_forms(tmp_path, op):
    schedule = write(f"a: {op}@COMM all bytes=3000", 4).schedule
    cluster = gpus(4, origin="fitted")
    trace = replay(schedule, cluster, NsCosts())
    simgrid.write(trace, schedule, cluster, tmp_path)
    assert run(tmp_path, "--network") == pytest.approx(trace.span_ns, abs=0.5)


def run(folder, *arguments: str) -> float:
    done = subprocess.run([sys.executable, folder / simgrid.REPLAY, *arguments], capture_output=True, text=True, check=True)
    return float(re.match(r"([\d.]+) ns by SimGrid", done.stdout)[1])  # type: ignore[index]

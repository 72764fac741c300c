"""Writer of a trace as a SimGrid platform, its rows, and a script that replays them with SimGrid (simgrid.org) 4.1."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree as xml

import numpy as np

from chronoscale.strategies.cluster import Cluster, Link
from chronoscale.strategies.evaluation.fifos import previous_in_fifo, start_gaps
from chronoscale.strategies.schedule import Ints, Op, Schedule
from chronoscale.strategies.trace import Trace

DOCTYPE = '<?xml version="1.0"?>\n<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">\n'
SPEED = 1e9  # operations a second of every host: a row is as many operations as it takes ns
SCRIPT = Path(__file__).with_name("simgrid_replay.py")
PLATFORM = "platform.xml"
ROWS = "rows.json"
REPLAY = "replay.py"


def write(trace: Trace, schedule: Schedule, cluster: Cluster, folder: Path) -> list[Path]:
    """Export a trace for SimGrid (simgrid.org): write `platform.xml` (the cluster), `rows.json` (the schedule with its times) and
    `replay.py`, which replays it, into `folder`, which is made. Returns their paths.

    A row takes the time that it took, and starts as long after it could (`start_gaps`) as it did: the replay ends when the trace ends, if
    SimGrid orders the rows as we do. Raises ValueError for a trace that has not every row of its schedule.
    """
    if not np.array_equal(trace.task, np.arange(len(schedule))):
        raise ValueError(f"trace of '{trace.strategy}': a replay needs every row of its schedule")
    folder.mkdir(parents=True, exist_ok=True)
    prior = previous_in_fifo(schedule, cluster.device.streams)
    texts = {
        PLATFORM: platform(cluster, schedule.ranks),
        ROWS: json.dumps(_rows(trace, schedule, prior), separators=(",", ":")),
        REPLAY: SCRIPT.read_text(),
    }
    for name, text in texts.items():
        (folder / name).write_text(text)
    return [folder / name for name in texts]


def platform(cluster: Cluster, ranks: int) -> str:
    """Return the XML of the first `ranks` devices of a cluster as a SimGrid platform, for an exported trace.

    A rank is a host, `rank-<n>`, with a core for each FIFO, joined by a link of its own to its machine's switch and by another, its share
    of the network card, to what joins machines. A link has half the latency: two make a way.
    """
    root = xml.Element("platform", version="4.1")
    zone = xml.SubElement(root, "zone", id="cluster", routing="Dijkstra")
    routes: list[tuple[str, str, tuple[str, ...]]] = []
    nodes = -(-ranks // cluster.gpus_per_node)
    for rank in range(ranks):
        xml.SubElement(zone, "host", id=f"rank-{rank}", speed=f"{SPEED:.0f}f", core=str(len(cluster.device.streams)))
    for node in range(nodes):
        xml.SubElement(zone, "router", id=f"node-{node}")
    if nodes > 1:
        xml.SubElement(zone, "router", id="network")
    for rank in range(ranks):
        _link(zone, f"intra-{rank}", cluster.intra)
        routes.append((f"rank-{rank}", f"node-{rank // cluster.gpus_per_node}", (f"intra-{rank}",)))
        if nodes > 1:
            _link(zone, f"inter-{rank}", cluster.inter)
            routes.append((f"rank-{rank}", "network", (f"inter-{rank}", "fabric")))
    if nodes > 1:  # as wide as can be: it makes ways between machines longer than those inside, which have to be taken where there are
        _link(zone, "fabric", Link(cluster.inter.rate * ranks, 0.0), "FATPIPE")
    for source, target, links in routes:
        for there, (begin, end) in (("UP", (source, target)), ("DOWN", (target, source))):
            route = xml.SubElement(zone, "route", src=begin, dst=end, symmetrical="NO")
            for link in links if there == "UP" else links[::-1]:
                xml.SubElement(route, "link_ctn", {"id": link} | ({} if link == "fabric" else {"direction": there}))
    xml.indent(root)
    return DOCTYPE + xml.tostring(root, encoding="unicode") + "\n"


def _link(zone: xml.Element, name: str, link: Link, policy: str = "SPLITDUPLEX") -> None:
    """Add a link to the platform's XML, with half its latency."""
    values = {"bandwidth": f"{link.rate!r}Bps", "latency": f"{link.latency_s / 2!r}s", "sharing_policy": policy}
    xml.SubElement(zone, "link", {"id": name, **values})


def _rows(trace: Trace, schedule: Schedule, prior: Ints) -> dict[str, object]:
    """Return the rows as the replay script reads them. `after`: rows of other FIFOs that a row waits for."""
    fifos: list[dict[str, object]] = []
    of: dict[int, list[int]] = {}
    for row, earlier in enumerate(prior.tolist()):
        if earlier < 0:
            of[row] = []
            fifos.append({"rank": int(schedule.rank[row]), "rows": of[row]})
        else:
            of[row] = of[earlier]
        of[row].append(row)
    wait, duration = start_gaps(trace, schedule, prior).tolist(), trace.duration_ns.tolist()
    columns = zip(schedule.op.tolist(), schedule.rank.tolist(), schedule.collective.tolist(), schedule.bytes.tolist(), strict=True)
    rows = [
        {
            "op": Op(op).name,
            "rank": rank,
            "ns": duration[row],
            "gap_ns": wait[row],
            "collective": collective,
            "bytes": size,
            "after": [dep for dep in dict.fromkeys(schedule.dependencies(row).tolist()) if of[dep] is not of[row]],
        }
        for row, (op, rank, collective, size) in enumerate(columns)
    ]
    return {"strategy": trace.strategy, "device": trace.device, "span_ns": trace.span_ns, "fifos": fifos, "rows": rows}

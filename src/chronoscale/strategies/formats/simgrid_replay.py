"""Replays rows.json on platform.xml, which lie beside this file, with SimGrid 4.1: python replay.py [--network].

Every FIFO of a rank is an actor that performs its rows in turn. A row waits for the rows that it depends on and, in a collective, for
the other ranks; it then takes its recorded gap and its recorded time. With --network collectives and messages take what SimGrid gives
their flows instead: an all-reduce and an all-gather as rings, an all-to-all pair by pair, all at once. Prints the makespan in ns.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from simgrid import Barrier, Comm, Engine, Host, Semaphore, this_actor

# A fluid network without the corrections for TCP of SimGrid's default model, and times to less than a ns.
CONFIG = ("network/model:CM02", "network/TCP-gamma:0", "network/crosstraffic:0", "precision/timing:1e-12")
Row = dict[str, Any]
RINGS = {"ALLREDUCE": 2, "ALLGATHER": 1}  # times that data go round


class Replay:
    """Replay of an exported schedule's rows by SimGrid; `end` is the latest end of a row so far, s. content: what `rows.json` holds;
    network: whether SimGrid times communication."""

    def __init__(self, content: dict[str, Any], network: bool) -> None:
        self.rows = content["rows"]
        self.network = network
        self.end = 0.0
        waiters = [dep for row in self.rows for dep in row["after"]]
        self.done = {dep: Semaphore(0) for dep in waiters}
        self.waiters = dict.fromkeys(waiters, 0)
        for dep in waiters:
            self.waiters[dep] += 1
        self.members: dict[int, list[Row]] = {}
        for row in self.rows:
            self.members.setdefault(row["collective"], []).append(row)
        self.begin, self.finish = ({group: Barrier(len(rows)) for group, rows in self.members.items() if group >= 0} for _ in range(2))

    def fifo(self, rows: list[int]) -> None:
        """Perform the rows of one queue of a rank, by their numbers, in order, each after what it waits for."""
        for number in rows:
            row = self.rows[number]
            for dep in row["after"]:
                self.done[dep].acquire()
            group = row["collective"]
            if group >= 0:
                self.begin[group].wait()
            this_actor.sleep_for(row["gap_ns"] / 1e9)
            if group >= 0 and self.network:
                self.communicate(row, self.members[group])
                self.finish[group].wait()
            else:
                this_actor.execute(row["ns"])  # at 1e9 operations a second
            self.end = max(self.end, Engine.clock)
            for _ in range(self.waiters.get(number, 0)):
                self.done[number].release()

    def communicate(self, row: Row, members: list[Row]) -> None:
        """Let SimGrid send what a row sends, and wait until it has arrived. members: the rows of all ranks in this collective."""
        here, others = Host.current(), [other for other in members if other["rank"] != row["rank"]]
        if not others:
            return
        if row["op"] in RINGS:
            rounds, ranks = RINGS[row["op"]], sorted(members, key=lambda other: other["rank"])
            following = ranks[(ranks.index(row) + 1) % len(ranks)]
            if row["op"] == "ALLREDUCE":
                size = rounds * max(other["bytes"] for other in members) * len(others) / len(members)
            else:
                size = sum(other["bytes"] for other in members) - following["bytes"]
            there = Host.by_name(f"rank-{following['rank']}")
            latency = here.route_to(there)[1]
            this_actor.sleep_for((rounds * len(others) - 1) * latency)  # of all steps but the one that the flow has
            Comm.sendto(here, there, round(size))
        elif row["op"] == "ALLTOALL":
            flows = [Comm.sendto_async(here, Host.by_name(f"rank-{other['rank']}"), round(row["bytes"] / len(others))) for other in others]
            for flow in flows:
                flow.wait()
        elif row["op"] == "SEND":
            Comm.sendto(here, Host.by_name(f"rank-{others[0]['rank']}"), row["bytes"])


def main(network: bool) -> None:
    """Replay the schedule in `rows.json` beside this file on `platform.xml` by SimGrid, and print the makespan. network: time communication
    by SimGrid's network, not as recorded."""
    folder = Path(__file__).parent
    content = json.loads((folder / "rows.json").read_text())
    engine = Engine([sys.argv[0], *(f"--cfg={setting}" for setting in CONFIG), "--log=root.thresh:warning"])
    engine.load_platform(str(folder / "platform.xml"))
    replay = Replay(content, network)
    for number, fifo in enumerate(content["fifos"]):
        Host.by_name(f"rank-{fifo['rank']}").add_actor(f"fifo-{number}", replay.fifo, fifo["rows"])
    engine.run()
    print(f"{replay.end * 1e9:.3f} ns by SimGrid, {content['span_ns']} ns as recorded")


if __name__ == "__main__":
    main("--network" in sys.argv[1:])

"""MemShare's epochs take less time than those of TGL on ranks, its ablation and its rivals.

`times`: epochs of all strategies in one job, without a network between the ranks and with one held to some bytes a second; `validation, s`:
of batches that validate among them. TGN with both clocks, width 100, 2 ranks, batches of 600, 10 neighbours, k 0.1, θ 0.1, α 0.3. Rivals:
tgl-dist, with which others are compared, mspipe, disttgl, tgl-unique; the `memshare-` strategies are its ablation, but for `-cached`
and `-stale`, which fetch rows once. What they learn:
`chronoscale compare`.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from core.case import Case, Passes, Setting, Subject
from setups import jobs
from setups.data import events_of

from chronoscale.datasets import store
from chronoscale.real_exec.execution.interpreter import Pass
from chronoscale.strategies.schedule import Op, Schedule

LADDER = ("tgl-dist", "memshare-shared", "memshare-history", "memshare-decay", "memshare-negatives", "memshare")
STRATEGIES = (*LADDER, "tgl-dist-cached", "memshare-cached", "memshare-stale", "mspipe", "disttgl", "tgl-unique")


def settings(name: str, events: int, batch: int, width: int, setting: Setting) -> dict[str, Any]:
    """Store the first events of a stream, and return the experiment on them."""
    stream = events_of(name)
    store.save(setting.scratch / "stream", stream.span(0, min(events, len(stream))))
    sharing = {"shared": 0.1, "theta": 0.1, "alpha": 0.3}
    return {
        "dataset": {"path": str(setting.scratch / "stream")},
        "model": {"name": "tgn", "hidden": width, "time": width, "clock": "both"},
        "training": {"batch_size": batch, "fanout": [10], "learning_rate": 0.0005, **sharing},
        "strategies": [*STRATEGIES],
        "ranks": [2],
    }


def times(name: str, events: int, batch: int, width: int, network: float, setting: Setting) -> Passes:
    """Time epochs."""

    def validation(plan: Schedule, one: Pass) -> dict[str, float]:
        trained = int(one.trace.end_ns[one.trace.op == Op.OPTIMIZE].max())
        return {"validation, s": (int(one.trace.end_ns.max()) - trained) / 1e9}

    return jobs.epochs({**settings(name, events, batch, width, setting), "network": network or None}, setting, validation)


def cases(quick: bool) -> Iterator[Case]:
    """Yield streams and networks."""
    if quick:
        yield Case({"what": "times", "stream": "hubs-600-40"}, partial(times, "hubs-600-40", 600, 60, 8, 0.0))
        return
    for name in ("jodie_wikipedia", "us_flights_2001"):
        for network in (0.0, 0.025e9):
            parameters = {"what": "times", "stream": name, "events": 60_000, "network": network}
            yield Case(parameters, partial(times, name, 60_000, 600, 100, network))


SUBJECT = Subject(cases, 7)

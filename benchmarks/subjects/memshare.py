"""MemShare's epochs take less time than those of TGL on ranks, its ablation and its rivals, and learn as much.

`times`: epochs of all strategies in one job, without a network between the ranks and with one held to some bytes a second; `validation, s`:
of batches that validate among them. `scores`: trainings of 6 epochs by seed, a pass each, the best epoch tested. TGN with both clocks,
width 100, 2 ranks, batches of 600, 10 neighbours, k 0.1, θ 0.1, α 0.3. Rivals: tgl-dist, with which others are compared, mspipe, disttgl,
tgl-unique; the `memshare-` strategies are its ablation.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from core.case import Case, Passes, Setting, Subject
from setups import jobs
from setups.data import events_of

from chronoscale.datasets import store
from chronoscale.real_exec.execution.interpreter import Pass
from chronoscale.strategies.schedule import Op, Schedule

LADDER = ("tgl-dist", "memshare-shared", "memshare-history", "memshare-decay", "memshare-negatives", "memshare")
STRATEGIES = (*LADDER, "mspipe", "disttgl", "tgl-unique")
EPOCHS = 6


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


def scores(name: str, events: int, batch: int, width: int, setting: Setting) -> Passes:
    """Train every strategy with a seed a pass."""
    return jobs.trainings(settings(name, events, batch, width, setting), EPOCHS, setting, tested)


def tested(folder: Path) -> dict[str, float]:
    """Return what the best epoch of a training comes to in the test, and the last one's communication."""
    records = [json.loads(path.read_text()) for path in sorted((folder / "epochs").glob("*.json"))]
    test, counts = json.loads((folder / "test.json").read_text()), records[-1].get("counts") or {}
    shares = {"synchronised, %": 100 * counts["shared_spoken"] / counts["shared_changes"]} if counts.get("shared_changes") else {}
    validation = max(record["scores"]["ap"] for record in records)
    fetched = counts.get("fetched_bytes", 0) / 1e6
    return {"test AP": test["ap"], "test MRR": test["mrr"], "validation AP": validation, "fetched MB": fetched, **shares}


def cases(quick: bool) -> Iterator[Case]:
    """Yield streams: times by network, and scores."""
    if quick:
        yield Case({"what": "times", "stream": "hubs-600-40"}, partial(times, "hubs-600-40", 600, 60, 8, 0.0))
        return
    for name in ("jodie_wikipedia", "us_flights_2001"):
        for network in (0.0, 0.025e9):
            parameters = {"what": "times", "stream": name, "events": 60_000, "network": network}
            yield Case(parameters, partial(times, name, 60_000, 600, 100, network))
        yield Case({"what": "scores", "stream": name, "events": 100_000}, partial(scores, name, 100_000, 600, 100))


SUBJECT = Subject(cases, 7)

"""MemShare's epochs take less time than those of TGL on ranks, its ablation and its rivals, and learn as much.

`times`: epochs of all strategies in one job, without a network between the ranks and with one held to some bytes a second
(real_exec.shaped). `scores`: trainings of 6 epochs by seed, a pass each, the best epoch tested. TGN with both clocks, width 100, 2 ranks,
batches of 600, 10 neighbours, k 0.1, θ 0.1, α 0.3. Rivals: tgl-dist, with which others are compared, mspipe, disttgl, tgl-unique; the
`memshare-` strategies are its ablation.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from core.case import Case, Passes, Setting, Subject
from core.turns import in_turns, seconds_of
from setups import jobs
from setups.streams import events_of

from chronoscale.batching.streams.description import stream_statistics
from chronoscale.batching.streams.prepared import PreparedStream
from chronoscale.datasets import store
from chronoscale.datasets.streams.protocol import Protocol
from chronoscale.harness.execute.jobs import make_item
from chronoscale.real_exec.execution.interpreter import Pass
from chronoscale.real_exec.job import Job, Settings
from chronoscale.real_exec.ranks.launch import start, wait
from chronoscale.real_exec.training.epoch_loop import ENTRY
from chronoscale.strategies.schedule import Op
from chronoscale.strategies.streams.models import shape_for
from chronoscale.strategies.workload import EventHyper, Hyper, ModelChoice, SharingHyper, Workload

LADDER = ("tgl-dist", "memshare-shared", "memshare-history", "memshare-decay", "memshare-negatives", "memshare")
STRATEGIES = (*LADDER, "mspipe", "disttgl", "tgl-unique")
RANKS, RATE, EPOCHS = 2, 0.0005, 6


def prepare(name: str, count: int, folder: Path) -> Path:
    """Store the first events of a stream as ranks read them."""
    events = events_of(name)
    store.save(folder / "stream", events.span(0, min(count, len(events))))
    PreparedStream.make(folder / "prepared", folder / "stream", Protocol())
    return folder / "prepared"


def workload(data: Path, batch: int, width: int, seed: int = 0) -> tuple[Workload, ModelChoice]:
    """Return what is trained."""
    sharing = SharingHyper(shared=0.1, theta=0.1, alpha=0.3)
    hyper = Hyper(batch_size=batch, fanout=(10,), seed=seed, events=EventHyper(sharing=sharing))
    choice, sizes = ModelChoice("tgn", hidden=width, heads=2, time=width, clock="both"), stream_statistics(PreparedStream.load(data))
    return Workload("stream", sizes, shape_for(choice, sizes, hyper), hyper), choice


def times(name: str, events: int, batch: int, width: int, network: float, setting: Setting) -> Passes:
    """Time epochs; `validation, s`: of batches that validate among them."""
    data = prepare(name, events, setting.scratch)
    work, choice = workload(data, batch, width)
    settings = Settings(setting.threads, RATE, device="cpu", network=network)
    passes = jobs.execute(jobs.plans(work, STRATEGIES, RANKS), work, choice, data, setting.repeats, RANKS, settings)

    def validation(who: str, one: Pass) -> dict[str, float]:
        trained = int(one.trace.end_ns[one.trace.op == Op.OPTIMIZE].max())
        return {"validation, s": (int(one.trace.end_ns.max()) - trained) / 1e9}

    return jobs.figures(passes, validation)


def train(data: Path, batch: int, width: int, who: str, seeds: Iterator[int]) -> dict[str, float]:
    """Train with the next seed, and return what the best epoch comes to in the test, and the last one's communication."""
    seed = next(seeds)
    work, choice = workload(data, batch, width, seed)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "epochs").mkdir()
        job_item = make_item(folder, who, jobs.plans(work, [who], RANKS)[who], data, work.hyper)
        Job("scores", (job_item,), name, choice, EPOCHS, 0, Settings(learning_rate=RATE, device="cpu", seed=seed)).save(folder / "job.json")
        spent = seconds_of(lambda: wait(start(ENTRY, folder / "job.json", RANKS, 1), "scores"))
        records = [json.loads(path.read_text()) for path in sorted((folder / "epochs").glob("*.json"))]
        test, counts = json.loads((folder / "test.json").read_text()), records[-1].get("counts") or {}
    shares = {"synchronised, %": 100 * counts["shared_spoken"] / counts["shared_changes"]} if counts.get("shared_changes") else {}
    return {
        **{"seconds": spent, "test AP": test["ap"], "test MRR": test["mrr"]},
        **{
            "validation AP": max(record["scores"]["ap"] for record in records),
            "fetched MB": counts.get("fetched_bytes", 0) / 1e6,
            **shares,
        },
    }


def scores(name: str, events: int, batch: int, width: int, setting: Setting) -> Passes:
    """Train every strategy with a seed a pass."""
    data = prepare(name, events, setting.scratch)
    return in_turns({who: partial(train, data, batch, width, who, iter(range(setting.repeats))) for who in STRATEGIES}, setting.repeats)


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

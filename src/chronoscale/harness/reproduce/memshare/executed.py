"""Executed: epochs on small streams on two ranks of this machine, strategies in turn in one job; each job once a process."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import numpy as np

from chronoscale.batching.streams.description import statistics_of
from chronoscale.batching.streams.prepared import Prepared
from chronoscale.datasets import store
from chronoscale.datasets.streams.events import EventStream
from chronoscale.datasets.streams.protocol import Protocol
from chronoscale.errors import UserError
from chronoscale.harness.execute.jobs import item, load_passes
from chronoscale.harness.reproduce.memshare.stand_ins import NAMES, QUICK, TRAINED, real, stream
from chronoscale.harness.study.findings import Told
from chronoscale.real_exec.execution.interpreter import Pass
from chronoscale.real_exec.job import Job, Settings
from chronoscale.real_exec.ranks.launch import launch
from chronoscale.strategies.costs import UNUSED
from chronoscale.strategies.registry import strategy
from chronoscale.strategies.streams.shapes import shape_for
from chronoscale.strategies.workload import EventHyper, Hyper, ModelChoice, SharingHyper, Workload

RANKS, EPOCHS, QUICK_EPOCHS = 2, 3, 1
WIDTH, HEADS, BATCH, FANOUT, RATE = 32, 2, 200, 10, 0.001
STAND_IN, REAL = "stackof", "uci_messages"
NETWORK, LATENCY = 20e6, 2e-4  # bytes a second and seconds an operation where ranks are held to a network: slow, as widths are small
QUICK_EVENTS = 5_000
PROTOCOL = Protocol(ranked=1)


@dataclass(frozen=True, slots=True)
class Case:
    """A strategy, and what its ranks share."""

    strategy: str
    sharing: SharingHyper = field(default_factory=SharingHyper)


@dataclass(frozen=True, slots=True)
class Together:
    """Cases in one job. network: bytes a second between ranks; 0: as fast as it is."""

    dataset: str
    cases: tuple[Case, ...]
    model: str = "tgn"
    quick: bool = False
    network: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class Done:
    """Seconds of each epoch; validation AP of each but the last; test AP of the last one's model; of that epoch what all ranks counted
    (`EpochResult.counts`), none where memory is not spread."""

    seconds: tuple[float, ...]
    validation: tuple[float, ...]
    test: float
    counts: Mapping[str, int]

    @classmethod
    def of(cls, passes: list[Pass]) -> Done:
        """The last pass is tested: its scores are the test's."""
        *before, test = (float(one.scores["ap"]) for one in passes)
        return cls(tuple(one.trace.span_ns / 1e9 for one in passes), tuple(before), test, passes[-1].counts)

    @property
    def epoch_s(self) -> float:
        """Seconds of the median epoch."""
        return float(np.median(self.seconds))

    @property
    def spoken(self) -> float:
        """Share of the changes of shared nodes that ranks told each other of; NaN where none is inspected."""
        changed = self.counts.get("shared_changes", 0)
        return self.counts["shared_spoken"] / changed if changed else float("nan")


def events(dataset: str, quick: bool) -> EventStream:
    """A stand-in, or the first events of real data."""
    found = stream(dataset, (QUICK if quick else TRAINED)[dataset]) if dataset in NAMES else real(dataset)
    return found.span(0, min(QUICK_EVENTS, len(found))) if quick else found


def datasets(told: Told, quick: bool) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """A stand-in, and real data if at hand; and a line if not. Quick: the stand-in alone."""
    if quick:
        return (STAND_IN,), ()
    try:
        real(REAL)
    except UserError as error:
        told(f"Skipped: {error}.")
        return (STAND_IN,), (f"Skipped: {error}.",)
    return (STAND_IN, REAL), ()


@cache
def executed(one: Together) -> dict[Case, Done]:
    """Each once. Raises UserError or MachineError with the worker's own line when it fails."""
    choice = ModelChoice(one.model, WIDTH, 1, WIDTH, heads=HEADS, time=WIDTH, clock="both")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        store.save(folder / "stream", events(one.dataset, one.quick))
        data = Prepared.make(folder / "prepared", Path("..") / "stream", PROTOCOL)
        items = []
        for number, case in enumerate(one.cases):
            hyper = Hyper(batch_size=BATCH, fanout=(FANOUT,), events=EventHyper(PROTOCOL, sharing=case.sharing))
            work = Workload(one.dataset, statistics_of(data), shape_for(choice, statistics_of(data), hyper), hyper)
            schedule = strategy(case.strategy).plan(work, RANKS, UNUSED)
            items.append(item(folder, f"{number}-{case.strategy}", schedule, folder / "prepared", hyper))
        settings = Settings(1, RATE, device="cpu", network=one.network, network_latency=LATENCY * (one.network > 0))
        launch(Job("study", tuple(items), str(folder), choice, epochs(one.quick), 0, settings), RANKS, folder)
        return {case: Done.of(load_passes(folder, made.label)) for case, made in zip(one.cases, items, strict=True)}


def epochs(quick: bool) -> int:
    """Of each case."""
    return QUICK_EPOCHS if quick else EPOCHS


def notes(names: tuple[str, ...], quick: bool, absent: tuple[str, ...] = ()) -> tuple[str, ...]:
    """What was run, and what stands for what."""
    sizes = ", ".join(f"{name} {len(events(name, quick)):,} events of {events(name, quick).num_nodes:,} nodes" for name in names)
    return (
        *((f"Quick: the first {QUICK_EVENTS:,} events, one epoch, one stream.",) if quick else ()),
        *absent,
        f"Executed: two ranks of this CPU over loopback, {sizes}. Stackof's is generated with hot nodes (`reproduce memshare --table 2`), "
        f"uci_messages real. Batches of {BATCH} a rank, fan-out {FANOUT}, widths {WIDTH}, Adam, learning rate {RATE:g}, one seed, "
        f"{epochs(quick)} epoch{'s' * (epochs(quick) > 1)} of training and validation, then the test: no convergence. AP on a generated "
        "stream says little of real ones. The machine is shared: seconds, of the median epoch, swing by a fifth and more.",
    )

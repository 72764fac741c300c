"""Crew: the threads that sample for one rank, each bound to a processor beside those that sample alike (FAST, section 4.4)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from chronoscale.cuda_ext import binding
from chronoscale.cuda_ext.topology import Topology
from chronoscale.datasets.streams.affinity import Roots, affinity
from chronoscale.datasets.streams.binding import by_affinity
from chronoscale.datasets.streams.prepared import Prepared
from chronoscale.errors import UserError
from chronoscale.real_exec.context import Context
from chronoscale.strategies.workload import Hyper


class Crew:
    """cpus: of each sampling thread, none where they stay where the system puts them, and `note` says why. The thread that trains is never
    bound."""

    def __init__(self, data: Prepared, hyper: Hyper, sources: bool, context: Context) -> None:
        """From the roots of as many batches as are sampled beforehand (Algorithm 2). Raises UserError for a topology that does not parse,
        MachineError where the system does not tell of one."""
        self.cpus: tuple[int, ...] = ()
        self.note, threads = "", context.settings.threads
        if threads < 2:  # there is nothing to be near to
            return
        try:
            own = topology(context.settings.topology).part(context.rank, context.ranks)
            found = by_affinity(affinity(data.training.tcsr, _roots(data, hyper, sources, context), threads), own)
            self.cpus, self.note = found.cpus, found.note
        except UserError as error:
            if context.settings.topology:
                raise
            self.note = f"sampling threads are not bound: {error}"

    def begin(self) -> None:
        """Before an epoch."""
        if self.cpus:
            binding.bind(self.cpus)

    def end(self) -> None:
        """After it."""
        if self.cpus:
            binding.unbind()


def topology(file: str) -> Topology:
    """Of this machine, as far as this process may use it, as a file says ('': as the system says). Raises UserError as `Topology.load`."""
    found = Topology.load(Path(file)) if file else Topology.here()
    return found.limited(os.sched_getaffinity(0)) if file and hasattr(os, "sched_getaffinity") else found


def _roots(data: Prepared, hyper: Hyper, sources: bool, context: Context) -> Iterator[Roots]:
    deal = data.deal(False, context.ranks, hyper.batch_size, hyper.batches, hyper.events.every)
    deal = replace(deal, every=deal.every * max(deal.iterations // hyper.events.presample, 1))
    others = data.told_from(False, 0, context.settings.seed)
    for iteration in range(deal.iterations):
        if own := deal.own(iteration, context.rank):
            node, before, _ = data.training.roots(own, others(own), deal.together(iteration).start, sources)
            yield node, before

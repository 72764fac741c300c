"""Context: where one rank of a job executes, with which other ranks, and what the items of a job share."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar, cast

import torch
import torch.distributed as dist

from chronoscale.cuda_ext.native.backend import set_threads
from chronoscale.errors import UserError
from chronoscale.real_exec.communication.collective import Collective, SingleRankCollective, TorchCollective
from chronoscale.real_exec.communication.exchange import Exchange, SingleRankExchange, TorchExchange
from chronoscale.real_exec.communication.files import broadcast_files, send_files
from chronoscale.real_exec.communication.host_relay import HostRelayCollective, HostRelayExchange
from chronoscale.real_exec.communication.traffic_shaping import ShapedCollective, ShapedExchange
from chronoscale.real_exec.execution.lanes import Lanes, Threads, VirtualLanes, make_lanes
from chronoscale.real_exec.job import Item, Settings
from chronoscale.real_exec.ranks import positions
from chronoscale.real_exec.ranks.membership import Membership
from chronoscale.real_exec.ranks.positions import Phase
from chronoscale.real_exec.ranks.process_setup import keep_memory
from chronoscale.real_exec.ranks.rank import pick_device
from chronoscale.real_exec.ranks.virtual import VirtualRank
from chronoscale.strategies.cluster import Link
from chronoscale.strategies.schedule import Schedule

Made = TypeVar("Made")
NO_GRAPHS = "launch: graph is of a GPU, and this would run on the CPU, which launches no kernels; set launch: eager, or leave it out"


@dataclass(frozen=True, slots=True, eq=False)
class Context:
    """Device, rank, communication and settings of this rank while it executes a job; by default a single rank on a CPU.

    virtual: it is one of several that this process executes. stack: what programs start (a data engine, for instance) ends when it is
    closed. probing: rows are timed one by one, for a fit of costs.
    """

    settings: Settings = field(default_factory=Settings)
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    rank: int = 0
    collective: Collective = field(default_factory=SingleRankCollective)
    exchange: Exchange = field(default_factory=SingleRankExchange)
    stack: ExitStack = field(default_factory=ExitStack)
    virtual: bool = False
    _of_process: dict[Hashable, Any] = field(default_factory=dict)
    _shared: dict[Hashable, Any] = field(default_factory=dict)
    probing: bool = False

    @property
    def ranks(self) -> int:
        """Return the number of ranks of the job."""
        return self.collective.ranks

    def share(self, key: Hashable, make: Callable[[], Made]) -> Made:
        """Return the object that the items of a job share on this rank under `key`; the first caller's `make` makes it."""
        if key not in self._shared:
            self._shared[key] = make()
        return cast(Made, self._shared[key])

    def share_between_ranks(self, key: Hashable, make: Callable[[], Made]) -> Made:
        """Return the object under `key` that the items of a job share on all ranks of this process, as `share`.

        It must be the same whichever rank makes it, and ranks may add to it only what any of them would.
        """
        if key not in self._of_process:
            self._of_process[key] = make()
        return cast(Made, self._of_process[key])

    def load_schedule(self, path: str) -> Schedule:
        """Return the schedule of a file. Raises UserError as `require_ranks`."""
        return self.require_ranks(self.share_between_ranks(("schedule", path), lambda: Schedule.load(Path(path))))

    def require_times(self, what: str) -> None:
        """Check that times which ranks measure mean something. Raises UserError for virtual ranks.

        what: a sentence that says what follows measured times.
        """
        if self.virtual:
            raise UserError(f"{what}, and those of virtual ranks mean nothing; choose another setting, or leave out virtual: true")

    def require_ranks(self, schedule: Schedule) -> Schedule:
        """Return the schedule, unchanged. Raises UserError when it was planned for another number of ranks than are running."""
        if schedule.ranks != self.ranks:
            raise UserError(f"schedule '{schedule.name}' is for {schedule.ranks} ranks, {self.ranks} are running")
        return schedule

    def broadcast_files(self, folder: Path, *patterns: str) -> None:
        """Send rank 0's files of the job's `folder` that match a pattern to the other ranks, called on every rank: on several machines each
        has a folder of its own. Nothing is to do on one machine, where ranks share the folder.
        """
        if Membership.here().store:
            broadcast_files(folder, patterns, self.collective)

    def gather_files(self, folder: Path, pattern_of: Callable[[int], str]) -> None:
        """Send the files of each rank that match a pattern of its own to rank 0, called on every rank; see `broadcast_files`."""
        if Membership.here().store:
            for rank in range(1, self.ranks):
                if self.rank in (0, rank):
                    other = 0 if self.rank else rank
                    send_files(folder, [pattern_of(rank)], self.exchange, other, self.rank > 0, self.device)

    def for_item(self, item: Item) -> Context:
        """Return this rank's context with an item's settings: its own learning rate, which nothing scales, and, if its rows are timed for
        a fit, eager launches (no CUDA graphs) and, on a CPU, one thread for all rows.
        """
        settings = self.settings
        if item.learning_rate:
            settings = replace(settings, learning_rate=item.learning_rate, scale_learning_rate=False)
        return replace(self, settings=replace(settings, launch="eager") if item.probes else settings, probing=item.probes)

    def lanes(self, schedule: Schedule) -> Lanes:
        """Return the streams or threads that run a schedule's rows on this rank's device.

        On a GPU all schedules share one set of streams, as its allocator keeps memory for each stream.
        """
        if self.virtual:
            return VirtualLanes()
        no_threads = self.probing or self.device.type != "cpu"
        threads = Threads() if no_threads else Threads.of(schedule, self.settings.transfer_thread)
        return self.share(("lanes", threads), lambda: make_lanes(self.device, threads, self.settings.bus))


@contextmanager
def open_context(settings: Settings, virtual: VirtualRank | None = None) -> Iterator[Context]:
    """Enter the context in which this rank executes a job: choose the device, set threads, and set up communication with the other ranks.

    Called on every rank; ranks wait for each other at the end. virtual: which of the virtual ranks of this process it is, on the CPU; None:
    this process is the rank. Raises UserError when a GPU is requested and absent, and for CUDA graphs without one.
    """
    ranks, rank = (dist.get_world_size(), dist.get_rank()) if dist.is_initialized() else (1, 0)
    device = pick_device("cpu" if virtual else settings.device, Membership.here().local_rank, settings.share_gpu)
    if settings.launch == "graph" and device.type == "cpu":
        raise UserError(NO_GRAPHS)
    torch.set_num_threads(settings.threads)
    set_threads(settings.threads)
    if device.type == "cpu":
        keep_memory()
    with ExitStack() as stack:
        if virtual:
            collective: Collective = virtual.collective
            context = Context(settings, device, virtual.rank, collective, virtual.exchange, stack, True, virtual.shared)
        else:
            collective, exchange = _communication(settings, device, rank, ranks)
            context = Context(settings, device, rank, collective, exchange, stack)
        try:
            yield context
        except BaseException as error:
            positions.own_page().report(error)
            raise
        positions.own_page().enter(Phase.LEAVING)
        collective.barrier()  # none ends what others still read


def _communication(settings: Settings, device: torch.device, rank: int, ranks: int) -> tuple[Collective, Exchange]:
    """Choose how this rank communicates: on a CPU as fast as the network of the settings, on a shared GPU by way of the host."""
    if ranks == 1:
        return SingleRankCollective(), SingleRankExchange()
    if device.type == "cpu" and (settings.network or settings.network_latency):
        link = Link(settings.network or math.inf, settings.network_latency)
        return ShapedCollective(TorchCollective(), link), ShapedExchange(TorchExchange(), link, rank)
    if device.type == "cuda" and settings.share_gpu:
        return HostRelayCollective(TorchCollective()), HostRelayExchange(TorchExchange())
    return TorchCollective(), TorchExchange()

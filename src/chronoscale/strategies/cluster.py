"""Cluster: the hardware that a schedule runs on, as numbers with units and origin."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from chronoscale.errors import UserError
from chronoscale.strategies.costing.nccl_constants import NCCLConstants
from chronoscale.strategies.schedule import Lane
from chronoscale.strategies.topology import Topology


@dataclass(frozen=True, slots=True)
class Link:
    """Connection of a cluster from point to point, alpha-beta model: moving n bytes takes `latency_s + n / rate` seconds."""

    bandwidth: float  # bytes/s, one direction, as built (line rate)
    latency_s: float
    efficiency: float = 1.0  # the share of it that transfers reach

    def __post_init__(self) -> None:
        if not self.bandwidth > 0 or not self.latency_s >= 0:
            raise UserError(f"a link needs bandwidth > 0 and latency >= 0, got {self.bandwidth} B/s and {self.latency_s} s")
        if not 0 < self.efficiency <= 1:
            raise UserError(f"a link reaches a share of its bandwidth above 0, 1 at most, got {self.efficiency}")

    @property
    def rate(self) -> float:
        """What transfers reach, bytes/s in one direction."""
        return self.bandwidth * self.efficiency


@dataclass(frozen=True, slots=True)
class PairLink:
    """Link between two machines of several, by their numbers; where these are one, between two ranks of it."""

    first: int
    second: int
    link: Link


@dataclass(frozen=True, slots=True)
class Device:
    """GPU, or one CPU rank in its place, by the figures of its datasheet, for cost models and the simulator; figures that are 0 are not
    known.

    streams: which of a rank's lanes (queues of a schedule's operations) run beside each other: lanes in one inner tuple share a FIFO. On a
    GPU every lane is a CUDA stream; a CPU rank runs its compute and communication lanes on one thread and its host lanes on another.
    on_host: its memory is the host's, so that what a rank keeps there counts against it. cores: of a CPU rank, as many as rows of its
    streams run beside each other at full speed; 0: all do, as on a GPU. message_cores: how many of those a collective takes; 0: it waits
    for a network.
    """

    name: str
    memory: float  # bytes
    flops: float  # fp32 FLOP/s
    memory_bandwidth: float  # bytes/s
    h2d: Link
    launch_s: float  # what starting one kernel takes the host
    streams: tuple[tuple[Lane, ...], ...] = tuple((lane,) for lane in Lane)
    on_host: bool = False
    graph_s: float = 0.0  # what a kernel of a CUDA graph takes beyond its work
    memory_efficiency: float = 1.0  # the share of the memory bandwidth that all its kernels together reach
    memory_latency_s: float = 0.0  # from asking for a word of device memory to having it
    sms: int = 0  # streaming multiprocessors
    threads: int = 0  # resident on one of them at once, at most
    capability: float = 0.0  # compute capability, such as 9.0: what generation it is
    cores: float = 0.0
    message_cores: float = 0.0

    def __post_init__(self) -> None:
        if min(self.memory, self.flops, self.memory_bandwidth) <= 0 or min(self.launch_s, self.graph_s) < 0:
            raise UserError(f"device '{self.name}': memory, flops and bandwidth must be positive")
        if not 0 < self.memory_efficiency <= 1:
            raise UserError(f"device '{self.name}': kernels reach a share of the memory above 0, 1 at most, got {self.memory_efficiency}")
        if min(self.memory_latency_s, self.sms, self.threads, self.cores, self.message_cores) < 0:
            raise UserError(f"device '{self.name}': latency, sms, threads and cores must not be negative")
        if sorted(lane for stream in self.streams for lane in stream) != sorted(Lane):
            raise UserError(f"device '{self.name}': every lane must stand in exactly one stream")

    def stream_of(self, lane: Lane) -> int:
        """Return which FIFO, an index into `streams`, the operations of a lane run in."""
        return next(i for i, stream in enumerate(self.streams) if lane in stream)


CPU_STREAMS = ((Lane.HOST, Lane.H2D, Lane.D2H), (Lane.COMPUTE, Lane.COMPUTE2, Lane.COMM))


@dataclass(frozen=True, slots=True)
class Cluster:
    """Cluster that schedules are planned for and simulated on: `nodes` machines with `gpus_per_node` devices each; `intra` joins devices of
    a machine, `inter` machines (one device's share).

    gather, exchange: links as all-gathers and all-to-alls see them, where those were measured for themselves; None: as all-reduces do.
    messages: links as messages from one rank to another see them, for each two machines of which that was measured.
    host_memory: bytes a machine, shared by its devices' ranks. engine: a data engine such as Dask that fetches data that lie on other
    ranks: latency a request, each served by one scheduler for the whole cluster, and bandwidth of a rank's connection; None where the
    cluster has none. topology: the single links that bytes cross; None: what the two bandwidths let one suppose. collectives: whether they
    are timed as NCCL builds them or by alpha-beta; fitted links are alpha-beta always. tuning: NCCL's constants, None: as NCCL has them.
    contention: whether rows that run side by side share devices and links (`simulator.sharing.contention`), or each runs uncontended.
    assumed: keys that its file leaves out, and what stands in their place, in words.
    """

    name: str
    device: Device
    nodes: int
    gpus_per_node: int
    intra: Link
    inter: Link
    origin: str  # where the figures come from: a datasheet, a paper, a fit
    host_memory: float = float("inf")
    engine: Link | None = None
    gather: Link | None = None
    exchange: Link | None = None
    topology: Topology | None = None
    collectives: Literal["nccl", "alpha-beta"] = "nccl"
    tuning: NCCLConstants | None = None
    contention: bool = True
    messages: tuple[PairLink, ...] = ()
    assumed: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.nodes < 1 or self.gpus_per_node < 1:
            raise UserError(f"cluster '{self.name}': needs at least one node and one GPU a node, got {self.nodes} x {self.gpus_per_node}")

    @property
    def gpus(self) -> int:
        """The number of GPUs of the cluster."""
        return self.nodes * self.gpus_per_node

    def link(self, ranks: int) -> Link:
        """Return the slowest link that a collective over ranks 0..ranks-1 crosses: inside a machine, or between machines. Raises UserError
        when there are fewer GPUs than ranks."""
        if not 1 <= ranks <= self.gpus:
            raise UserError(f"cluster '{self.name}' has {self.gpus} GPUs, {ranks} asked for")
        return self.intra if ranks <= self.gpus_per_node else self.inter


def same_device(name: str, other: str) -> bool:
    """Return whether two device names mean the same model, so that a profile of one holds for the other.

    All words of one must be in the other ("NVIDIA A100 40GB", "NVIDIA A100-SXM4-40GB"), a number among them, since only a maker's name is
    no model; an empty name matches none.
    """
    words, others = (set(re.findall(r"[a-z0-9]+", text.lower())) for text in (name, other))
    shorter, longer = sorted((words, others), key=len)
    return name == other != "" or (shorter <= longer and any(any(map(str.isdigit, word)) for word in shorter))

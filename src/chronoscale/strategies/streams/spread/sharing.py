"""Sharing: what ranks have in common where node memory is spread over them, as `Schedule.feeding` carries it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, get_args

from chronoscale.batching.streams.ranks.distribution import StreamDistribution
from chronoscale.batching.streams.sampling.boundary import Boundary
from chronoscale.batching.streams.sampling.neighbourhood import Sampling
from chronoscale.batching.streams.statistics import StreamStatistics
from chronoscale.errors import UserError
from chronoscale.strategies.schedule import Schedule
from chronoscale.strategies.streams.feeding import StreamFeeding
from chronoscale.strategies.streams.models import STREAM_MODELS, StreamShape
from chronoscale.strategies.workload import Hyper

Synchronised = Literal["all", "significant", "never"]
Neighbours = Literal["recent", "decay", "decay-cached", "local"]
SYNCHRONISED: tuple[Synchronised, ...] = get_args(Synchronised)
NEIGHBOURS: tuple[Neighbours, ...] = get_args(Neighbours)
PARTS, REPLICAS = "parts", "replicas"
FLAGS = ("shared", "smooth", "negatives", "pipelined", "stale", "cached", "grouped")


@dataclass(frozen=True, slots=True)
class Sharing:
    """What ranks share where an event stream's node memory is spread over them (MemShare, MSPipe, DistTGL); a schedule carries it as text
    (`Schedule.feeding`) to the ranks that execute it.

    replicated: every rank has all of memory, and a span of time of its own (DistTGL); else a part of it. shared: hot nodes' memory is in
    all parts (MemShare §3.1). synchronised: which updates of it reach every rank at the iteration's end: the newest of each node;
    significant changes (aging inspection, eq. 18); none. smooth: an expected memory is mixed in (eqs. 20, 21). neighbours: the most recent
    ones, those with θ-boundary decay (remote ones with a lower probability, §3.3), these and those whose rows are cached, however old, or
    only local ones. negatives: most are drawn from the
    rank's own part (§4.3). pipelined: sampling, remote rows and synchronisation run while others compute (§4.1). stale: memory is read some
    iterations before it is due (MSPipe). cached: rows of other ranks are cached from batch to batch, and fetched once
    (`RemoteRowCache`); memory is then never stale. grouped: ranks are groups (`training.replicas`), each with all of memory in parts, and
    a span of time of its own.
    """

    replicated: bool = False
    shared: bool = False
    synchronised: Synchronised = "all"
    smooth: bool = False
    neighbours: Neighbours = "recent"
    negatives: bool = False
    pipelined: bool = False
    stale: bool = False
    cached: bool = False
    grouped: bool = False

    def __post_init__(self) -> None:
        if self.cached and (self.stale or self.replicated):
            raise UserError("rows of other ranks are cached where memory is in parts, and read up to date")
        if self.grouped and (self.replicated or self.cached):
            raise UserError("groups of ranks have memory in parts, and cache no rows of other ranks")
        if self.neighbours == "decay-cached" and not self.cached:
            raise UserError("neighbours are read from a cache where rows of other ranks are cached")

    def __str__(self) -> str:
        first = REPLICAS if self.replicated else PARTS
        return " ".join([first, self.synchronised, self.neighbours, *(flag for flag in FLAGS if getattr(self, flag))])

    @property
    def reads(self) -> frozenset[str]:
        """Keys of an experiment file that ranks which share so read, and others do not."""
        decayed, significant = self.neighbours.startswith("decay"), self.synchronised == "significant"
        read = {
            "partition": not self.replicated,
            "shared": self.shared and not self.replicated,
            "decay": not self.replicated or self.neighbours != "recent",
            "theta": decayed or self.negatives,
            "complete": self.neighbours != "recent",
            "weight_cap": decayed,
            "at_least_one": decayed,
            "alpha": significant,
            "sent": significant,
            "adaptive": decayed or significant,
            "remote_cache": self.cached,
            "replicas": self.grouped,
            "staleness": self.stale,
        }
        return frozenset(f"training.{key}" for key, reads in read.items() if reads)

    @classmethod
    def of(cls, schedule: Schedule) -> Sharing:
        """Return what the ranks of a schedule share, read from `Schedule.feeding`. Raises UserError for unknown text: the schedule is of
        another version."""
        words = schedule.feeding.split()
        flags = {flag: flag in words for flag in FLAGS}
        synchronised: Synchronised = next((word for word in SYNCHRONISED if word in words), "all")
        neighbours: Neighbours = next((word for word in NEIGHBOURS if word in words), "recent")
        sharing = cls(REPLICAS in words, synchronised=synchronised, neighbours=neighbours, **flags)
        if str(sharing) != schedule.feeding:
            raise UserError(f"schedule '{schedule.name}': sharing '{schedule.feeding}' is unknown; it is of another version")
        return sharing

    def spread(self, hyper: Hyper) -> StreamDistribution:
        """Return how the event stream is distributed over ranks under this sharing: by which partitioner, with how many shared nodes."""
        if self.replicated:
            return StreamDistribution("", newest=False)
        settings = hyper.events.sharing
        remote = settings.theta if self.negatives else 1.0
        shared, newest = settings.shared * self.shared, self.synchronised == "all"
        own = StreamDistribution(settings.policy, shared, settings.decay, newest, remote, hyper.batch_size, *hyper.fanout[:1])
        return replace(own, cached_rows=settings.remote_cache * self.cached, groups=settings.replicas if self.grouped else 1)

    def sampling(self, hyper: Hyper, shape: StreamShape, data: StreamStatistics) -> Sampling:
        """Return how neighbours are sampled under this sharing, each node and edge of a batch once (MemShare §4.3).

        Raises UserError for a model without memory, and for neighbours drawn at random with a boundary.
        """
        if not shape.memory:
            known = ", ".join(kind.name for kind in STREAM_MODELS.values() if kind.memory)
            raise UserError(f"model '{shape.name}' has no node memory that ranks could share; models that have: {known}")
        sampling = StreamFeeding(merged=True).sampling(hyper, shape)
        if self.neighbours == "recent":
            return sampling
        if hyper.events.policy != "recent":
            raise UserError(f"training.sampling: boundary decay is of the most recent neighbours, got '{hyper.events.policy}'")
        settings = hyper.events.sharing
        decay = settings.decay if settings.decay is not None else (1 / data.span if data.span else 0.0)
        theta, ours = settings.theta if self.neighbours != "local" else 0.0, hyper.variant != "as-published" and self.neighbours != "local"
        cap, one = (settings.weight_cap, settings.at_least_one) if ours else (0.0, False)
        return replace(sampling, boundary=Boundary(theta, decay, settings.complete, cap, one, self.neighbours == "decay-cached"))

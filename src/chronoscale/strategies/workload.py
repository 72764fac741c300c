"""Workload: the statistics of a dataset, the sizes of a model and the hyper-parameters that planning needs, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol, TypeVar

import numpy as np

from chronoscale.batching.signals.windows import Windows
from chronoscale.batching.snapshots.chunks import BlockCounts
from chronoscale.batching.snapshots.held_out import HeldOut
from chronoscale.batching.snapshots.links import LinkProtocol
from chronoscale.batching.snapshots.retention import Decay
from chronoscale.batching.snapshots.sampling import NeighbourSampling, SampleCounts
from chronoscale.batching.snapshots.survival import EpochDraws
from chronoscale.batching.streams.statistics import StreamStatistics
from chronoscale.cuda_ext.sampling.temporal import POLICIES, Policy
from chronoscale.datasets.arrays import require_counts
from chronoscale.datasets.signals.statistics import SignalStatistics
from chronoscale.datasets.snapshots.statistics import SnapshotStatistics
from chronoscale.datasets.streams.protocol import Protocol as Evaluation
from chronoscale.errors import UserError, unknown
from chronoscale.strategies.schedule import Ints
from chronoscale.strategies.snapshots.tasks import task_of

FP32 = 4  # bytes of a feature
GATES = {"lstm": 4, "gru": 3}
AnyStatistics = TypeVar("AnyStatistics", bound="Statistics")


class Statistics(Protocol):
    """Counts of a dataset that planners need in its place; `family` names its kind of dynamic graph: "snapshots", "signals" or
    "streams"."""

    @property
    def family(self) -> str: ...


@dataclass(frozen=True, slots=True, eq=False)
class Partition:
    """Counts of a vertex partition of every snapshot over ranks, for planners, int64 [snapshots, parts] each. `origin`: the partitioner, or
    that the counts are an estimate."""

    rows: Ints
    edges: Ints  # that end in the part
    halo: Ints  # remote rows read
    sent: Ints  # own rows that other parts read, each counted once a reader
    origin: str = "METIS"

    def __post_init__(self) -> None:
        require_counts(self, self.rows.shape)

    @property
    def parts(self) -> int:
        """The number of parts, one a rank."""
        return int(self.rows.shape[1])


@dataclass(frozen=True, slots=True)
class ModelShape:
    """Sizes of a model, as planners, cost counts and reports read them; it holds no weights. `parameters` is the number of trained fp32
    values."""

    name: str
    spatial: str  # gcn, gat, diffusion, attention, none
    temporal: str  # lstm, gru, rnn, attention, convolution, none
    layers: int
    inputs: int
    hidden: int
    outputs: int
    parameters: int
    heads: int = 1
    evolves_weights: bool = False  # EvolveGCN: weights change with the snapshot, so transformations are not reused
    transforms_first: bool = False  # GAT: transformation precedes aggregation
    summarises: bool = False  # EvolveGCN-H: the recurrence reads the highest-scored nodes
    hops: int = 0  # diffusion steps of a signal's model (DCRNN's K)
    calendar: int = 0  # of a signal's `inputs`: the last ones, which tell the time
    recurs_last: bool = False  # MPNN-LSTM: the last layer alone has a recurrence
    depth: int = 1  # cells stacked in a recurrence: one's hidden state is the next one's input
    times: int = 0  # rows of the table of a channel of the calendar, of a signal's model that has tables
    dropout: float = 0.0  # in training
    published: bool = False  # of a signal's model: of the variant `as-published`

    def __post_init__(self) -> None:
        if min(self.layers, self.inputs, self.hidden, self.outputs, self.heads, self.depth) < 1 or self.parameters < 0:
            raise UserError(f"model '{self.name}': layers, widths, heads and depth must be at least 1")
        if self.evolves_weights and (self.recurs_last or self.depth > 1):
            raise UserError(f"model '{self.name}': evolving weights have one cell in every layer; leave out recurs_last and depth")

    @property
    def gates(self) -> int:
        """The number of gate matrices of the recurrent cell: 4 of an LSTM, 3 of a GRU, 0 without one."""
        return GATES.get(self.temporal, 0)

    @property
    def states(self) -> int:
        """The number of tensors in a recurrent state, for counts of memory: h, and an LSTM's c."""
        return 2 if self.temporal == "lstm" else 1

    @property
    def stepped(self) -> int:
        """The activations that a recurrent step saves for the backward pass, as a multiple of its width: gates and states of each of
        `depth` cells; stacked cells save their states once more, side by side."""
        return self.depth * (self.gates + 2 + self.states * (self.depth > 1))

    @property
    def recurrences(self) -> int:
        """The number of layers with a recurrence (a temporal cell); these are the last ones."""
        return 1 if self.recurs_last else self.layers

    def recurs(self, layer: int) -> bool:
        """Return whether `layer` (0-based) has a recurrence (a temporal cell); a layer without hands its transformed representations on."""
        return layer >= self.layers - self.recurrences

    @property
    def predicts_each(self) -> bool:
        """Whether every snapshot of a training sample has a prediction and a loss, as in EvolveGCN; else only the last hidden state has."""
        return self.evolves_weights

    def width(self, layer: int) -> int:
        """Return how many values a vertex has in the input of `layer` (0-based): the dataset's features, or the hidden width."""
        return self.inputs if layer == 0 else self.hidden


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """Model as an experiment asks for it: its name, and widths, of which a model reads those that it has.

    inputs: width of generated features where a dataset has none. hops, heads: of models that diffuse or attend. time: width of the encoding
    of elapsed times; mails: how many messages a graph node's mailbox holds (APAN); dropout: share that training leaves out, of attention
    or, in forecasters, of hidden values; clock: the scale of elapsed times: gaps, linear, log or both
    (`real_exec.streams.models.clock`); published models, as studies have them, are linear. times: rows of STID's tables of times.
    patch: places that DyGFormer reads as one.
    """

    name: str
    hidden: int = 64
    layers: int = 1
    inputs: int = 64
    hops: int = 2
    heads: int = 4
    time: int = 100
    mails: int = 10
    dropout: float = 0.0
    clock: str = "linear"
    times: int = 288
    patch: int = 1


@dataclass(frozen=True, slots=True)
class SharingHyper:
    """Hyper-parameters of training an event stream on several ranks that spread its node memory (MemShare), as planners read them.

    policy, shared, decay: how the stream is partitioned, as in `batching.streams.ranks.distribution.StreamDistribution`; strategies without
    shared nodes take a share of 0. theta: expected share of the remote neighbours that are sampled; complete: whether local ones fill the
    fan-out (§3.3); weight_cap, at_least_one: `cap` and `at_least_one` of `batching.streams.sampling.boundary.Boundary`, which a variant as
    published has not. alpha: how far a shared node's memory has to turn before it is synchronised (eq. 19). staleness: iterations that
    memory may be behind (MSPipe). adaptive: theta and alpha follow the times that are measured (eqs. 22, 23). sent: the share of the
    changes of shared nodes that alpha lets through, which a plan has to assume; None: as measured (`strategies.streams.spread.sent_share`),
    over so many epochs of training, 0: as many as were measured. remote_cache: rows of other ranks, of nodes and of events
    each, that a rank caches, of strategies that fetch rows once. replicas: groups of ranks, each with all of node memory, of strategies in
    which groups take turns in time.
    """

    policy: str = "shared-nodes"
    shared: float = 0.1
    decay: float | None = None
    theta: float = 0.1
    complete: bool = True
    alpha: float = 0.3
    staleness: int = 1
    adaptive: bool = False
    sent: float | None = None
    remote_cache: int = 65_536
    epochs: int = 0
    weight_cap: float = 4.0
    at_least_one: bool = True
    replicas: int = 2

    def __post_init__(self) -> None:
        if not 0 <= self.shared < 1:
            raise UserError(f"training.shared: a share of the nodes, at least 0 and below 1, got {self.shared:g}")
        for name, value, most in (("theta", self.theta, 1), ("alpha", self.alpha, 2), ("sent", self.sent, 1)):
            if value is not None and not 0 <= value <= most:
                raise UserError(f"training.{name}: expected 0 to {most}, got {value:g}")
        if not (self.weight_cap == 0 or 1 <= self.weight_cap < float("inf")):
            raise UserError(f"training.weight_cap: expected 0, for none, or at least 1, got {self.weight_cap:g}")
        if self.remote_cache < 1:
            raise UserError(f"training.remote_cache: expected at least 1 row, got {self.remote_cache}")
        if self.replicas < 1:
            raise UserError(f"training.replicas: expected at least 1 group of ranks, got {self.replicas}")
        if self.staleness < 1:
            raise UserError(f"training.staleness: expected at least 1 iteration, got {self.staleness}")


@dataclass(frozen=True, slots=True)
class EventHyper:
    """Hyper-parameters of training on an event stream, as planners read them: how it is split and evaluated, and how neighbours are
    sampled.

    policy, windows, duration: as in `batching.streams.sampling.neighbourhood.Sampling`. every: run only every so many iterations, for
    probes that have to see an epoch's beginning and its end. cache_ratio: share of the features that strategies with a cache keep on the
    device; presample: batches that are sampled before training to see which.
    """

    evaluation: Evaluation = field(default_factory=Evaluation)
    policy: Policy = "recent"
    windows: int = 1
    duration: float = 0.0
    every: int = 1
    cache_ratio: float = 0.2
    sharing: SharingHyper = field(default_factory=SharingHyper)
    presample: int = 400  # greedy's choice is then within 2 % of the best split's hits (docs/reproduce_fast.md, Figure 8)

    def __post_init__(self) -> None:
        if not 0 <= self.cache_ratio <= 1 or self.presample < 1:
            raise UserError(f"cache_ratio expected in [0, 1], presample at least 1 batch, got {self.cache_ratio:g} and {self.presample}")
        if self.policy not in POLICIES:
            raise unknown("policy", self.policy, POLICIES)
        if self.windows < 1 or self.duration < 0 or (self.windows > 1) != (self.duration > 0):
            raise UserError(f"windows: expected several of a duration, or one without, got {self.windows} of duration {self.duration:g}")


@dataclass(frozen=True, slots=True)
class Recency:
    """Hyper-parameters of sliding windows of snapshots, as FlareDTDG's planner reads them (§3.2): what windows keep of older snapshots
    (`decay`), and into how many vertex chunks, of all ranks together, the graph is cut (`chunks`).
    apart: no window crosses an epoch's random split of the sequence (see `EpochDraws.steps`)."""

    decay: Decay = field(default_factory=Decay)
    chunks: int = 64
    apart: bool = False

    def __post_init__(self) -> None:
        if self.chunks < 1:
            raise UserError(f"training.chunks must be at least 1, got {self.chunks}")

    @property
    def full(self) -> int:
        """The number of newest snapshots in a window that are kept whole."""
        return self.decay.full


class Chunking(Protocol):
    """Counts of vertices cut into chunks (sets of vertices that stay together), for FlareDTDG's and DynaGraph's planners; `origin` says
    whether they were counted or estimated."""

    @property
    def origin(self) -> str: ...

    def count_blocks(self, epoch: EpochDraws, decay: Decay, ranks: int) -> BlockCounts:
        """Count the rows and edges that each rank has of every snapshot of an epoch's windows, at every age, where older snapshots lose
        chunks.

        epoch: the epoch's random choices. decay: which share of the chunks a snapshot of each age keeps. Raises UserError for fewer chunks
        than ranks.
        """
        ...

    def count_samples(self, sampling: NeighbourSampling, ranks: int) -> SampleCounts:
        """Count the rows and edges that each rank has of every snapshot's sampled neighbours in an epoch, with vertices assigned to ranks
        at random."""
        ...


@dataclass(frozen=True, slots=True)
class Hyper:
    """Hyper-parameters of training that plans depend on, from the experiment file; each family of dynamic graphs reads its own."""

    group_size: int = 4  # snapshots a group (REAL §7.1)
    stride: int = 1  # snapshots between starts of consecutive groups
    groups_per_rank: int = 1  # groups a rank and iteration, for strategies that do not choose it themselves
    batch_size: int = 1  # events or windows a rank and optimiser step
    fanout: tuple[int, ...] = ()
    window: int = 12  # steps that a signal's model reads
    horizon: int = 1  # snapshots or steps ahead that are predicted
    variant: str = "exact"  # or "as-published" (DESIGN §5)
    seed: int = 0
    batches: int = 0  # optimiser steps an epoch at most; 0: all windows
    validate: bool = True  # signals: an epoch ends with the validation windows
    standardise: str = "training"  # signals: period of mean and deviation, see `batching.signals.standardisation`
    loss: str = "mae"  # signals: mean absolute or squared ("mse") error that training minimises
    curriculum: int = 0  # signals: epochs after which one step more of the horizon counts in training; 0: all do from the first on
    teacher_decay: float = 0.0  # signals: see `batching.signals.scheduled_sampling`; 0: a decoder reads its own predictions
    events: EventHyper = field(default_factory=EventHyper)
    recency: Recency = field(default_factory=Recency)
    task: str = "in-degree"  # on snapshots, see `strategies.snapshots.tasks`
    held: HeldOut = field(default_factory=HeldOut)  # snapshots that are not trained on
    links: LinkProtocol = field(default_factory=LinkProtocol)  # how the task `links` is evaluated

    def __post_init__(self) -> None:
        task_of(self.task)
        if min(self.group_size, self.stride, self.batch_size, self.window, self.horizon) < 1:
            raise UserError("group_size, stride, batch_size, window and horizon must be at least 1")
        if self.groups_per_rank not in (1, 2):
            raise UserError(f"groups_per_rank must be 1 or 2 (capacity of two, REAL §5.1), got {self.groups_per_rank}")
        if self.variant not in ("exact", "as-published"):
            raise UserError(f"variant must be 'exact' or 'as-published', got '{self.variant}'")
        if self.loss not in ("mae", "mse"):
            raise UserError(f"training.loss must be 'mae' or 'mse', got '{self.loss}'")
        if self.standardise not in ("training", "windows", "series"):
            raise UserError(f"standardise must be 'training', 'windows' or 'series', got '{self.standardise}'")
        if self.standardise != "training" and self.variant == "exact":
            raise UserError(f"standardise: '{self.standardise}' is a published form; it needs variant: as-published")


@dataclass(frozen=True, slots=True, eq=False)
class Workload:
    """What a strategy plans from: a dataset's statistics, a model's sizes and hyper-parameters; partition, chunking: counts of how vertices
    are cut over ranks, for the strategies that need them."""

    name: str
    stats: Statistics
    model: ModelShape
    hyper: Hyper = field(default_factory=Hyper)
    partition: Partition | None = None
    chunking: Chunking | None = None

    @property
    def family(self) -> str:
        """The kind of dynamic graph: "snapshots", "signals" or "streams"."""
        return self.stats.family

    def of(self, kind: type[AnyStatistics]) -> AnyStatistics:
        """Return the dataset's statistics for a planner of one family of dynamic graphs. kind: the class of its statistics. Raises
        UserError for a dataset of another family."""
        if not isinstance(self.stats, kind):
            raise UserError(f"'{self.name}' is of the family {self.family}, this strategy plans for {kind.family}")
        return self.stats

    @property
    def snapshots(self) -> SnapshotStatistics:
        """The statistics of a sequence of snapshots, for planners of that family. Raises UserError for a dataset of another family."""
        return self.of(SnapshotStatistics)

    @property
    def signal(self) -> SignalStatistics:
        """The statistics of a signal (sensor readings on a static graph), for planners of that family. Raises UserError for another
        family."""
        return self.of(SignalStatistics)

    @property
    def events(self) -> StreamStatistics:
        """The statistics of an event stream, for planners of that family. Raises UserError for another family."""
        return self.of(StreamStatistics)

    @property
    def windows(self) -> Windows:
        """The training, validation and test windows of a signal. Raises UserError for another family, or a series that is too short for
        one."""
        return Windows(self.signal.steps, self.hyper.window, self.hyper.horizon)

    @property
    def steps(self) -> int:
        """How many snapshots a sliding window may end with: those that are trained on and have a later one to predict."""
        return max(len(self.hyper.held.split(len(self.snapshots.edges)).training) - self.hyper.horizon, 0)

    def within(self, decay: Decay) -> int:
        """Return how many snapshots a sliding window may end with (`steps`). decay: the window's length, and what it keeps of old
        snapshots. Raises UserError where there are fewer snapshots than such a window has."""
        if decay.window > self.steps:
            keys = f"training.full + training.decayed: a window of {decay.full} + {decay.decayed} snapshots"
            raise UserError(f"{keys}, and '{self.name}' has {self.steps} to train on")
        return self.steps

    @property
    def groups(self) -> int:
        """The number of snapshot groups, REAL's training samples: windows of `group_size` snapshots with `horizon` more to predict, all in
        training.

        Raises UserError when what is trained on is too short for one, and where a share of it that is held out comes to none.
        """
        length, hyper = len(self.snapshots.edges), self.hyper
        trained, needed = len(hyper.held.split(length).training), hyper.group_size + hyper.horizon
        if trained < needed:
            group = f"a group of {hyper.group_size} with horizon {hyper.horizon}"
            if length < needed:
                raise UserError(f"'{self.name}' has {length} snapshots; {group} needs more")
            rest = f"leave {trained} of the {length} snapshots of '{self.name}' to train on"
            raise UserError(f"training.validation, training.test: they {rest}; {group} needs {needed}")
        return (trained - needed) // hyper.stride + 1

    @property
    def constant_bytes(self) -> int:
        """The bytes of a snapshot's input features of all nodes, where all snapshots have the same; else, and of other families, 0."""
        if not isinstance(self.stats, SnapshotStatistics) or task_of(self.hyper.task).varies:
            return 0
        return self.stats.num_nodes * self.model.inputs * FP32

    def group_start(self, unit: Ints | int) -> Ints:
        """Return the number of the first snapshot of each group, int64. unit: numbers of groups (consecutive ones start `stride` snapshots
        apart)."""
        return np.asarray(unit, np.int64) * self.hyper.stride

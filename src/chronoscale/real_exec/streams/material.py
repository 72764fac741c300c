"""StreamMaterial: what the programs of one prepared stream read: tables of features, and the state of its nodes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from chronoscale.batching.streams.description import stream_statistics
from chronoscale.batching.streams.event_gaps import measure_event_gaps
from chronoscale.batching.streams.prepared import PreparedStream
from chronoscale.datasets.arrays import Float32, read_in_any_order
from chronoscale.real_exec.execution.context import Context
from chronoscale.real_exec.job import Item
from chronoscale.real_exec.streams.models.model import StreamModel, stream_model
from chronoscale.real_exec.streams.state import NodeState
from chronoscale.real_exec.training.learner import Learner
from chronoscale.strategies.streams.models import StreamShape, shape_for
from chronoscale.strategies.workload import Hyper, ModelChoice


@dataclass(frozen=True, slots=True, eq=False)
class StreamMaterial:
    """What a rank's programs read of one prepared event stream: the stream, the sizes of a model on it, and node features float32 [N, F] or
    None.

    Features are the stream's own. A model that reads nothing of the past but features gets rows drawn by the seed, or zeros, where it has
    none.
    """

    data: PreparedStream
    shape: StreamShape
    node_features: Float32 | None

    @classmethod
    def of(cls, item: Item, choice: ModelChoice, context: Context) -> StreamMaterial:
        """Load an item's prepared event stream for training, once for all items that share it and all ranks of this process.

        Raises UserError for a folder without a prepared stream, and for impossible models.
        """
        key = ("material", item.dataset, choice)
        return context.share_between_ranks(key, lambda: cls.on(PreparedStream.load(Path(item.dataset)), choice, item.hyper, context))

    @classmethod
    def on(cls, data: PreparedStream, choice: ModelChoice, hyper: Hyper, context: Context) -> StreamMaterial:
        """Return what a rank reads of a prepared event stream for training the chosen model. Raises UserError for impossible models."""
        shape, features = shape_for(choice, stream_statistics(data), hyper), data.whole.stream.node_features
        for table in (features, data.whole.stream.features):
            read_in_any_order(table)
        if features is None and shape.features:
            size, drawn = (data.whole.stream.num_nodes, shape.features), torch.Generator().manual_seed(context.settings.seed)
            features = (torch.randn(size, generator=drawn) if choice.inputs else torch.zeros(size)).numpy()
        return cls(data, shape, features if shape.features else None)

    @property
    def edge_features(self) -> Float32 | None:
        """Return the features of all events of the stream, float32 [M, De]; None for a model that reads none."""
        return self.data.whole.stream.features if self.shape.edge else None

    def state(self) -> NodeState:
        """Return new, empty tables of the memory and mailbox of all nodes of the stream."""
        events = self.data.whole.stream
        return NodeState(events.num_nodes, self.shape, float(events.t[0]))

    def learner(self, choice: ModelChoice, context: Context, smooth: bool = False) -> Learner[StreamModel]:
        """Return the untrained model of an event stream on this rank, with its optimiser; parameters come from the job's seed.

        smooth: memory of nodes that ranks share is mixed with what is expected of it (MemShare eq. 21).
        """
        model = stream_model(self.shape, context.settings.seed, choice.dropout)
        if smooth:
            model.smooth()
        model.standardise(
            *context.share_between_ranks(
                ("waits", self.data.folder), lambda: measure_event_gaps(self.data.training, self.data.training_events)
            )
        )
        return Learner(model, context, fused=True)


def rows(table: Float32 | None, index: np.ndarray) -> torch.Tensor | None:
    """Return rows of a (memory-mapped) feature table in a rank's host memory, float32 [n, D]; None for no table. index: int64 [n]."""
    return None if table is None else torch.from_numpy(np.ascontiguousarray(table[index]))

"""Description of a prepared stream for planners."""

from __future__ import annotations

from functools import partial

from chronoscale.batching.streams.partitioning.partitioner import elapsed_time
from chronoscale.batching.streams.prepared import PreparedStream
from chronoscale.batching.streams.ranks.distributed_stream import DistributedStream
from chronoscale.batching.streams.statistics import StreamStatistics
from chronoscale.datasets.streams.labels import require_labels


def stream_statistics(data: PreparedStream) -> StreamStatistics:
    """Describe a prepared event stream to planners: its counts, widths of features, and functions that sample its batches and count what
    they read."""
    events = data.whole.stream
    node_width, edge_width = (0 if features is None else features.shape[1] for features in (events.node_features, events.features))
    return StreamStatistics(
        num_nodes=events.num_nodes,
        training=data.training_events,
        validation=len(data.split.validation),
        node_width=node_width,
        edge_width=edge_width,
        classes=int(require_labels(events).max()) + 1 if data.protocol.task == "node" else 0,
        events=len(events),
        work=data.work,
        spreading=partial(DistributedStream, data),
        span=float(elapsed_time(events, slice(-1, None))[0]),
    )

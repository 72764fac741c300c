"""Shapes: the sizes that a model has on a stream."""

from __future__ import annotations

from chronoscale.batching.streams.statistics import StreamStatistics
from chronoscale.errors import UserError
from chronoscale.strategies.streams.models import STREAM_MODELS, StreamShape, stream_shape
from chronoscale.strategies.workload import Hyper, ModelChoice, Workload

FP32 = 4  # bytes of a number


def shape_for(choice: ModelChoice, data: StreamStatistics, hyper: Hyper) -> StreamShape:
    """Of a model that is chosen for a stream. Raises UserError as `stream_shape`, for windows that the model does not have, and for one
    that needs them."""
    events = hyper.events
    shape = stream_shape(choice, data.node_width, data.edge_width, data.classes, events.windows)
    windowed = STREAM_MODELS[shape.name].windowed
    if not windowed and events.windows > 1:
        raise UserError(f"model '{shape.name}' has no windows; leave training.windows and training.duration out")
    if windowed and not events.duration:
        raise UserError(f"model '{shape.name}' attends over windows of time: training.windows says how many, training.duration how long")
    return shape


def shape_of(workload: Workload) -> StreamShape:
    """Of a workload on events. Raises UserError for another."""
    if not isinstance(workload.model, StreamShape):
        raise UserError(f"model '{workload.model.name}' does not train on streams of events")
    return workload.model


def delivers(shape: StreamShape, hyper: Hyper) -> int:
    """To how many neighbours of an event's ends its mail goes, beside the ends themselves."""
    return hyper.fanout[0] if shape.neighbours else 0

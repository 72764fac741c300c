"""Models of event streams by name: what they are made of and how large they are; their code is `real_exec.streams.models`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from chronoscale.batching.streams.statistics import StreamStatistics
from chronoscale.errors import UserError, unknown
from chronoscale.strategies.plugins import names_file
from chronoscale.strategies.streams.kinds.apan import APAN
from chronoscale.strategies.streams.kinds.base import PATCHES, StreamKind, StreamShape
from chronoscale.strategies.streams.kinds.dygformer import DyGFormer
from chronoscale.strategies.streams.kinds.dysat import DySAT
from chronoscale.strategies.streams.kinds.graphmixer import GraphMixer
from chronoscale.strategies.streams.kinds.jodie import JODIE
from chronoscale.strategies.streams.kinds.own import OwnKind
from chronoscale.strategies.streams.kinds.tgat import TGAT
from chronoscale.strategies.streams.kinds.tgn import TGN
from chronoscale.strategies.workload import Hyper, ModelChoice, Workload

__all__ = ["CLOCKS", "FP32", "STREAM_MODELS", "StreamShape", "delivers", "shape_for", "shape_of", "stream_kind", "stream_shape"]

FP32 = 4  # bytes of a number
CLOCKS = ("gaps", "linear", "log", "both")  # scales on which elapsed times are read
PUBLISHED = (TGN(), TGAT(), DySAT(), JODIE(), APAN(), GraphMixer(), DyGFormer())
STREAM_MODELS: Mapping[str, StreamKind] = {kind.name: kind for kind in PUBLISHED}
PATCHED = tuple(kind.name for kind in PUBLISHED if kind.spatial == PATCHES)


def stream_kind(name: str) -> StreamKind:
    """Return the kind of model on event streams that an experiment names: one of this package, or of a user's file, as `my_model.py:Mine`.

    Raises UserError for an unknown name (with the nearest), and for a file that does not have the model.
    """
    if names_file(name):
        return OwnKind.load(name)
    if name not in STREAM_MODELS:
        raise unknown("model of event streams", name, STREAM_MODELS)
    return STREAM_MODELS[name]


def stream_shape(choice: ModelChoice, features: int, edge: int, outputs: int, windows: int, fanout: int = 0) -> StreamShape:
    """Return the sizes of a model of event streams for planning, parameters counted. features, edge: values of a node and of an event in
    the data (0: none).

    outputs: classes of nodes, 0 without a classifier. windows: of a model that has some (DySAT). fanout: sampled neighbours of a root, of a
    model with weights for each (GraphMixer, DyGFormer). Where nodes have no features, models without memory read `inputs` random ones, or,
    with 0, zeros. Raises UserError for an unknown name (with the nearest) and for sizes that the model cannot have.
    """
    name, hidden = choice.name, choice.hidden
    kind = stream_kind(name)
    if min(hidden, choice.layers, choice.heads, choice.time, choice.mails, choice.patch, windows) < 1 or choice.inputs < 0:
        raise UserError(f"model '{name}': hidden, layers, heads, time, mails, patch and windows must be at least 1, inputs at least 0")
    if not (features or choice.inputs or kind.memory or kind.clock):
        raise UserError(f"model '{name}' tells nodes by their features alone: the data have none, so inputs must be at least 1")
    if min(features, edge, outputs) < 0:
        raise UserError(f"model '{name}': features, edge and outputs must be at least 0, got {features}, {edge} and {outputs}")
    if choice.clock not in CLOCKS:
        raise unknown("clock", choice.clock, CLOCKS)
    if kind.attends and hidden % choice.heads:
        raise UserError(f"model '{name}': hidden must be a multiple of heads, got {hidden} and {choice.heads}")
    if not kind.aggregates and choice.layers > 1:
        raise UserError(f"model '{name}' aggregates no neighbours and has no layers, got layers: {choice.layers}")
    if choice.layers not in kind.depths:
        some = " or ".join(map(str, kind.depths)) + " layer" + "s" * (len(kind.depths) > 1)
        raise UserError(f"model '{name}' has {some} over sampled neighbours, got layers: {choice.layers}")
    if kind.by_slot and fanout < 1:
        raise UserError(f"model '{name}' has weights for each sampled neighbour: fanout must be at least 1, got {fanout}")
    if choice.patch != 1 and kind.spatial != PATCHES:
        raise UserError(f"model '{name}' has no patches, got patch: {choice.patch}; those that have: {', '.join(PATCHED)}")
    if choice.patch > fanout + 1 and kind.spatial == PATCHES:
        raise UserError(f"model '{name}': a patch of {choice.patch} places, and a sequence has {fanout + 1}, a node and its fanout")
    if kind.spatial == PATCHES and outputs:
        raise UserError(f"model '{name}' embeds a node beside the other end of its event, and predicts links alone; got labels of nodes")
    edge = edge if kind.edges else 0
    features = features if kind.memory else features or choice.inputs or 1
    shape = StreamShape(
        name,
        kind.spatial,
        kind.temporal,
        choice.layers if kind.aggregates else 0,
        hidden if kind.memory else features,
        hidden,
        outputs,
        0,
        choice.heads if kind.attends or kind.own else 1,
        edge=edge,
        time=choice.time if kind.clock else 0,
        clock=choice.clock,
        memory=hidden if kind.memory else 0,
        mail=kind.mail(hidden, edge),
        mails=kind.mails(choice),
        windows=windows if kind.windowed else 1,
        neighbours=kind.neighbours,
        features=features,
        dropout=choice.dropout,
        slots=fanout if kind.by_slot else 0,
        patch=choice.patch if kind.spatial == PATCHES else 1,
    )
    return replace(shape, parameters=_parameters(shape))


def _parameters(shape: StreamShape) -> int:
    """Count the parameters of a model's module (`real_exec.streams.models`)."""
    hidden, time = shape.hidden, shape.time
    square = hidden * hidden
    kind = stream_kind(shape.name)
    count = kind.parameters(shape) + 2 * square + 2 * hidden + 1  # of the kind alone, and of scores of links
    if shape.outputs:
        count += square + hidden + (hidden + 1) * shape.outputs
    if shape.memory and shape.features:
        count += (shape.features + 1) * hidden
    if kind.own:
        return count
    count += 2 * time * kind.trains_clock
    count += sum(kind.layer_parameters(shape, layer) for layer in range(shape.layers))
    return count


def shape_for(choice: ModelChoice, data: StreamStatistics, hyper: Hyper) -> StreamShape:
    """Return the sizes of the model that an experiment chooses for an event stream, for planning.

    Raises UserError for an unknown model, for sizes and windows that it cannot have, and for one that needs windows and has none.
    """
    events = hyper.events
    shape = stream_shape(choice, data.node_width, data.edge_width, data.classes, events.windows, hyper.fanout[0] if hyper.fanout else 0)
    windowed = stream_kind(shape.name).windowed
    if not windowed and events.windows > 1:
        raise UserError(f"model '{shape.name}' has no windows; leave training.windows and training.duration out")
    if windowed and not events.duration:
        raise UserError(f"model '{shape.name}' attends over windows of time: training.windows says how many, training.duration how long")
    return shape


def shape_of(workload: Workload) -> StreamShape:
    """Return the sizes of a workload's model, for planners on event streams. Raises UserError for a model that does not train on these."""
    if not isinstance(workload.model, StreamShape):
        raise UserError(f"model '{workload.model.name}' does not train on streams of events")
    return workload.model


def delivers(shape: StreamShape, hyper: Hyper) -> int:
    """Return to how many sampled neighbours of an event's ends a model sends its mail (the message that a node's memory is updated by),
    beside the ends themselves: the fan-out in APAN, else 0."""
    return hyper.fanout[0] if shape.neighbours else 0

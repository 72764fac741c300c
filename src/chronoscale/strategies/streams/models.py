"""Models of event streams by name: what they are made of and how large they are; their code is `real_exec.streams.models`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from chronoscale.errors import UserError, unknown
from chronoscale.strategies.workload import ModelChoice, ModelShape

DEPTHS = (1, 2)  # sampled layers that a model may have
CLOCKS = ("linear", "log", "both")  # scales on which elapsed times are read


class Parts(NamedTuple):
    """Parts of a model: `spatial` attention, gat or none; `temporal`, what carries the past: gru, rnn, attention or none.

    memory: whether nodes have one; clock: whether elapsed times are encoded; edges: whether features of events are read.
    """

    spatial: str
    temporal: str
    memory: bool
    clock: bool
    edges: bool
    source: str


STREAM_MODELS: Mapping[str, Parts] = {
    "tgn": Parts("attention", "gru", True, True, True, "Rossi et al.; ICML workshop on graph representation learning 2020"),
    "tgat": Parts("attention", "none", False, True, True, "Xu et al.; ICLR 2020"),
    "dysat": Parts("gat", "attention", False, False, False, "Sankar et al.; WSDM 2020"),
    "jodie": Parts("none", "rnn", True, False, True, "Kumar, Zhang, Leskovec; KDD 2019"),
    "apan": Parts("none", "attention", True, False, True, "Wang et al.; SIGMOD 2021"),
}


@dataclass(frozen=True, slots=True)
class StreamShape(ModelShape):
    """The sizes of a model of event streams. `layers` aggregate sampled neighbours: 0 for JODIE and APAN; `inputs`: width of what the
    first of them reads, or of the memory; `outputs`: classes of nodes, 0 for a model of links alone."""

    edge: int = 0  # features of events that are read
    time: int = 0  # width of the encoding of elapsed times
    clock: str = "linear"  # their scale
    memory: int = 0  # width of a node's memory, 0 for none
    mail: int = 0  # width of a mail
    mails: int = 0  # a node keeps
    windows: int = 1  # each has a tree of its own
    neighbours: bool = False  # mails go to sampled neighbours, too
    features: int = 0  # of nodes that are read
    dropout: float = 0.0  # of attention, in training

    @property
    def slot(self) -> int:
        """Numbers of a slot beside its row and its encoded time: features of its event, and, on both scales, the second one's reading."""
        return self.edge + (self.clock == "both" and self.spatial == "attention")

    def __post_init__(self) -> None:
        least = min(self.inputs, self.hidden, self.heads, self.windows), min(self.layers, self.outputs, self.parameters)
        if least[0] < 1 or least[1] < 0:
            raise UserError(f"model '{self.name}': widths, heads and windows must be at least 1, layers and outputs at least 0")


def stream_shape(choice: ModelChoice, features: int, edge: int, outputs: int, windows: int) -> StreamShape:
    """Sizes of a model by choice, for data with `features` of nodes and `edge` of events, 0 where there are none.

    outputs: classes of nodes, 0 without a classifier. windows: of a model that has some. Where nodes have no features, models without
    memory read `inputs` random ones, or, with 0, zeros. Raises UserError for an unknown name (with the nearest) and for sizes that the
    model cannot have.
    """
    name, hidden = choice.name, choice.hidden
    if name not in STREAM_MODELS:
        raise unknown("model of event streams", name, STREAM_MODELS)
    parts = STREAM_MODELS[name]
    if min(hidden, choice.layers, choice.heads, choice.time, choice.mails, windows) < 1 or choice.inputs < 0:
        raise UserError(f"model '{name}': hidden, layers, heads, time, mails and windows must be at least 1, inputs at least 0")
    if not (features or choice.inputs or parts.memory or parts.clock):
        raise UserError(f"model '{name}' tells nodes by their features alone: the data have none, so inputs must be at least 1")
    if min(features, edge, outputs) < 0:
        raise UserError(f"model '{name}': features, edge and outputs must be at least 0, got {features}, {edge} and {outputs}")
    if choice.clock not in CLOCKS:
        raise unknown("clock", choice.clock, CLOCKS)
    attends = "attention" in parts[:2]
    if attends and hidden % choice.heads:
        raise UserError(f"model '{name}': hidden must be a multiple of heads, got {hidden} and {choice.heads}")
    if parts.spatial == "none" and choice.layers > 1:
        raise UserError(f"model '{name}' aggregates no neighbours and has no layers, got layers: {choice.layers}")
    if choice.layers not in DEPTHS:
        raise UserError(f"model '{name}' has {' or '.join(map(str, DEPTHS))} layers, got layers: {choice.layers}")
    edge = edge if parts.edges else 0
    features = features if parts.memory else features or choice.inputs or 1
    mail = 0
    if parts.memory:
        mail = (2 * hidden if name == "tgn" else hidden) + edge
    shape = StreamShape(
        name,
        parts.spatial,
        parts.temporal,
        0 if parts.spatial == "none" else choice.layers,
        hidden if parts.memory else features,
        hidden,
        outputs,
        0,
        choice.heads if attends else 1,
        edge=edge,
        time=choice.time if parts.clock else 0,
        clock=choice.clock,
        memory=hidden if parts.memory else 0,
        mail=mail,
        mails=choice.mails if name == "apan" else int(parts.memory),
        windows=windows if name == "dysat" else 1,
        neighbours=name == "apan",
        features=features,
        dropout=choice.dropout,
    )
    return replace(shape, parameters=_parameters(shape))


def _parameters(shape: StreamShape) -> int:
    """As many as the module has: see `real_exec.streams.models`."""
    hidden, time, mail = shape.hidden, shape.time, shape.mail
    square = hidden * hidden
    count = 2 * square + 2 * hidden + 1 + 2 * time  # scores of links, the clock
    if shape.outputs:
        count += square + hidden + (hidden + 1) * shape.outputs
    if shape.memory and shape.features:
        count += (shape.features + 1) * hidden
    for layer in range(shape.layers):
        width = shape.width(layer)
        if shape.spatial == "gat":
            count += (width + 2) * hidden
        else:
            count += (3 * width + 2 * shape.slot + 3 * time) * hidden + (hidden + width + 1) * hidden + square + hidden
    if shape.name == "tgn":
        count += 3 * hidden * (mail + time + hidden + 2)
    elif shape.name == "jodie":
        count += 2 * hidden * (mail + 1 + hidden + 1) + hidden
    elif shape.name == "apan":
        count += square + 2 * mail * hidden + shape.mails * mail + 2 * hidden + 2 * (square + hidden)
    elif shape.name == "dysat":
        count += shape.windows * hidden + 4 * square + hidden
    return count

"""StreamShape: the sizes of a model of event streams."""

from __future__ import annotations

from dataclasses import dataclass

from chronoscale.errors import UserError
from chronoscale.strategies.workload import ModelShape


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

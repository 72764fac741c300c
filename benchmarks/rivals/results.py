"""What training a rival came to."""

from __future__ import annotations

from dataclasses import dataclass

from rivals.protocol import Figures


@dataclass(frozen=True, slots=True)
class Epoch:
    """Seconds of training and of validation, each alone; `parts`: where those of training went. loss: mean of training's batches."""

    loss: float
    training: float
    validation: float
    validation_ap: float
    parts: dict[str, float]


@dataclass(frozen=True, slots=True)
class Trained:
    """`best`: the number of the epoch, from 0, that was tested. new: the figures of the test events that have a node never trained on."""

    epochs: list[Epoch]
    best: int
    test: Figures
    new: Figures
    testing: float

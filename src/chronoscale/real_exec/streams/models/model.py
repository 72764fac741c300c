"""Models of event streams by their shape: a module with parameters from a seed."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch

from chronoscale.errors import unknown
from chronoscale.real_exec.streams.models.apan import APAN
from chronoscale.real_exec.streams.models.base import StreamModel
from chronoscale.real_exec.streams.models.dysat import DySAT
from chronoscale.real_exec.streams.models.jodie import JODIE
from chronoscale.real_exec.streams.models.tgat import TGAT
from chronoscale.real_exec.streams.models.tgn import TGN
from chronoscale.strategies.streams.models import StreamShape

__all__ = ["StreamModel", "stream_model"]

MODELS: Mapping[str, Callable[[StreamShape, float], StreamModel]] = {
    "tgn": TGN,
    "tgat": TGAT,
    "dysat": DySAT,
    "jodie": JODIE,
    "apan": APAN,
}


def stream_model(shape: StreamShape, seed: int, dropout: float = 0.0) -> StreamModel:
    """Build the untrained model of event streams that `shape` names (`tgn`, `jodie`, …). Parameters depend only on the shape and the seed.

    dropout: of attention's weights, in training. Raises UserError for an unknown name.
    """
    if shape.name not in MODELS:
        raise unknown("model of event streams", shape.name, MODELS)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return MODELS[shape.name](shape, dropout)

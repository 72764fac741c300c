"""Models of event streams by their shape: a module with parameters from a seed."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch

from chronoscale.errors import unknown
from chronoscale.real_exec.streams.models.apan import APAN
from chronoscale.real_exec.streams.models.base import StreamModel
from chronoscale.real_exec.streams.models.dygformer import DyGFormer
from chronoscale.real_exec.streams.models.dysat import DySAT
from chronoscale.real_exec.streams.models.graphmixer import GraphMixer
from chronoscale.real_exec.streams.models.jodie import JODIE
from chronoscale.real_exec.streams.models.own import OwnModel
from chronoscale.real_exec.streams.models.tgat import TGAT
from chronoscale.real_exec.streams.models.tgn import TGN
from chronoscale.strategies.plugins import names_file
from chronoscale.strategies.streams.models import StreamShape

__all__ = ["StreamModel", "stream_model"]

MODELS: Mapping[str, Callable[[StreamShape, float], StreamModel]] = {
    "tgn": TGN,
    "tgat": TGAT,
    "dysat": DySAT,
    "jodie": JODIE,
    "apan": APAN,
    "graphmixer": GraphMixer,
    "dygformer": DyGFormer,
}


def stream_model(shape: StreamShape, seed: int, dropout: float = 0.0) -> StreamModel:
    """Build the untrained model of event streams that `shape` names (`tgn`, `jodie`, `my_model.py:Mine`, …). Parameters depend only on the
    shape and the seed.

    dropout: of attention's weights, and of a perceptron's values, in training. Raises UserError for an unknown name, and as `OwnModel`.
    """
    if not names_file(shape.name) and shape.name not in MODELS:
        raise unknown("model of event streams", shape.name, MODELS)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return OwnModel(shape) if names_file(shape.name) else MODELS[shape.name](shape, dropout)

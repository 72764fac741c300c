"""Device: the GPU that parts ask for, or the CPU of a rehearsal."""

from __future__ import annotations

import torch

from chronoscale.cuda_ext.native.backend import backends
from gpu.place import Place
from gpu.record import Failed, NoDevice


def present(place: Place) -> None:
    """Raises NoDevice where a GPU is wanted and torch finds none, Failed where the kernels for the device are not loaded: no part runs on
    anything else in their place."""
    if not place.rehearsal and not torch.cuda.is_available():
        raise NoDevice("torch.cuda.is_available() is false")
    if place.device not in backends():
        raise Failed(f"backend '{place.device}' is not available, only {', '.join(backends())}: the part build says why")

"""Notes: what iterations leave on the device until their pass has ended."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor


class Note(NamedTuple):
    """Float32 tensors of one iteration; `rate`: the learning rate of its step, where it is one's."""

    iteration: int
    values: tuple[Tensor, ...]
    rate: float = float("nan")

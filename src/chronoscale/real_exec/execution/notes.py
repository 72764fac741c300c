"""Notes: what iterations leave on the device until their pass has ended."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor


class Note(NamedTuple):
    """A number of an iteration, float32, no dimensions."""

    iteration: int
    value: Tensor

"""Softmax over slots."""

from __future__ import annotations

import torch
from torch import Tensor


def shares(scores: Tensor, there: Tensor) -> Tensor:
    """Softmax over the slots that are there: scores [T, heads, K], there bool [T, K] to weights of the scores' shape, 0 where none is.

    A target without any slot has zeros.
    """
    empty = ~there[:, None]
    return scores.masked_fill(empty, torch.finfo(scores.dtype).min).softmax(-1).masked_fill(empty, 0)

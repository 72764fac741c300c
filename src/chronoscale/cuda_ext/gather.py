"""Gathering rows from two tables."""

from __future__ import annotations

from torch import Tensor


def gather_rows(cached: Tensor, sent: Tensor, index: Tensor) -> Tensor:
    """out[i] = cached[index[i]] where index[i] < len(cached), else sent[index[i] - len(cached)]: [n, D]."""
    if not len(cached):
        return sent.index_select(0, index)
    out, here = cached.new_empty(len(index), cached.shape[1]), index < len(cached)
    out[here] = cached.index_select(0, index[here])
    out[~here] = sent.index_select(0, index[~here] - len(cached))
    return out

"""Distributed-index-batching: every rank has the series and draws its share of a global shuffle by itself (PGT-I §4.2)."""

from __future__ import annotations

from chronoscale.strategies.pgt_index.gpu_index import GpuIndex


class DistIndex(GpuIndex):
    """GPU-index-batching on every rank; only gradients and errors are exchanged."""

    name = "dist-index"
    title = "Distributed-index-batching"
    source = "PGT-I §4.2"

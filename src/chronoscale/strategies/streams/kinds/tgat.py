"""TGAT: attention over neighbours and the time since their events."""

from __future__ import annotations

from chronoscale.strategies.streams.kinds.base import StreamKind


class TGAT(StreamKind):
    """Nothing carries the past but what is sampled."""

    name = "tgat"
    source = "Xu et al.; ICLR 2020"
    spatial = "attention"
    clock = True
    edges = True

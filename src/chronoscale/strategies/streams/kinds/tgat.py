"""TGAT: attention over neighbours and the time since their events."""

from __future__ import annotations

from chronoscale.strategies.streams.kinds.base import StreamKind


class TGAT(StreamKind):
    """TGAT, as planners count it: attention over sampled neighbours and the time since their events, without a memory."""

    name = "tgat"
    source = "Xu et al.; ICLR 2020"
    spatial = "attention"
    clock = True
    edges = True

"""Strategies whose node memory is spread over ranks, and settings of the shared part of it, for tests of them."""

from __future__ import annotations

from chronoscale.strategies.registry import of
from chronoscale.strategies.streams.spread.strategy import SpreadStrategy
from chronoscale.strategies.workload import EventHyper, SharingHyper

SPREAD = {name: one for name, one in of("streams").items() if isinstance(one, SpreadStrategy)}


def shared(**changes: object) -> EventHyper:
    return EventHyper(sharing=SharingHyper(**{"shared": 0.25, "theta": 0.5, **changes}))  # type: ignore[arg-type]

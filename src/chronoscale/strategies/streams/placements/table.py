"""Placements by the name that a schedule gives them."""

from __future__ import annotations

from collections.abc import Mapping

from chronoscale.batching.streams.caching.loading import CachePlacement
from chronoscale.strategies.streams.placements.even import Even
from chronoscale.strategies.streams.placements.greedy import Greedy
from chronoscale.strategies.streams.placements.nodes_first import NodesFirst
from chronoscale.strategies.streams.placements.retained import Retained

PLACEMENTS: Mapping[str, CachePlacement] = {one.name: one for one in (NodesFirst(), Retained(), Greedy(), Even())}

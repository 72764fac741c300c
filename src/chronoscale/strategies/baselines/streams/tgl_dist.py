"""TGL-dist: TGL on several machines, whose rows of memory and features are cut into parts."""

from __future__ import annotations

from chronoscale.strategies.streams.sharing import Sharing
from chronoscale.strategies.streams.spread_strategy import SpreadStrategy

TGL_DIST = SpreadStrategy("tgl-dist", "TGL on parts: remote rows are fetched, and written back", "MemShare §5.1", Sharing())

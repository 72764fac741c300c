"""Registry: strategies by name; those of this package, of installed packages, and of files."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from importlib import metadata

from chronoscale.errors import ChronoscaleWarning, UserError, unknown
from chronoscale.strategies.baselines.signals import DDP, DDP_BATCH, PGT
from chronoscale.strategies.baselines.snapshots.dgc import DGC
from chronoscale.strategies.baselines.snapshots.distdgl import DistDGL
from chronoscale.strategies.baselines.snapshots.dynagraph import DynaGraph
from chronoscale.strategies.baselines.snapshots.dynahb import DynaHB
from chronoscale.strategies.baselines.snapshots.esdg import ESDG
from chronoscale.strategies.baselines.snapshots.whole_groups import BLAD, PSG
from chronoscale.strategies.baselines.streams import (
    DISTTGL,
    ETC,
    MSPIPE,
    SEQUENTIAL,
    SIMPLE,
    TASER,
    TGL,
    TGL_DIST,
    TGL_DIST_CACHED,
    TGL_UNIQUE,
)
from chronoscale.strategies.fast.fast import CACHED, COMPRESSED, EVEN, FAST, FAST_MERGED, NONE, PUBLISHED, SC, SC_TE, SC_TE_TA
from chronoscale.strategies.flaredtdg.strategy import FLAREDTDG, FULL_HISTORY, IN_ORDER, RECENT_ONLY, RECENT_STATES, REMAPPED, ROUND_ROBIN
from chronoscale.strategies.memshare.memshare import (
    DECAY,
    HISTORY,
    LOCAL,
    MEMSHARE,
    MEMSHARE_CACHED,
    MEMSHARE_REPLICAS,
    MEMSHARE_STALE,
    NEGATIVES,
    NEVER,
    RECENT,
    SHARED,
    UPDATED,
)
from chronoscale.strategies.pgt_index.index_batching import DIST_INDEX, GEN_DIST_INDEX, GPU_INDEX, INDEX
from chronoscale.strategies.plugins import load_entry_point, load_file, names_file
from chronoscale.strategies.real.greedy import REAL_G
from chronoscale.strategies.real.greedy_plus import REAL_G_PLUS, REAL_G_PLUS_OWN
from chronoscale.strategies.real.ilp import REAL_L
from chronoscale.strategies.real.reuse import REAL_REUSE, REAL_TYPE1
from chronoscale.strategies.strategy import Strategy

GROUP = "chronoscale.strategies"  # of entry points: strategies of installed packages, by name
_OURS: tuple[Strategy, ...] = (
    PSG, ESDG(), DistDGL(), BLAD, DGC(), DynaHB(), REAL_TYPE1, REAL_REUSE, REAL_G, REAL_G_PLUS, REAL_G_PLUS_OWN, REAL_L,
    FLAREDTDG, ROUND_ROBIN, IN_ORDER, REMAPPED, FULL_HISTORY, RECENT_ONLY, RECENT_STATES, DynaGraph(),
    PGT, DDP, DDP_BATCH, INDEX, GPU_INDEX, DIST_INDEX, GEN_DIST_INDEX,
    SEQUENTIAL, TGL, TGL_UNIQUE, ETC, TASER, SIMPLE, FAST, FAST_MERGED, PUBLISHED, COMPRESSED, CACHED, EVEN,
    NONE, SC, SC_TE, SC_TE_TA,
    TGL_DIST, TGL_DIST_CACHED, MSPIPE, DISTTGL, MEMSHARE, MEMSHARE_CACHED, MEMSHARE_STALE, MEMSHARE_REPLICAS,
    SHARED, HISTORY, DECAY, NEGATIVES, RECENT, LOCAL, UPDATED, NEVER,
)  # fmt: skip
STRATEGIES: dict[str, Strategy] = {strategy.name: strategy for strategy in _OURS}


def strategy(name: str, near: Iterable[str] = ()) -> Strategy:
    """Return the strategy (planner) that an experiment or command names: this package's, an installed package's, or a file's, as
    `my_lab.py:Mine`.

    near: names among which the nearest is suggested for an unknown one; default: all of them. Raises UserError for an unknown name, and for
    a strategy that does not load.
    """
    if names_file(name):
        return load_file(name, STRATEGIES)
    if name in STRATEGIES:
        return STRATEGIES[name]
    installed = {entry.name: entry for entry in metadata.entry_points(group=GROUP)}
    if name not in installed:
        raise unknown("strategy", name, [*(near or STRATEGIES), *installed])
    return load_entry_point(installed[name])


def installed_strategies() -> Mapping[str, Strategy]:
    """Return all strategies by name, this package's first, then those of installed packages; warn of those that do not load, and leave them
    out."""
    planners = dict(STRATEGIES)
    for entry in metadata.entry_points(group=GROUP):
        try:
            if entry.name in STRATEGIES:
                raise UserError(f"strategy '{entry.name}' ({entry.value}): the name is taken")
            planners[entry.name] = load_entry_point(entry)
        except UserError as error:
            warnings.warn(f"left out: {error}", ChronoscaleWarning, stacklevel=2)
    return planners


def versions(names: Iterable[str]) -> dict[str, str]:
    """Return "strategy NAME" -> "PACKAGE VERSION" for those of the named strategies that come from other installed packages, for a run's
    record of its software."""
    entries = {entry.name: entry for entry in metadata.entry_points(group=GROUP)}
    installed = {name: entries[name] for name in names if name in entries and name not in STRATEGIES}
    return {
        f"strategy {name}": f"{point.dist.name} {point.dist.version}" if point.dist else point.value for name, point in installed.items()
    }


def of(family: str) -> dict[str, Strategy]:
    """Return this package's strategies for one family of dynamic graphs ("snapshots", "signals" or "streams"), by name."""
    return {name: planner for name, planner in STRATEGIES.items() if planner.family == family}


def executable(name: str) -> Strategy:
    """Return the strategy of that name, for commands that execute it on ranks. Raises UserError for an unknown name, and for one that can
    only be simulated."""
    planner = strategy(name)
    if not planner.executes:
        raise UserError(f"strategy '{planner.name}' is simulated only: leave it out, or use `chronoscale simulate`")
    return planner

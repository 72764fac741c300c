"""Registry: strategies by name."""

from __future__ import annotations

from chronoscale.errors import UserError, unknown
from chronoscale.strategies.baselines.signals.ddp import DDP, DDP_BATCH
from chronoscale.strategies.baselines.signals.pgt import PGT
from chronoscale.strategies.baselines.snapshots.blad import BLAD
from chronoscale.strategies.baselines.snapshots.dgc import DGC
from chronoscale.strategies.baselines.snapshots.distdgl import DistDGL
from chronoscale.strategies.baselines.snapshots.dynahb import DynaHB
from chronoscale.strategies.baselines.snapshots.esdg import ESDG
from chronoscale.strategies.baselines.snapshots.psg import PSG
from chronoscale.strategies.pgt_index.dist_index import DIST_INDEX
from chronoscale.strategies.pgt_index.gen_dist_index import GEN_DIST_INDEX
from chronoscale.strategies.pgt_index.gpu_index import GPU_INDEX
from chronoscale.strategies.pgt_index.index import INDEX
from chronoscale.strategies.real.greedy import RealG
from chronoscale.strategies.real.greedy_plus import RealGPlus
from chronoscale.strategies.real.ilp import RealL
from chronoscale.strategies.real.reuse import RealReuse, RealType1
from chronoscale.strategies.signals.strategy import SignalStrategy
from chronoscale.strategies.strategy import Strategy
from chronoscale.strategies.workload import Family

ALL: tuple[Strategy, ...] = (
    PSG(), ESDG(), DistDGL(), BLAD(), DGC(), DynaHB(), RealType1(), RealReuse(), RealG(), RealGPlus(), RealL(),
)  # fmt: skip
SIGNALS: tuple[SignalStrategy, ...] = (PGT, DDP, DDP_BATCH, INDEX, GPU_INDEX, DIST_INDEX, GEN_DIST_INDEX)
EVERY: tuple[Strategy, ...] = (*ALL, *SIGNALS)
STRATEGIES: dict[str, Strategy] = {strategy.name: strategy for strategy in EVERY}
PARTITIONED = frozenset({DistDGL.name})  # plan with `Workload.partition`
SPREAD = frozenset({ESDG.name, DistDGL.name})  # schedules of kind "snapshots" or "parts": a group's work is on all ranks
SIMULATED_ONLY = frozenset({DGC.name, DynaHB.name})  # planned from a model of their partition: nothing that ranks could execute


def strategy(name: str) -> Strategy:
    """The strategy of that name. Raises UserError with the nearest valid name."""
    if name not in STRATEGIES:
        raise unknown("strategy", name, STRATEGIES)
    return STRATEGIES[name]


def of(family: Family) -> dict[str, Strategy]:
    """Strategies for one kind of dynamic graph, by name."""
    return {name: planner for name, planner in STRATEGIES.items() if planner.family is family}


def signal_strategy(name: str) -> SignalStrategy:
    """The strategy on signals of that name. Raises UserError with the nearest valid name."""
    for found in SIGNALS:
        if found.name == name:
            return found
    raise unknown("strategy on signals", name, [one.name for one in SIGNALS])


def executable(name: str) -> Strategy:
    """The strategy of that name, to be run for real. Raises UserError for one that can only be simulated."""
    if name in SIMULATED_ONLY:
        raise UserError(f"strategy '{name}' is simulated only (its partition is modelled): leave it out, or use `chronoscale simulate`")
    return strategy(name)


def staged(name: str) -> Strategy:
    """The strategy of that name, to train in stages. Raises UserError as `executable`, and for one that spreads groups over ranks."""
    if name in SPREAD:
        raise UserError(f"strategy '{name}' spreads groups over ranks, `chronoscale train` keeps each on one: use `chronoscale bench`")
    return executable(name)

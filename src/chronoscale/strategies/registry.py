"""Registry: strategies by name."""

from __future__ import annotations

from chronoscale.errors import unknown
from chronoscale.strategies.baselines.dtdg.blad import BLAD
from chronoscale.strategies.baselines.dtdg.distdgl import DistDGL
from chronoscale.strategies.baselines.dtdg.esdg import ESDG
from chronoscale.strategies.baselines.dtdg.psg import PSG
from chronoscale.strategies.real.greedy import RealG
from chronoscale.strategies.real.greedy_plus import RealGPlus
from chronoscale.strategies.real.ilp import RealL
from chronoscale.strategies.real.reuse import RealReuse, RealType1
from chronoscale.strategies.strategy import Strategy

ALL: tuple[Strategy, ...] = (PSG(), ESDG(), DistDGL(), BLAD(), RealType1(), RealReuse(), RealG(), RealGPlus(), RealL())
STRATEGIES: dict[str, Strategy] = {strategy.name: strategy for strategy in ALL}
PARTITIONED = frozenset({"distdgl"})  # plan with `Workload.partition`


def strategy(name: str) -> Strategy:
    """The strategy of that name. Raises UserError with the nearest valid name."""
    if name not in STRATEGIES:
        raise unknown("strategy", name, STRATEGIES)
    return STRATEGIES[name]

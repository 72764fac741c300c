"""Registry: strategies by name."""

from __future__ import annotations

from chronoscale.errors import unknown
from chronoscale.strategies.baselines.dtdg.distdgl import DistDGL
from chronoscale.strategies.baselines.dtdg.esdg import ESDG
from chronoscale.strategies.baselines.dtdg.psg import PSG
from chronoscale.strategies.real.greedy import RealG
from chronoscale.strategies.real.reuse import RealReuse, RealType1
from chronoscale.strategies.strategy import Strategy

STRATEGIES: dict[str, Strategy] = {strategy.name: strategy for strategy in (PSG(), ESDG(), DistDGL(), RealType1(), RealReuse(), RealG())}
PARTITIONED = frozenset({"distdgl"})  # plan with `Workload.partition`


def strategy(name: str) -> Strategy:
    """The strategy of that name. Raises UserError with the nearest valid name."""
    if name not in STRATEGIES:
        raise unknown("strategy", name, STRATEGIES)
    return STRATEGIES[name]

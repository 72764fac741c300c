"""Many draws of what is uncertain cost seconds of one processor, on schedules of a 10,000-snapshot workload.

Draws are timed whole: durations, network, launches, factors, replays; planning is not. `effects` tries every assumption. `mean, ms`: of the
300 epochs drawn.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial

from core.case import Case, Passes, Setting, Subject
from core.turns import in_turns
from setups.dygraph import workload

from chronoscale.simulator import presets
from chronoscale.simulator.uncertainty.assumptions import effects
from chronoscale.simulator.uncertainty.draws import epoch_spans
from chronoscale.simulator.uncertainty.spec import CERTAIN, Stragglers, Uncertainty
from chronoscale.strategies.costs import DatasheetCosts
from chronoscale.strategies.snapshots.groups import deal
from chronoscale.strategies.snapshots.lowering import Reuse, lower

UNCERTAIN = {"jitter": Uncertainty(0.05), "jitter, sway, a straggling node": Uncertainty(0.05, 0.05, Stragglers(1, "node"))}


def measure(snapshots: int, ranks: int, draws: int, name: str, each: int, reuse: Reuse, setting: Setting) -> Passes:
    """Time draws and trying assumptions by processor time."""
    cluster, work = presets.scaled(presets.cluster("h200"), ranks), workload(snapshots)
    costs = DatasheetCosts(cluster.device)
    schedule = lower(name, work, deal(work.groups, ranks, each), reuse, costs)

    def draw(uncertainty: Uncertainty) -> dict[str, float]:
        start = time.process_time()
        spans = epoch_spans(schedule, cluster, costs, uncertainty, draws, seed=0)
        return {"seconds": time.process_time() - start, "mean, ms": float(spans.mean()) / 1e6}

    def assume() -> dict[str, float]:
        start = time.process_time()
        assumptions = len(effects(schedule, cluster, costs, CERTAIN, 0))
        return {"seconds": time.process_time() - start, "assumptions": assumptions}

    ways: dict[str, Callable[[], dict[str, float]]] = {who: partial(draw, uncertainty) for who, uncertainty in UNCERTAIN.items()}
    return in_turns({**ways, "effects": assume}, setting.repeats)


def cases(quick: bool) -> Iterator[Case]:
    """Yield two schedules."""
    snapshots, ranks, draws = (16, 4, 3) if quick else (10_000, 1024, 300)
    for name, each, reuse in (("psg", 1, Reuse()), ("real-reuse", 2, Reuse(snapshots=True, groups=True))):
        parameters = {"strategy": name, "gpus": ranks, "draws": draws}
        yield Case(parameters, partial(measure, snapshots, ranks, draws, name, each, reuse))


SUBJECT = Subject(cases, 1)

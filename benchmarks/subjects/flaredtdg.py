"""FlareDTDG's epochs take less time and memory than full history's and its own ablations'.

`times`: one job, passes of all strategies in turn; every pass is an epoch with an order of chunks of its own, the same for all. `peak`:
the planned peak of a rank's memory (held to what torch allocates by the subject `memory`); `communicates alone`: how long a rank
communicates while it computes nothing (Table 11), the mean of ranks. What they learn: `chronoscale compare`.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, partial
from itertools import product
from typing import Any

from core.case import Case, Passes, Setting, Subject
from setups import jobs
from setups.data import stored

from chronoscale.real_exec.execution.interpreter import Pass
from chronoscale.simulator import presets
from chronoscale.simulator.engine import replay
from chronoscale.simulator.memory import peaks
from chronoscale.strategies.cluster import Link
from chronoscale.strategies.costs import DatasheetCosts
from chronoscale.strategies.evaluation.metrics import exposed_communication_ns
from chronoscale.strategies.schedule import Schedule

TIMED = ("full-history", "flaredtdg", "flaredtdg-remap", "flaredtdg-no-overlap", "flaredtdg-turns", "recent-only")
TRAINING = {
    **{"task": "degrees", "validation": 0.1, "test": 0.2, "learning_rate": 0.003, "scale_learning_rate": False},
    **{"full": 2, "decayed": 6, "alpha": 0.05, "chunks": 64, "group_size": 8},
}


def settings(data: str, kind: str, layers: int, hidden: int, ranks: int, strategies: tuple[str, ...]) -> dict[str, Any]:
    """Return the experiment on a data set."""
    model = {"name": kind, "hidden": hidden, "layers": layers}
    return {"dataset": data, "model": model, "training": TRAINING, "strategies": [*strategies], "ranks": [ranks]}


def times(data: str, kind: str, layers: int, hidden: int, ranks: int, setting: Setting) -> Passes:
    """Time epochs, and add planned peaks and what communication takes alone."""
    machine = presets.local_cpu(ranks, 1e12, Link(1e9, 1e-4))
    costs = DatasheetCosts(machine.device)

    @cache
    def peak(plan: Schedule) -> float:
        return float(peaks(plan, replay(plan, machine, costs)).max()) / 1e6

    def figures(plan: Schedule, one: Pass) -> dict[str, float]:
        exposed_ms = float(exposed_communication_ns(one.trace).mean()) / 1e6
        return {"peak, MB": peak(plan), "windows": plan.iterations, "communicates alone, ms": exposed_ms}

    named = {"path": str(stored(data, setting.scratch))} if data.startswith("growth-") else data
    return jobs.epochs({**settings(data, kind, layers, hidden, ranks, TIMED), "dataset": named}, setting, figures)


def cases(quick: bool) -> Iterator[Case]:
    """Yield data sets and models, 64 wide."""
    if quick:
        yield Case({"what": "times", "data": "growth-80", "model": "t-gcn"}, partial(times, "growth-80", "t-gcn", 1, 4, 1))
        return
    for data, (kind, layers) in product(("math_overflow_monthly", "enron_monthly"), (("t-gcn", 1), ("t-gcn", 2), ("mpnn-lstm", 2))):
        parameters = {"data": data, "model": kind, "layers": layers}
        yield Case({"what": "times", **parameters, "hidden": 64}, partial(times, data, kind, layers, 64, 2))


SUBJECT = Subject(cases, 5)

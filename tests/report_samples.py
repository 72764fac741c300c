"""Reports for tests, from schedules replayed one row after the other: durations of a datasheet, a collective takes 1 µs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from chronoscale.datasets.generate.dygraph import EvolvingGraph
from chronoscale.reports.report import Report
from chronoscale.reports.setting import Kind, Setting
from chronoscale.reports.strategy_result import Prediction, StrategyResult
from chronoscale.strategies.baselines.snapshots.whole_groups import PSG
from chronoscale.strategies.cluster import Device, Link
from chronoscale.strategies.costs import DatasheetCosts, durations
from chronoscale.strategies.evaluation.fidelity import coverage, fidelity
from chronoscale.strategies.evaluation.metrics import Summary
from chronoscale.strategies.real.reuse import REAL_REUSE
from chronoscale.strategies.schedule import Schedule
from chronoscale.strategies.trace import Source, Trace
from chronoscale.strategies.workload import Hyper, ModelShape, Workload

COSTS = DatasheetCosts(Device("H200", 141e9, 67e12, 4.8e12, Link(55e9, 5e-6), 4e-6))
MODEL = ModelShape("wd-gcn", "gcn", "lstm", layers=2, inputs=16, hidden=16, outputs=1, parameters=5000)
WORKLOAD = Workload("tiny", EvolvingGraph(200, 600, snapshots=24).statistics(), MODEL, Hyper(group_size=3))
STRATEGIES = (PSG, REAL_REUSE)


def replay(schedule: Schedule) -> Trace:
    ns, source = durations(COSTS, schedule)
    start, end = np.zeros(len(schedule), np.int64), np.zeros(len(schedule), np.int64)
    free: dict[tuple[int, int], int] = {}
    for task in range(len(schedule)):
        lane = (int(schedule.rank[task]), int(schedule.lane[task]))
        start[task] = max([free.get(lane, 0), *end[schedule.dependencies(task)]])
        joined = schedule.collective[task]
        if joined >= 0:  # its rows stand together in row order: the last one meets all others
            together = np.flatnonzero(schedule.collective[: task + 1] == joined)
            start[together] = start[together].max()
            end[together] = start[together] + 1000
            source[together] = Source.SPECIFIED
            free |= {(int(schedule.rank[row]), int(schedule.lane[row])): int(end[row]) for row in together}
        else:
            end[task] = free[lane] = start[task] + ns[task]
    return Trace.of(schedule, start, end, source, f"simulated h200 ({schedule.ranks} of 8 x H200), costs {COSTS.name}")


def repeats(trace: Trace, factors: tuple[float, ...], device: str = "A100") -> list[Trace]:
    """Executions of the same schedule, each so many times as long."""
    measured = np.full_like(trace.source, Source.MEASURED)
    scaled = [((trace.start_ns * f).astype(np.int64), (trace.end_ns * f).astype(np.int64)) for f in factors]
    return [replace(trace, start_ns=start, end_ns=end, source=measured, device=device) for start, end in scaled]


def summary(
    strategy: str, ranks: int, epoch_s: float, spread_s: float = 0.0, n: int = 1, imbalance: float = 1.0, source: str = "fitted"
) -> Summary:
    return Summary(strategy, ranks, epoch_s, spread_s, n, imbalance, 0.9, 1000, 0.01, source, "H200")


def setting(kind: Kind, device: str = "", **work: str) -> Setting:
    """Of one device and what is trained there."""
    return Setting(kind, tuple(work.items()), (("device", device),) if device else ())


def point(kind: Kind, *args: object, machine: str = "", run: str = "", failed: str = "", work: str = "", **more: object) -> StrategyResult:
    """A run of which only the summary matters; `work`: the name of its dataset."""
    result = summary(*args, **more)  # type: ignore[arg-type]
    where = setting(kind, machine, **({"dataset": work} if work else {}))
    return StrategyResult(where, result, OPS.copy(), run=run, failed=failed, mathematics="one")


SCHEDULES = {(strategy.name, ranks): strategy.plan(WORKLOAD, ranks, COSTS) for strategy in STRATEGIES for ranks in (1, 2)}
TRACES = {key: replay(schedule) for key, schedule in SCHEDULES.items()}
OPS = StrategyResult.of(Setting("simulated"), [TRACES["psg", 1]]).op_seconds
FACTORS = (1.0, 1.02, 1.1, 0.99, 1.01)


def mixed() -> Report:
    """Both strategies on 1 and 2 ranks, said to train alike, replayed and 'executed', with everything that a report can carry."""
    runs: list[StrategyResult] = []
    for key, trace in TRACES.items():
        executed = repeats(trace, FACTORS)
        result = replace(StrategyResult.of(Setting("executed"), executed), losses=(1.0, 0.6, 0.5), mathematics="one")
        joined = fidelity(trace, executed, SCHEDULES[key].iteration)
        predicted = Prediction(joined, COSTS.name, "specified", coverage(trace, executed))
        runs += [replace(result, prediction=predicted)]
        runs += [replace(StrategyResult.of(Setting("simulated"), [trace], SCHEDULES[key] if key[1] == 2 else None), mathematics="one")]
    return Report("A run", "of two strategies", tuple(runs), ("Run incomplete.",), {"run": {"gpu": "A100", "torch": "2.8"}})


def executed_only() -> Report:
    results = [StrategyResult.of(Setting("executed"), repeats(trace, FACTORS)) for trace in TRACES.values()]
    runs = tuple(replace(result, mathematics="one") for result in results)
    return Report("Executed", runs=runs)

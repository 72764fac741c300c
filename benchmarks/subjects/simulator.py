"""A plan becomes a trace within seconds, for an epoch of 10,000 snapshots on up to 4,096 GPUs (REAL §7.5).

`whole` is `engine.replay` with contention, `uncontended` without: durations, network, launches, the native engine, the trace. Further
contestants are its steps. Rival: SimPy, which replays up to 500,000 tasks, none of which share. 33 times the snapshots on 1,024 GPUs are
more than 10^7 tasks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import product

import numpy as np
from core.case import Case, Passes, Setting, Subject
from core.turns import Call, in_turns, seconds_of
from setups.dygraph import workload

from chronoscale.simulator import presets
from chronoscale.simulator.engine import replay, replay_times
from chronoscale.simulator.launches import Launches
from chronoscale.simulator.network import collective_times
from chronoscale.simulator.network.traffic import LinkTraffic
from chronoscale.simulator.sharing.contention import contended_shares
from chronoscale.strategies.costs import DatasheetCosts, durations
from chronoscale.strategies.registry import strategy

SIMPY_TASKS = 500_000


def measure(name: str, gpus: int, snapshots: int, often: int, setting: Setting) -> Passes:
    """Time the steps, each with what the others have made."""
    work, cluster = workload(snapshots, often), presets.scaled(presets.cluster("h200"), gpus)
    costs = DatasheetCosts(cluster.device)
    schedule = strategy(name).plan(work, gpus, costs)
    ns, _ = durations(costs, schedule)
    rows, joined = collective_times.times(schedule, cluster)
    ns[rows] = joined
    launches = Launches.of(schedule, ns, costs.launch_ns)
    crossed = LinkTraffic.of(schedule, cluster, collective_times.TimedCollectives.of(schedule, cluster))
    shares = contended_shares(schedule, cluster, costs, ns, crossed)
    steps: dict[str, Call] = {
        "whole": lambda: replay(schedule, cluster, costs),
        "uncontended": lambda: replay(schedule, replace(cluster, contention=False), costs),
        "plan": lambda: strategy(name).plan(work, gpus, costs),
        "durations": lambda: durations(costs, schedule),
        "network": lambda: collective_times.times(schedule, cluster),
        "launches": lambda: Launches.of(schedule, ns, costs.launch_ns),
        "native": lambda: replay_times(schedule, cluster.device, ns, launches, None),
        "traffic": lambda: LinkTraffic.of(schedule, cluster, collective_times.TimedCollectives.of(schedule, cluster)),
        "shares": lambda: contended_shares(schedule, cluster, costs, ns, crossed),
        "shared": lambda: replay_times(schedule, cluster.device, ns, launches, shares),
    }
    if len(schedule) <= SIMPY_TASKS:
        steps["SimPy"] = lambda: replay_times(schedule, cluster.device, ns, launches, None, "simpy")
        native, simpy = steps["native"](), steps["SimPy"]()
        assert all(map(np.array_equal, native, simpy)), "engines disagree"  # type: ignore[call-overload]
    spent = in_turns({who: partial(seconds_of, call) for who, call in steps.items()}, setting.repeats)
    return {who: [{"seconds": one, "10⁶ tasks/s": len(schedule) / one / 1e6} for one in several] for who, several in spent.items()}


def cases(quick: bool) -> Iterator[Case]:
    """Yield strategies by GPUs."""
    for gpus, name in product((4,) if quick else (4, 16, 64, 256, 1024, 4096), ("psg", "blad", "real-g+")):
        yield Case({"strategy": name, "gpus": gpus}, partial(measure, name, gpus, 10 if quick else 10_000, 1))
    if not quick:
        yield Case({"strategy": "psg", "gpus": 1024, "times": 33}, partial(measure, "psg", 1024, 10_000, 33))


SUBJECT = Subject(cases, 5, ("simpy",))

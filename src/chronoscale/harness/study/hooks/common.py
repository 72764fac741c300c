"""Common: what studies of several papers say of their points: refusals, lack of memory, and where no solver ran."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from chronoscale.harness.study.findings import row
from chronoscale.harness.study.point import Points, Record
from chronoscale.harness.study.testbeds.experiments import workload_of
from chronoscale.reports.published import Range
from chronoscale.simulator import presets
from chronoscale.strategies.real.ilp import GAP, UNNEEDED
from chronoscale.strategies.registry import STRATEGIES

ABSENT = "no point of the grid was reached by both"


def experiment_groups(keys: Mapping[str, Any]) -> tuple[int, int]:
    """Return the groups and snapshots of an experiment's workload."""
    work = workload_of(json.dumps(keys, sort_keys=True))
    return work.groups, len(work.snapshots.edges)


def known_strategy(name: str) -> bool:
    """Say whether a strategy is among ours."""
    return name in STRATEGIES


def launch_us(cluster: str) -> float:
    """Return the microseconds of one host thread that a kernel takes to start on a preset's devices."""
    return presets.cluster(cluster).device.launch_s * 1e6


def published_maps(strategy: str) -> str:
    """Return REAL's variant of difference maps for strategies that have them, the only one for others."""
    return "as-published" if strategy.startswith("real-") else "exact"


def ratio_to(printed: Range, ours: Sequence[float]) -> float:
    """Return the ratio that a row of these has."""
    return float(str(row("", printed, ours, "")["ratio"]))


def settled(why: str, plans: Points) -> str:
    """Return a row's reason, after in how many of its plans no solver ran, so that they are REAL-G+'s."""
    idle = sum(UNNEEDED in note for note in plans.all("note"))
    return f"real-g+'s schedule in {idle} of {len(plans)}, no solver ran; {why}" if idle else why


def unsolved(plans: Sequence[Record]) -> list[str]:
    """Say why strategies that solve have another's schedule; nothing where they solved."""
    plans, said = Points(plans), []
    for name in dict.fromkeys(plans.all("strategy")):
        own = plans.where(strategy=name)
        idle = [one for one in own if UNNEEDED in one.note]
        if idle:
            gap = max(float(one.gap) for one in idle)
            said.append(
                f"{name} is real-g+'s schedule in {len(idle)} of {len(own)} plans: real-g+'s certified gap is at most {gap:.1%} there, "
                f"within the {GAP:.0%} at which the paper stops its solver, so none ran."
            )
    return said


def failures(points: Points) -> list[str]:
    """Say what was refused, and where strategies ran out of memory."""
    refused, lost = points.where(status="refused"), points.where(status="out of memory")
    said = []
    for message in sorted(set(refused.all("message"))):
        named = dict.fromkeys(refused.where(message=message).all("strategy"))
        said.append(f"Refused by {', '.join(named)}: {message}.")
    for strategy in sorted(set(lost.all("strategy"))):
        own = lost.where(strategy=strategy)
        where = dict.fromkeys(f"{p.dataset}, {p.model}, {p.layers}-layer, {p.gpus} GPUs" for p in own)
        said.append(f"{strategy} runs out of memory on {'; '.join(where)}. The first: {own[0].message}.")
    return said

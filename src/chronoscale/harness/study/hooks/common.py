"""Common: what studies of several papers say of their points: refusals and lack of memory."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from chronoscale.harness.study.findings import row
from chronoscale.harness.study.point import Points
from chronoscale.harness.study.testbeds.experiments import workload_of
from chronoscale.reports.published import Range
from chronoscale.simulator import presets
from chronoscale.strategies.registry import STRATEGIES

ABSENT = "no point of the grid was reached by both"


def experiment_groups(keys: Mapping[str, Any]) -> tuple[int, int]:
    """Return how many snapshot groups and how many snapshots an experiment's workload has, for the axes of REAL's Figure 15.

    keys: those of an experiment file. Raises UserError as `chronoscale simulate` does for such a file.
    """
    work = workload_of(json.dumps(keys, sort_keys=True))
    return work.groups, len(work.snapshots.edges)


def known_strategy(name: str) -> bool:
    """Say whether this project has a strategy of this name, for a row of REAL's Table 1."""
    return name in STRATEGIES


def launch_us(cluster: str) -> float:
    """Return the microseconds a kernel's start takes one host thread on a cluster preset's devices, for notes of studies.

    cluster: name of a preset.
    """
    return presets.cluster(cluster).device.launch_s * 1e6


def published_maps(strategy: str) -> str:
    """Return which variant of difference maps (edges that two snapshots differ in) REAL's figures show for a strategy, for its studies.

    'as-published' for those whose names begin with real-, which have maps; 'exact', the only one, for others.
    """
    return "as-published" if strategy.startswith("real-") else "exact"


def ratio_to(printed: Range, ours: Sequence[float]) -> float:
    """Return ours over the published, as a row of a study has it, for a reason in REAL's Figure 2.

    printed: the published range; ours: values of all points, of which NaN is left out.
    """
    return float(str(row("", printed, ours, "")["ratio"]))


def failures(points: Points) -> list[str]:
    """Return notes of REAL's studies on points that did not run: a line for each reason of refusals and for each strategy out of memory."""
    refused, lost = points.where(status="refused"), points.where(status="out of memory")
    sentences = []
    for message in sorted(set(refused.all("message"))):
        named = dict.fromkeys(refused.where(message=message).all("strategy"))
        sentences.append(f"Refused by {', '.join(named)}: {message}.")
    for strategy in sorted(set(lost.all("strategy"))):
        own = lost.where(strategy=strategy)
        where = dict.fromkeys(f"{p.dataset}, {p.model}, {p.layers}-layer, {p.gpus} GPUs" for p in own)
        sentences.append(f"{strategy} runs out of memory on {'; '.join(where)}. The first: {own[0].message}.")
    return sentences

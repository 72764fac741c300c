"""Footprint: what a host and a device hold in an epoch, by count (Table 6, and what Table 4 prints as out of memory)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from chronoscale.harness.study.findings import NAN, UNKNOWN, beside
from chronoscale.harness.study.hooks.fast_points import TGL, Point, planned, widths_of
from chronoscale.harness.study.hooks.fast_rates import filled
from chronoscale.reports.published import published
from chronoscale.strategies.streams.models import FP32, shape_of
from chronoscale.strategies.streams.rows.phase import state_bytes

HOST = 512e9  # bytes, §6.1
ENTRY, EVENT = 8, 16  # of a T-CSR's entry, two int32; of an event: two int32 ids and its time
SLOT = 24  # bytes of a neighbour in what TGL's sampler returns: row, column, event, node, time, elapsed time, four each


@dataclass(frozen=True, slots=True)
class Held:
    """Bytes on the host at the paper's size: features; events and T-CSR; node memory and mailbox; samples of a whole epoch, as compact as
    TGL's sampler returns them, of what keeps these."""

    features: float
    graph: float
    state: float
    samples: float

    @property
    def lasting(self) -> float:
        """Without samples."""
        return self.features + self.graph + self.state


def held(dataset: str, model: str, quick: bool) -> Held:
    """By Table 3's counts, and the stand-in's filled slots."""
    counts = widths_of(dataset)
    features = FP32 * sum(counts[f"{what}s"] * counts[f"{what}_width"] for what in ("node", "edge"))
    graph = counts["edges"] * (2 * ENTRY + EVENT) + 8 * counts["nodes"]
    state = counts["nodes"] * state_bytes(shape_of(planned(Point(dataset, model, TGL, quick))))
    return Held(features, graph, state, SLOT * filled(dataset, quick))


def refusals(quick: bool, names: Sequence[str]) -> list[dict[str, object]]:
    """What is printed as out of memory, and what ours would need: with the samples of a whole epoch, and without."""
    rows = []
    for line in published("fast").tables[4].rows:
        name, model, strategy = (str(line[key]) for key in ("dataset", "model", "strategy"))
        if line.get("oom") and name in names:
            one = held(name, model, quick)
            whole = one.lasting + one.samples
            verdict = "so would ours be" if whole > HOST else f"ours would fit: why is {UNKNOWN}"
            why = f"printed: out of memory of 512 GB; {verdict}. Ours keeps no samples and holds {one.lasting / 1e9:.0f} GB"
            rows.append(beside(f"{name}, {model}, {strategy}, GB on the host were an epoch's samples kept", NAN, whole / 1e9, why))
    return rows

"""Sizes: MemShare's data sets beside what stands for them (Table 2)."""

from __future__ import annotations

import pandas as pd

from chronoscale.harness.reproduce.memshare.stand_ins import CUT, EVENTS_APART, NAMES, QUICK, SIMULATED, TRAINED, counts, hot_share, stream
from chronoscale.harness.study.findings import Findings, Told, beside


def run(told: Told, quick: bool) -> Findings:
    """Nodes, events and events a node; the hottest tenth's ends."""
    rows, parts = [], []
    divisors = QUICK if quick else SIMULATED
    for name in NAMES:
        told(name)
        printed, made = counts(name), stream(name, divisors[name])
        why = f"divided by {divisors[name]}" if divisors[name] > 1 else "all of them"
        apart = f"; events by {EVENTS_APART} more" if name == "gdelt" else ""
        rows.append(beside(f"{name}, nodes", printed["nodes"], made.num_nodes, why))
        rows.append(beside(f"{name}, events", printed["edges"], len(made), why + apart))
        kept = "the ratio is kept" if not apart else f"{printed['edges'] // printed['nodes']:,} events a node are out of reach"
        rows.append(beside(f"{name}, events a node", printed["edges"] / printed["nodes"], len(made) / made.num_nodes, kept))
        rows.append(beside(f"{name}, ends of events at the hottest tenth", float("nan"), hot_share(made), "not printed; by the skew"))
        uses = {"simulated": SIMULATED, "cut": CUT, "executed": TRAINED, "quick": QUICK}
        parts.append({"dataset": name, **{use: divisor[name] for use, divisor in uses.items()}})
    return Findings(
        pd.DataFrame(rows),
        (),
        {"divisors": pd.DataFrame(parts)},
        (
            *(("Quick: smaller stand-ins.",) if quick else ()),
            "Features have Table 2's widths where batches are planned: 172 of nodes and events, GDELT's 413 and 186. By use stand-ins are "
            f"divided by more: simulated {list(SIMULATED.values())}, cut {list(CUT.values())}, trained {list(TRAINED.values())}.",
        ),
    )

"""Volumes: what ranks exchange by kind over the share of shared nodes, by eq. 25 (Figure 7)."""

from __future__ import annotations

from dataclasses import fields

import pandas as pd

from chronoscale.batching.streams.partitioning.remoteness import Remoteness
from chronoscale.batching.streams.partitioning.stream_partition import partition_stream
from chronoscale.harness.reproduce.memshare.cuts import PARTS, QUICK_SHARES, SHARES
from chronoscale.harness.reproduce.memshare.points import WIDTH
from chronoscale.harness.reproduce.memshare.stand_ins import CUT, QUICK, at_hand, batch, counts, fanout, notes, stream
from chronoscale.harness.reproduce.study import NOT_PRINTED, Findings, Told, row
from chronoscale.reports.charts.stacks import stacks
from chronoscale.reports.published import Range
from chronoscale.reports.published import published as printed
from chronoscale.strategies.memshare.communication import (
    Communication,
    RowBytes,
    StreamCut,
    estimate_communication,
    published_communication,
    recommended_share,
)
from chronoscale.strategies.streams.models import FP32

DATASET, THETA, SENT, POLICY = "gdelt", 0.1, 0.1, "shared-nodes"
TERMS = tuple(one.name for one in fields(Communication) if one.name != "negatives")


def widths() -> RowBytes:
    """GDELT's of Table 2, and a memory of §5.1."""
    known = counts(DATASET)
    return RowBytes(FP32 * (known["node_width"] + WIDTH), FP32 * known["edge_width"], FP32 * WIDTH)


def run(told: Told, quick: bool) -> Findings:
    """Bytes an event and kind, as printed and with each ratio taken of what it multiplies."""
    shares, divisor = QUICK_SHARES if quick else SHARES, (QUICK if quick else CUT)[DATASET]
    real, absent = at_hand(told, quick)
    rows, lined, panels = [], [], {}
    size = PARTS * max(batch(DATASET) // divisor, 50)
    for name, events in {DATASET: stream(DATASET, divisor), **real}.items():
        bars = {}
        for share in shares:
            told(f"{name}, {share:g}")
            found = Remoteness.of(events, partition_stream(events, PARTS, POLICY, share), fanout(DATASET), size)
            ways = {"eq. 25": published_communication(StreamCut.of(found), widths(), found.slots.sum() / found.roots.sum(), THETA, SENT),
                    "each ratio of what it multiplies": estimate_communication(found, widths(), THETA, SENT)}  # fmt: skip
            for how, one in ways.items():
                each = {term: getattr(one, term) / len(events) for term in TERMS}
                lined.append({"dataset": name, "k": share, "how": how, **each, "total": one.total / len(events)})
            bars[f"{share:g}"] = [lined[-2][term] for term in TERMS]
            rows.append(row(f"{name}, {share:g} shared, bytes an event by eq. 25", None, [lined[-2]["total"]], NOT_PRINTED))
            rows.append(row(f"{name}, {share:g} shared, of it for nodes' rows, share", None, [of_nodes(ways["eq. 25"])], NOT_PRINTED))
        panels[name] = bars
    line = printed("memshare").figures[7].rows[0]
    steepest, most = float(str(line["beta_high"])), Range(strategy="k", quantity="share", high=float(str(line["k_high"])))
    why = f"by the text's formula, at its largest beta, {steepest:g}; towards 2 it goes to 0"
    rows.append(row("k of least variance", most, [recommended_share(steepest)], why))
    caption = "Bytes an event by eq. 25, over the share of shared nodes. Counted."
    drawn = stacks("memshare-figure-7", "Communication by kind", caption, "bytes an event", TERMS, panels)
    said = (
        *(("Quick: a smaller stand-in, one real stream, fewer shares.",) if quick else ()),
        f"{PARTS} parts by ours, theta {THETA:g}, {SENT:.0%} of shared nodes' changes sent (eta), widths of GDELT, memory of {WIDTH}; "
        f"a node's row is its features and memory, up to {fanout(DATASET)} neighbours. Negatives are not in eq. 25. How it compares with "
        "what is fetched: docs/memshare.md.",
        *notes({DATASET: divisor}, absent),
    )
    return Findings(pd.DataFrame(rows), (drawn,), {"volumes": pd.DataFrame(lined)}, said)


def of_nodes(one: Communication) -> float:
    """Share of the volume that is rows of nodes."""
    return (one.hot_nodes + one.cold_nodes) / one.total

"""Memory I/O: what crosses from host to device, by strategy and size of the cache (Figure 8)."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from chronoscale.batching.streams.sampling.redundancy import BATCH, FANOUT
from chronoscale.errors import UserError
from chronoscale.harness.reproduce.fast.cache_ratios import CURVE, CURVE_EVENTS, curve, drawn, verdicts
from chronoscale.harness.reproduce.fast.volumes import GIB, RATIO, Counted, counted, rate, shared, stages, within
from chronoscale.harness.study.findings import NAN, Findings, Told, beside
from chronoscale.harness.study.hooks.fast import QUICK
from chronoscale.harness.study.hooks.fast_epochs import REAL, Epoch, epoch
from chronoscale.harness.study.hooks.fast_host import Rates, rates
from chronoscale.harness.study.hooks.fast_traffic import Sent
from chronoscale.reports.published import Printed, published

DATASETS = ("wikitalk", "bitcoin", *REAL)


def run(told: Told, quick: bool) -> Findings:
    """(b), the splits, and (a)."""
    printed: Printed = published("fast").figures[8]
    volumes = {line.strategy: line.mean for line in printed.ranges if line.quantity == "gb"}
    gains = {line.strategy: line.mean for line in printed.ranges if line.quantity == "speedup"}
    rows, detail, absent, all_of = [], [], list[str](), dict[str, Counted]()
    speeds = measured(epoch(CURVE, QUICK))
    for name in DATASETS:
        told(name)
        try:
            found = all_of[name] = counted(name, quick)
        except UserError as error:
            if name not in REAL:
                raise
            absent.append(f"Missing: {error}.")
            continue
        rows += stages(name, found, volumes)
        rows += [
            beside(f"{name}, {what}, I/O speedup", gains.get(key) or NAN, speedup(found.sent, stage, speeds), "modelled, see the notes")
            for what, key, stage in (
                ("compressed", f"fast, no cache, {name}", "compressed"),
                ("compressed and cached", f"fast, cache ratio {RATIO:g}, {name}", "compressed and cached"),
            )
        ]
        rows += shared(name, found)
        detail += [
            {"dataset": name, "part": found.part or "whole", "batches": found.batches, "stage": stage, "rows of nodes": one.nodes,
             "rows of events": one.edges, "GiB of features": one.bytes / GIB, "GiB of indices": one.indices / GIB}
            for stage, one in found.sent.items()
        ]  # fmt: skip
    told(f"{CURVE}, cache ratios")
    points = curve(epoch(CURVE, QUICK // 2 if quick else CURVE_EVENTS), speeds)
    rows += verdicts(points)
    said = (
        *((f"Quick: the first {QUICK:,} events of real data, stand-ins shortened to as many.",) if quick else ()),
        *absent,
        within(all_of),
        *read(speeds),
    )
    return Findings(pd.DataFrame(rows), (drawn(points, printed.title),), {"traffic": pd.DataFrame(detail), "ratios": points}, said)


def measured(one: Epoch) -> Rates:
    """Of this host, at the widths and with the ids of an epoch's last whole batch."""
    return rates(one.width, one.last()[1].nodes)


def speedup(sent: Mapping[str, Sent], stage: str, speeds: Rates) -> float:
    """Over what is sent as it is sampled."""
    return speeds.seconds(sent["uncompressed"]) / speeds.seconds(sent[stage])


def read(speeds: Rates) -> tuple[str, ...]:
    """What must be known of the numbers."""
    wiki, bit = ({what: 1 - rate(name, what) / 100 for what in ("repeat_node", "repeat_edge")} for name in ("wikitalk", "bitcoin"))
    least, largest = min(wiki.values()), max(wiki.values())
    degree = next(float(line["degree"]) for line in published("fast").tables[1].rows if line["dataset"] == "wikitalk")
    volumes = {line.strategy: line.mean or NAN for line in published("fast").figures[8].ranges if line.quantity == "gb"}
    whole, other = volumes["uncompressed, wikitalk"], volumes["uncompressed, bitcoin"]
    return (
        f"Read as: an epoch of training (70 % of the events) of TGAT, batches of {BATCH:,}, two layers, {FANOUT} most recent neighbours, a "
        "negative an event; features of nodes and events, of Table 3's width where it has the data set, else 128. Widths are for counting: "
        "no features are read. Indices are counted beside them, see the CSV. Stand-ins are generated; flights and Wikipedia edits are "
        "real.",
        f"Not possible in print: repeat rates of 91 and 73 % (Table 1) leave {least:.0%} to {largest:.0%} of what is sampled, of "
        f"{whole:g} GB "
        f"{whole * least:.1f} to {whole * largest:.1f} by compression alone, not {volumes['compressed, wikitalk']:g}. Bitcoin's leave "
        f"{min(bit.values()):.0%} to {max(bit.values()):.0%} of {other:g}: {other * min(bit.values()):.0f} to "
        f"{other * max(bit.values()):.0f}, "
        f"and {volumes['compressed, bitcoin']:g} lies between.",
        f"Not possible either: {whole:g} GiB over an epoch's batches are fewer rows a batch than one hop takes, 2 x {BATCH:,} roots with "
        f"Table 1's {degree:g} neighbours and events each, {2 * BATCH * (1 + 2 * degree):,.0f}. Of which span the volume is, is not said; "
        "shares of what is sampled are what compares.",
        f"Seconds are modelled, one thing after another: {speeds}. FAST's own times are of a GPU server; its compression overhead and "
        "host are not printed.",
        "Best split: every count of nodes is tried, both sides filled by the same falling frequencies; a hit is a row that a batch "
        "finds, once "
        "a batch, over all batches of an epoch, those that validate too. What is pre-sampled is spread over the same batches; with all of "
        "them greedy is best by construction, which the search confirms.",
        "Where greedy falls short, few batches are the reason: rows seen twice or three times are many, and those of nodes are then read "
        "more "
        "often in the epoch than those of events, but Algorithm 1 gives ties to events. That is a counterfactual's row; the strategy is as "
        "published.",
        "What all strategies do for each row sampled, such as looking up its slot, is in no one's seconds.",
        f"(a) is of a shorter stand-in, {CURVE_EVENTS:,} events: SIMPLE's cache changes after every batch. Its choice of rows is the best "
        "there is, so that its bytes are no more than SIMPLE's.",
    )

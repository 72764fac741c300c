"""Stand-ins: generated streams with hot nodes in place of MemShare's data sets, and real streams beside them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache

import numpy as np

from chronoscale.datasets import catalogue
from chronoscale.datasets.arrays import Int64
from chronoscale.datasets.generate.events import RandomStream
from chronoscale.datasets.streams.events import EventStream
from chronoscale.errors import UserError
from chronoscale.harness.study.findings import Told
from chronoscale.reports.published import published

NAMES = ("lastfm", "wikitalk", "stackof", "gdelt")
SKEW = 0.95  # as `stackof_like` of the catalogue: the hottest tenth has then some two thirds of all ends of events
# Distinct (src, dst): JODIE's of LastFM, SNAP's of the two of it; of GDELT none is printed, assumed is a hundredth of its events.
PAIRS: Mapping[str, int] = {"lastfm": 154_993, "wikitalk": 3_309_592, "stackof": 36_233_450, "gdelt": 1_912_909}
EVENTS_APART = 100  # times that GDELT's stand-in has fewer events a node than GDELT: 11,467 a node are out of reach
SIMULATED: Mapping[str, int] = {"lastfm": 1, "wikitalk": 2, "stackof": 20, "gdelt": 1}  # nodes and events are divided by this
CUT: Mapping[str, int] = {"lastfm": 2, "wikitalk": 10, "stackof": 50, "gdelt": 2}  # where METIS cuts them, too
TRAINED: Mapping[str, int] = {"lastfm": 20, "wikitalk": 200, "stackof": 1_500, "gdelt": 40}
QUICK: Mapping[str, int] = {"lastfm": 20, "wikitalk": 200, "stackof": 1_500, "gdelt": 40}
REAL: Mapping[str, int] = {"jodie_wikipedia": 200_000, "us_flights_2001": 200_000, "uci_messages": 200_000}  # events at most, the first


def counts(name: str) -> dict[str, int]:
    """Table 2: nodes, edges, node_width, edge_width."""
    line = next(line for line in published("memshare").tables[2].rows if line["dataset"] == name)
    return {what: int(float(line[what])) for what in ("nodes", "edges", "node_width", "edge_width")}


def batch(name: str) -> int:
    """Events a GPU and optimiser step (§5.1)."""
    return 1_000 if name == "lastfm" else 3_000


def fanout(name: str) -> int:
    """Recent neighbours (§5.1)."""
    return 10 if name == "lastfm" else 20


def generator(name: str, divisor: int) -> RandomStream:
    """The stand-in's, with nodes, events and pairs of the data set divided alike; GDELT's events by EVENTS_APART more."""
    printed, apart = counts(name), EVENTS_APART if name == "gdelt" else 1
    nodes, events = printed["nodes"] // divisor, printed["edges"] // apart // divisor
    pairs = max(PAIRS[name] // (apart if name != "gdelt" else 1) // divisor, nodes)
    return RandomStream(nodes, events, min(pairs, nodes * (nodes - 1) // 2, events), source_skew=SKEW, destination_skew=SKEW, name=name)


@cache
def stream(name: str, divisor: int) -> EventStream:
    """Generated once a process, without features."""
    return EventStream.from_blocks(list(generator(name, divisor)))


@cache
def real(name: str) -> EventStream:
    """The first events of a data set at hand, without features. Raises UserError where it is not there."""
    found = catalogue.load(name)
    if not isinstance(found, EventStream):
        raise UserError(f"dataset '{name}': expected a stream of events")
    some = found.span(0, min(REAL[name], len(found)))
    return replace(some, features=None, labels=None, node_features=None)


def at_hand(told: Told, quick: bool) -> tuple[dict[str, EventStream], tuple[str, ...]]:
    """Real streams by name, the first one alone where `quick`; and a line for each that is not there."""
    found, absent = dict[str, EventStream](), list[str]()
    for name in tuple(REAL)[: 1 if quick else None]:
        try:
            found[name] = real(name)
        except UserError as error:
            absent.append(f"Skipped: {error}.")
            told(absent[-1])
    return found, tuple(absent)


def degrees(stream: EventStream) -> Int64:
    """Ends of events of each node, int64 [N]."""
    return np.bincount(stream.src, minlength=stream.num_nodes) + np.bincount(stream.dst, minlength=stream.num_nodes)


def hot_share(stream: EventStream, share: float = 0.1) -> float:
    """Of all ends of events, those at the nodes of highest degree."""
    ordered = np.sort(degrees(stream))[::-1]
    return float(ordered[: round(share * ordered.size)].sum() / max(ordered.sum(), 1))


def notes(divisors: Mapping[str, int], absent: tuple[str, ...] = ()) -> tuple[str, ...]:
    """What stands for the data."""
    sizes = ", ".join(f"{name} by {divisor}" for name, divisor in divisors.items())
    shares = ", ".join(f"{name} {hot_share(stream(name, divisor)):.0%}" for name, divisor in divisors.items())
    gdelt = f" GDELT's has {EVENTS_APART} times fewer events a node than GDELT, and its pairs are assumed." if "gdelt" in divisors else ""
    return (
        f"Stand-ins are generated: Table 2's nodes and events divided alike ({sizes}), sources and destinations by Zipf's law of exponent "
        f"{SKEW}, so that the hottest tenth of the nodes has of all ends: {shares}.{gdelt} They have no communities, so that no cut finds "
        "what METIS finds in real data.",
        *absent,
    )

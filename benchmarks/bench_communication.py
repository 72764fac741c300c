"""Bytes that ranks exchange, as MemShare's eq. 25 has them, as its correction has them, and as they are counted in the sampler's output.

    python benchmarks/bench_communication.py [--events 100000] [--nodes 3000] [--seeds 0 1] [--parts 2 8] [--shares 0 0.01 0.05 0.1 0.2]
        [--thetas 0.1 0.5 1] [--policies shared-nodes metis] [--datasets NAME ...] [--batch 200] [--neighbours 10] [--out FILE]

Generated streams are power laws (Zipf exponents 0.95), half of the nodes items, or none; datasets lie in CHRONOSCALE_DATA. Rows of
400 bytes, features of 688 (172 float32). Counted: neighbours one by one, with repeats, in batches of `batch` events a part, as boundary
decay finds them, with completion; all events are trained on, each told from one negative. Numbers are means over seeds.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from chronoscale.batching.streams.partitioning.divide import default_decay, divide
from chronoscale.batching.streams.partitioning.partition import SHARED, Parts
from chronoscale.batching.streams.partitioning.remoteness import COLD, HOT, TOLD, Others, Remoteness, drawn
from chronoscale.batching.streams.ranks.assignment import Deal
from chronoscale.batching.streams.ranks.placement import Allotment, Spread
from chronoscale.batching.streams.ranks.remote_reads import SpreadStatistics, counted
from chronoscale.batching.streams.sampling import neighbourhood
from chronoscale.batching.streams.sampling.boundary import Boundary, Seat
from chronoscale.batching.streams.sampling.neighbourhood import Sampling
from chronoscale.batching.streams.sampling.source import Source
from chronoscale.datasets import catalogue
from chronoscale.datasets.generate.events import RandomStream
from chronoscale.datasets.streams.events import EventStream
from chronoscale.datasets.streams.tcsr import TCSR
from chronoscale.strategies.memshare.communication import (
    Communication,
    RowBytes,
    StreamCut,
    estimate_communication,
    published_communication,
)

WIDTHS = RowBytes(400, 688, 400)
SKEW = 0.95


@dataclass(frozen=True, slots=True)
class Case:
    """A stream in parts, and its batches."""

    name: str
    source: Source
    parts: Parts
    batch: int
    neighbours: int
    remote: float = 1.0  # of what events are told from

    @property
    def allotment(self) -> Allotment:
        return Allotment(Deal(range(len(self.source.stream)), self.parts.count, self.batch), self.parts)

    @property
    def others(self) -> Others:
        return drawn(self.source.stream, self.parts, self.remote)

    def sampling(self, theta: float, unique: bool) -> Sampling:
        boundary = Boundary(theta, default_decay(self.source.stream))
        return Sampling((self.neighbours,), unique=unique, boundary=boundary)

    def remoteness(self) -> Remoteness:
        return Remoteness.of(self.source.stream, self.parts, self.neighbours, self.parts.count * self.batch, self.others)


def slots(case: Case, theta: float, seed: int = 0) -> Remoteness:
    """What `Remoteness` has, one by one in the sampler's output. seed: of its coins."""
    source, allotment, parts, sampling, others = case.source, case.allotment, case.parts, case.sampling(theta, False), case.others
    totals, ends = np.zeros((5, 3), np.int64), (source.stream.src, source.stream.dst)
    for iteration in range(allotment.iterations):
        for rank in range(parts.count):
            if not (own := allotment.own(iteration, rank)).size:
                continue
            roots = source.roots(own, others(own)[:, None], allotment.before(iteration, rank))
            tree = (found := neighbourhood.sample(source.tcsr, source.stream.t, roots, sampling, seed, seat=Seat(parts, rank))).trees[0]
            kind = np.where(parts.node[roots[0]] == SHARED, HOT, COLD)
            kind[2 * own.size :] = TOLD
            there, home = tree.hops[0].there, parts.node[found.nodes]
            of, slot = kind.repeat(there.sum(1)), home[tree.levels[1][tree.hops[0].slot[there]]]
            totals[0] += np.bincount(kind, minlength=3)
            totals[2] += np.bincount(of, minlength=3)
            away = (home[tree.levels[0]] != rank) & (home[tree.levels[0]] != SHARED)
            totals[1] += np.bincount(kind[away], minlength=3)
            totals[3] += np.bincount(of[parts.event[found.edges[tree.hops[0].edge[there]]] != rank], minlength=3)
            totals[4] += np.bincount(of[(slot != rank) & (slot != SHARED)], minlength=3)
    first, second = (parts.node[end] for end in ends)
    cut = int(np.count_nonzero((first != second) & (first != SHARED) & (second != SHARED)))
    return Remoteness(parts.count, len(source.stream), case.neighbours, cut, *totals)


def once(case: Case, theta: float) -> SpreadStatistics:
    """What ranks fetch: each row once a batch."""
    spread, others = Spread(newest=True, remote=case.remote), case.others
    sampling = case.sampling(theta, True)
    return counted(case.source, case.allotment, spread, sampling, lambda events, _: others(events)[:, None], 0, True)


def fetched(found: Communication) -> float:
    """Of events' ends, which is what the equation knows."""
    return found.fetched - found.told


@dataclass(frozen=True, slots=True)
class Row:
    """Bytes an event; as shares of what is counted, the estimates."""

    name: str
    parts: int
    policy: str
    share: float
    theta: float
    counted: float
    printed: float
    approximated: float
    corrected: float
    told: float
    told_corrected: float
    deduplicated: float
    newest: float

    def __str__(self) -> str:
        estimates = " | ".join(f"{x:.2f}" for x in (self.printed, self.approximated, self.corrected))
        return (
            f"| {self.name} | {self.parts} | {self.policy} | {self.share:g} | {self.theta:g} | {self.counted:,.0f} | {estimates} "
            f"| {self.told:,.0f} | {self.told_corrected:.2f} | {self.deduplicated:.2f} "
            f"| {'–' if math.isnan(self.newest) else f'{self.newest:.3f}'} |"
        )


HEAD = (
    "| stream | m | partitioner | k | θ | counted, B an event | eq. 25 | eq. 25, λ̂ = λ⁰ | corrected | negatives, B an event | corrected "
    "| fetched once a batch | synchronised once a batch |"
)


def rows(name: str, stream: EventStream, options: argparse.Namespace) -> Iterator[Row]:
    source = Source(stream, TCSR.of(stream))
    for count in options.parts:
        for policy in options.policies:
            alone = 0.0
            for share in sorted({0.0, *options.shares}):
                parts = divide(stream, count, policy, share, None, 0)
                case = Case(name, source, parts, options.batch, options.neighbours)
                found = case.remoteness()
                alone = found.cut / found.events if not share else alone
                for theta in options.thetas if share in options.shares else ():
                    exact = estimate_communication(slots(case, theta), WIDTHS, 1.0)
                    printed, near = (
                        published_communication(StreamCut.of(found, x), WIDTHS, options.neighbours, theta) for x in (None, alone)
                    )
                    better, work = estimate_communication(found, WIDTHS, theta), once(case, theta)
                    asked = WIDTHS.node * work.asked_nodes.sum() + WIDTHS.edge * work.asked_edges.sum()
                    hot = found.roots[HOT]
                    yield Row(
                        name,
                        count,
                        policy,
                        share,
                        theta,
                        fetched(exact) / len(stream),
                        *(fetched(one) / fetched(exact) for one in (printed, near, better)),
                        exact.told / len(stream),
                        better.told / exact.told,
                        float(asked / exact.fetched),
                        float(work.shared.sum() / hot) if hot else float("nan"),
                    )


def streams(options: argparse.Namespace) -> Iterator[tuple[str, EventStream]]:
    for seed in options.seeds:
        for items in (0, options.nodes // 2):
            made = RandomStream(options.nodes, options.events, options.events // 4, items, SKEW, SKEW, seed=seed)
            yield ("bipartite" if items else "power law"), made.stream()
    for name in options.datasets:
        yield name, catalogue.load(name)


def means(found: Iterable[Row]) -> list[str]:
    """Of settings that are alike but for the seed, the mean of each number."""
    groups: dict[tuple[object, ...], list[Row]] = {}
    for row in found:
        groups.setdefault((row.name, row.parts, row.policy, row.share, row.theta), []).append(row)
    fields = ("counted", "printed", "approximated", "corrected", "told", "told_corrected", "deduplicated", "newest")
    return [str(Row(*key, *(float(np.mean([getattr(one, field) for one in group])) for field in fields))) for key, group in groups.items()]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--nodes", type=int, default=3_000)
    parser.add_argument("--seeds", type=int, nargs="*", default=[0, 1])
    parser.add_argument("--parts", type=int, nargs="+", default=[2, 8])
    parser.add_argument("--shares", type=float, nargs="+", default=[0.0, 0.01, 0.05, 0.1, 0.2])
    parser.add_argument("--thetas", type=float, nargs="+", default=[0.1, 0.5, 1.0])
    parser.add_argument("--policies", nargs="+", default=["shared-nodes", "metis"])
    parser.add_argument("--datasets", nargs="*", default=[])
    parser.add_argument("--batch", type=int, default=200, help="events a part")
    parser.add_argument("--neighbours", type=int, default=10)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    start, found = time.perf_counter(), []
    for name, stream in streams(options):
        found += rows(name, stream, options)
    lines = [HEAD, "|" + "---|" * HEAD.count(" | ") + "---|", *means(found), ""]
    for what in ("printed", "approximated", "corrected", "told_corrected"):
        off = np.array([getattr(row, what) for row in found]) - 1
        lines.append(f"{what}: {off.min():+.1%} to {off.max():+.1%}, within 10 % in {np.mean(np.abs(off) <= 0.1):.0%} of {off.size}")
    lines.append(f"{time.perf_counter() - start:.0f} s")
    text = "\n".join(lines)
    print(text)
    if options.out:
        options.out.write_text(text + "\n")


if __name__ == "__main__":
    main()

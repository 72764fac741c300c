"""Fit stand-ins: parameters of the streams that stand for FAST's data sets, by damped Gauss-Newton on the rates of its Table 1.

    python tools/fit_stand_ins.py [NAME ...] [--steps 0] [--events 1500000] [--batches 100]

Without steps: the catalogue's parameters and their rates beside the published. Streams longer than --events are shortened, with as many
arrivals an event (`SessionStream.shortened`); --events 0 takes all. Rates are of so many --batches, evenly spaced, and their next ones.
"""

from __future__ import annotations

import argparse
from dataclasses import replace

import numpy as np

from chronoscale.batching.streams.ranks.assignment import BatchAssignment
from chronoscale.batching.streams.sampling.indexed_stream import IndexedStream
from chronoscale.batching.streams.sampling.redundancy import BATCH, Redundancy, measure_redundancy
from chronoscale.datasets import catalogue
from chronoscale.datasets.arrays import Float64
from chronoscale.datasets.generate.sessions import SessionStream
from chronoscale.datasets.streams.tcsr import TCSR
from chronoscale.reports.published import published

NAMES = ("lastfm", "wikitalk", "bitcoin", "gdelt")
RATES = ("match_node", "match_edge", "repeat_node", "repeat_edge", "unbalance")
COUNTS = ("founders", "hosts", "active", "stay", "lasting")  # move by their logarithm
SHARES = {"fresh": 1.0, "skew": 3.0, "peers": 1.0, "casual": 1.0}  # and their highest
STEP, DAMPING, BOUND = 0.08, 0.1, 0.3


def rates(made: SessionStream, batches: int) -> tuple[Float64, Redundancy]:
    """The five rates in points, in the order of RATES."""
    stream = made.stream()
    deal = BatchAssignment(range(len(stream)), 1, BATCH, every=max(len(stream) // BATCH // batches, 1))
    redundancy = measure_redundancy(IndexedStream(stream, TCSR.of(stream)), deal)
    return np.array([*redundancy.match, *redundancy.repeat, redundancy.unbalance]) * 100, redundancy


def moved(made: SessionStream, by: Float64) -> SessionStream:
    """Parameters changed: counts by a factor e ** by, shares by addition, within their ranges."""
    changed: dict[str, float] = {}
    for name, change in zip((*COUNTS, *SHARES), by, strict=True):
        value = getattr(made, name)
        changed[name] = max(round(value * np.exp(change)), 4) if name in COUNTS else float(np.clip(value + change, 0, SHARES[name]))
    return replace(made, **changed)


def fitted(made: SessionStream, wanted: Float64, batches: int, steps: int) -> SessionStream:
    """The best of so many steps, by the largest difference."""
    best, (here, _), damping = made, rates(made, batches), DAMPING
    for step in range(steps):
        slope = np.empty((len(RATES), len(COUNTS) + len(SHARES)))
        for at in range(slope.shape[1]):
            by = np.zeros(slope.shape[1])
            by[at] = STEP if moved(best, np.eye(len(by))[at] * STEP) != best else -STEP
            slope[:, at] = (rates(moved(best, by), batches)[0] - here) / by[at]
        square = slope.T @ slope
        for _ in range(4):
            by = np.linalg.solve(square + damping * np.trace(square) / len(square) * np.eye(len(square)), slope.T @ (wanted - here))
            tried = moved(best, np.clip(by, -BOUND, BOUND))
            there, _ = rates(tried, batches)
            if np.square(there - wanted).sum() < np.square(here - wanted).sum():
                best, here, damping = tried, there, damping / 3
                break
            damping *= 4
        print(f"  step {step + 1}: {np.abs(here - wanted).max():.2f} points at most, {np.round(here, 1)}", flush=True)
    return best


def main() -> None:
    """Print parameters, and rates beside the published."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=NAMES, metavar="NAME", help="data sets of FAST")
    parser.add_argument("--steps", type=int, default=0)
    parser.add_argument("--events", type=int, default=1_500_000)
    parser.add_argument("--batches", type=int, default=100)
    options = parser.parse_args()
    printed = {str(line["dataset"]): line for line in published("fast").tables[1].rows}
    for name in options.names:
        whole = catalogue.load_generator(f"{name}_like")
        assert isinstance(whole, SessionStream)
        short = options.events and options.events < len(whole)
        made = whole.shortened(options.events) if short else whole
        wanted = np.array([float(printed[name][rate]) * 100 for rate in RATES])
        print(f"{name}_like, {len(made):,} of {len(whole):,} events, {made.nodes:,} of {whole.nodes:,} nodes")
        best = fitted(made, wanted, options.batches, options.steps)
        here, found = rates(best, options.batches)
        print("  " + ", ".join(f"{field}: {getattr(best, field):.4g}" for field in (*COUNTS, *SHARES)))
        for rate, theirs, ours in zip(RATES, wanted, here, strict=True):
            print(f"  {rate:12} published {theirs:5.1f}  ours {ours:5.1f}  {ours - theirs:+.1f}")
        print(
            f"  degree       published {float(printed[name]['degree']):5.2f}  ours {found.degree:5.2f}, {found.degree_of_found:.2f} found"
        )


if __name__ == "__main__":
    main()

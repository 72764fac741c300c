"""Weights of remote neighbours, and what a cap costs: against a loop over neighbours, and what the user is warned of."""

from __future__ import annotations

import warnings
from dataclasses import replace
from math import exp

import numpy as np
import pytest
from native_case import needs_cpu
from stream_experiments import SMALL, stream

from chronoscale.batching.streams.partitioning.partition import SHARED, EventPartition
from chronoscale.batching.streams.prepared import PreparedStream
from chronoscale.batching.streams.sampling.boundary import Boundary
from chronoscale.batching.streams.sampling.boundary_weights import BoundaryWeights
from chronoscale.batching.streams.sampling.indexed_stream import IndexedStream
from chronoscale.datasets.streams.protocol import Protocol
from chronoscale.datasets.streams.tcsr import TCSR
from chronoscale.errors import ChronoscaleWarning
from chronoscale.harness.keys.experiment_files import check
from chronoscale.harness.keys.streams import StreamExperiment
from chronoscale.harness.workflows.streams.boundary_weights import warn_of_boundary_weights
from chronoscale.strategies.registry import strategy

DATA, FANOUT = PreparedStream.of(stream(), Protocol()), 4


def parts() -> EventPartition:
    rng = np.random.default_rng(2)
    return EventPartition(rng.integers(SHARED, 2, 18).astype(np.int32), rng.integers(0, 2, len(DATA.whole.stream)).astype(np.int32), 2)


@needs_cpu
@pytest.mark.parametrize(("theta", "decay", "cap"), [(0.2, 0.0, 4.0), (0.2, 0.01, 4.0), (0.5, 0.02, 1.5), (0.0, 0.02, 4.0)])
def test_what_a_cap_raises_and_adds(theta: float, decay: float, cap: float) -> None:
    events, cut, free = DATA.whole.stream, parts(), list[float]()
    for e in range(len(events)):
        for node in (int(events.src[e]), int(events.dst[e])):
            earlier = [
                (int(events.dst[f]) if events.src[f] == node else int(events.src[f]), f)
                for f in range(e)
                if node in (events.src[f], events.dst[f])
            ]
            rank = cut.event[e]
            remote = [f for v, f in earlier[-FANOUT:] if cut.event[f] != rank or cut.node[v] not in (rank, SHARED)]
            shares = [exp(decay * (int(events.t[f]) - int(events.t[remote[-1]]))) for f in remote]
            free += [min(theta * len(remote) * share / sum(shares), 1) for share in shares]
    weights = BoundaryWeights.of(DATA.whole, cut, Boundary(theta, decay), FANOUT, cap)
    if not theta:
        assert weights == BoundaryWeights(1.0, 0.0, 0.0)
        return
    capped = [max(p, theta / cap) for p in free]
    assert weights.raised == pytest.approx(np.mean([p < theta / cap for p in free]))
    assert weights.added == pytest.approx(sum(capped) / sum(free) - 1)
    assert 1 / max(free) < weights.largest <= 1 / min(free) * (1 + 1e-6)
    assert decay or weights.largest == pytest.approx(1 / theta)


def warned(name: str, ranks: int = 2, **training: object) -> str:
    """What is warned of an experiment."""
    experiment = check(
        {"dataset": "uci_messages", **SMALL, "strategies": ["memshare"], "training": {"batch_size": 20, "fanout": [4], **training}}, "train"
    )
    assert isinstance(experiment, StreamExperiment)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ChronoscaleWarning)
        warn_of_boundary_weights(experiment, strategy(name), DATA, ranks)
    return " ".join(str(one.message) for one in caught)


@needs_cpu
def test_the_user_is_told_of_large_weights_and_of_what_the_cap_costs() -> None:
    """With as fast a decay, not with the default one; nothing where no neighbour is weighed."""
    fast: dict[str, object] = {"decay": 0.05, "partition": "random"}
    with_cap, without = warned("memshare", **fast), warned("memshare", weight_cap=0.0, **fast)
    assert with_cap.startswith("memshare: training.weight_cap: 4: ") and ", so that no weight is above 40: " in with_cap
    assert "more remote neighbours; without a cap weights reach " in with_cap
    assert without.startswith("memshare: weights of remote neighbours have no cap and reach ")
    assert "would have one above 40, and attention hangs on the few that are sampled; training.weight_cap: 4 costs " in without
    assert "no cap" in warned("memshare", variant="as-published", **fast)
    assert not warned("memshare") and not warned("memshare", 1, **fast)
    assert not any(warned(name, **fast) for name in ("tgl-dist", "disttgl", "memshare-recent", "memshare-local", "tgl-unique"))


def test_times_that_are_equal_weigh_alike() -> None:
    events = replace(stream(), t=np.zeros(300, np.int64))
    equal = IndexedStream(events, TCSR.of(events))
    assert BoundaryWeights.of(equal, parts(), Boundary(0.5, 3.0), FANOUT, 4.0) == BoundaryWeights(
        pytest.approx(2.0), 0.0, pytest.approx(0.0)
    )

"""The native kernel finds the distinct ids of a batch in less time than NumPy does, also from slots as they are sampled.

Batches are the last 40 of the sampler's epoch; a pass goes through all of them. `distinct` is of filled slots that lie one after another,
`compressed` of slots as they are sampled, which leaves out those that are empty. Rivals: np.unique with its inverse, the NumPy reference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import starmap

import numpy as np
from core.case import Case, Passes, Setting, Subject
from core.turns import in_turns, seconds_of
from setups.streams import batches, events_of

from chronoscale.cuda_ext.reference import unique_ids as reference
from chronoscale.cuda_ext.sampling.unique_ids import compress_slots, unique_ids
from chronoscale.datasets.streams.tcsr import TCSR


def measure(name: str, fanout: int, count: int, ids: str, setting: Setting) -> Passes:
    """Time all contestants on the neighbours or the events of the last batches."""
    stream, threads = events_of(name), setting.threads
    graph = TCSR.of(stream)
    hops = [graph.sample(node, before, fanout, threads=1) for node, before in list(batches(stream))[-count:]]
    given = [(slots, hop.counts, slots[slots >= 0]) for hop in hops if (slots := getattr(hop, ids)) is not None]
    ways: dict[str, Callable[[np.ndarray, np.ndarray, np.ndarray], object]] = {
        "distinct": lambda slots, counts, flat: unique_ids(flat, threads),
        "compressed": lambda slots, counts, flat: compress_slots(slots, counts, threads),
        "np.unique with inverse": lambda slots, counts, flat: np.unique(flat, return_inverse=True),
        "distinct, NumPy": lambda slots, counts, flat: reference.unique_ids(flat),
        "compressed, NumPy": lambda slots, counts, flat: reference.unique_ids(reference.filled_slots(slots, counts)[0]),
    }
    unique = np.unique(given[0][2])
    for who, way in ways.items():
        assert np.array_equal(np.sort(way(*given[0])[0]), unique), f"{who} finds other ids"  # type: ignore[index]
    total = sum(len(flat) for *_, flat in given)

    def once(way: Callable[..., object]) -> dict[str, float]:
        spent = seconds_of(lambda: list(starmap(way, given)))
        return {"seconds": spent, "ns an id": 1e9 * spent / total}

    return in_turns({who: partial(once, way) for who, way in ways.items()}, setting.repeats)


def cases(quick: bool) -> Iterator[Case]:
    """Yield both kinds of ids."""
    name, count = ("hubs-9000-200", 2) if quick else ("hubs-1000000-50000", 40)
    for ids in ("neighbor", "event"):
        yield Case({"stream": name, "batches": count, "fanout": 10, "ids": ids}, partial(measure, name, 10, count, ids))


SUBJECT = Subject(cases, 9)

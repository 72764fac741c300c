"""Sums after a change take less time by the increment (REAL, eq. 3) than afresh, up to a share of changed edges; and than by index_add_.

The share from which `aggregate`, the whole sum, takes less than `increment_` is the crossover: a plan that chooses a form by its costs
changes it there. Half of the changed edges go, as many come. On a GPU several changes take turns, so that none is in the cache. `copy`
moves as many bytes as the increment must.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import product

from core.case import Case, Subject
from core.turns import Call
from rivals import reductions
from setups.graphs import assert_equal, change, changes, copy_of, drawn, graphs_on, increment_bytes, keep_memory, normal

from chronoscale.cuda_ext.operators.aggregation import aggregate, increment_

SHARES = (0.001, 0.01, 0.05, 0.2, 0.45, 0.75, 1.1)


def setup(name: str, width: int, share: float, device: str) -> dict[str, Call]:
    """Return calls of the increment and of its rivals. All add to the same sums: what a kernel does depends on no value."""
    keep_memory()
    graph = drawn(name, device)
    x = normal(device, graph.num_cols, width)
    sums, half = aggregate(graph, x), x.bfloat16()
    first, following = change(graph, share), changes(graph, share, width)
    ways = {"increment_": increment_, "index_add_": reductions.added}
    expected = reductions.added(expected_sums := sums.clone(), first, x)
    for who, way in ways.items():
        assert_equal(f"touched rows by {who}", way(result := sums.clone(), first, x), expected, 1e-3)
        assert_equal(f"sums by {who}", result, expected_sums, 1e-3)
    calls: dict[str, Call] = {who: lambda way=way: way(sums, next(following), x) for who, way in ways.items()}  # type: ignore[misc]
    calls["aggregate"] = lambda: aggregate(graph, x)
    calls["bfloat16"] = lambda: increment_(sums, next(following), half)
    return {**calls, "copy": copy_of(increment_bytes(first, width), device)}


def cases(device: str, quick: bool) -> Iterator[Case]:
    """Yield graphs by widths and shares of changed edges."""
    for name, width, share in product(graphs_on(device, quick), (16, 64, 128), SHARES[:1] if quick else SHARES):
        yield Case.timed({"graph": name, "width": width, "changed": share}, partial(setup, name, width, share, device))


SUBJECT = Subject(partial(cases, "cpu"), 15, cuda=partial(cases, "cuda"))

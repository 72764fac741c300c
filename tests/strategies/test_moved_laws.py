"""Laws of bytes that rows move (`costing/moved.yaml`): they hold where nothing was counted, on graphs a thousand times as large."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from chronoscale.strategies.costing import kernels

COUNTS = {"rows", "nodes", "edges", "filled", "entries", "vertices", "earlier", "after", "batch"}  # of what a graph has
MOST = 25  # terms a law


def laws() -> Iterator[tuple[str, str, str, kernels.Law]]:
    for kind, models in kernels.read_laws("moved").items():
        for model, of in models.items():
            for op, law in of.items():
                yield kind, model, op, law


def counts(term: str) -> tuple[str, ...]:
    return tuple(part for part in term.split("*") if part in COUNTS)


def test_no_law_gives_bytes_back() -> None:
    assert all(factor > 0 for *_, law in laws() for factor in law.values())


def test_laws_are_linear_in_what_a_graph_has() -> None:
    """But for sensors whose graph is a dense matrix, and edges of every window of a batch."""
    dense = {("nodes", "nodes"), ("edges", "batch")}
    found = [(*where, term) for *where, law in laws() for term in law if len(counts(term)) > 1]
    assert all(kind == "windows" and counts(term) in dense for kind, *_, term in found), found


def test_laws_have_few_terms() -> None:
    assert not [(kind, model, op, len(law)) for kind, model, op, law in laws() if len(law) > MOST]


@pytest.mark.parametrize(("model", "numbers"), [("gcn-lstm", 25), ("gcn-gru", 21)])
def test_a_step_of_a_recurrence_on_many_rows(model: str, numbers: int) -> None:
    """As counted by hand in tests/real_exec/test_memory_traffic.py."""
    sizes = {"nodes": 1_000_000, "rows": 1_000_000, "width": 64}
    told = kernels.Kernels.of_model("groups", model, {"steps": 4, "hidden": 64, "inputs": 64}).bytes("TEMPORAL", later=1, **sizes)
    assert told == pytest.approx(4 * numbers * 64 * 1_000_000, rel=0.02)

"""The benchmark of `make gpu` on a CPU, on small sizes: its graphs, its figures, its tables."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))

from gpu import (
    checks,
    edges,
    hubs,
    kernels,
    rivals,
    slots,
    tables,
    targets,
    timing,
)
from gpu.crossover import ALWAYS, NEVER, _root
from gpu.graphs import adjacency, change, drawn, flipped, keys_of
from gpu.record import Failed, Record

from chronoscale.cuda_ext.operators.aggregation import aggregate as graph_sums
from chronoscale.cuda_ext.operators.aggregation import rebuild
from chronoscale.cuda_ext.operators.graph import CSR

COUNTS = {"whole": 1, "changes": len(kernels.SHARES), "crossover": 1, "attention": 1, "rebuild": 2}  # rows of it
SMALL = kernels.Sizes(nodes=100, edges=500, widths=(8,), repeats=2, graphs=("uniform",))


@pytest.mark.parametrize("skewed", [False, True])
def test_graphs_are_those_of_their_description(skewed):
    graph = drawn(500, 20_000, skewed, "cpu").check()
    degree = graph.indptr.diff()
    assert graph.nnz == 20_000 and (degree.max() > 300) == skewed
    step = change(graph, 0.1, 1).check()
    assert step.nnz == 2_000 and step.values is not None and step.values.sum() == 0
    there = set(keys_of(graph).tolist())
    target = torch.repeat_interleave(step.rows.long(), step.indptr.diff())
    gone = (target * 500 + step.indices)[step.values < 0]
    assert set(gone.tolist()) <= there
    assert not torch.equal(step.indices, change(graph, 0.1, 2).indices)


def test_a_flipped_adjacency_is_the_rebuilt_one():
    before = adjacency(keys_of(drawn(300, 4_000, True, "cpu")), 300).check()
    step, after = flipped(before, 0.2, 1)
    made, _ = rebuild(before, step.check(), weighted=False)
    assert 0 < int((step.sign < 0).sum()) < step.nnz
    assert torch.equal(made.indptr, after.indptr) and torch.equal(made.indices, after.indices)


@pytest.fixture(scope="module")
def benched(tmp_path_factory):
    record = Record(tmp_path_factory.mktemp("bench") / "kernels.json", part="kernels", rehearsal=True)
    kernels.bench("cpu", kernels.Sizes(nodes=300, edges=4_000, widths=(8,), repeats=2), record)
    return Record.read(record.path)


@pytest.mark.slow
def test_the_benchmark_runs_on_a_cpu(benched):
    """Every kernel beside its rivals, both graphs, every share; the sums agree with torch.sparse's."""
    assert [(row["graph"], row["F"]) for row in benched["whole"]] == [("uniform", 8), ("skewed", 8)]
    for row in benched["whole"]:
        assert (
            row["error"] < 1e-5
            and 1e-5 < row["error_bf16"] < 1e-2
            and {"aggregate", "copy", "torch.sparse", "index_add_"} <= {w for w, t in row["times"].items() if "ms" in t}
        )
        assert row["of_copy"]["aggregate"] * row["copy_gb_s"] == pytest.approx(row["gathered"] / row["times"]["aggregate"]["ms"] / 1e6)
        assert row["gathered"] == 8 * 301 + 4 * 4_000 + 4 * 8 * (4_000 + 300)  # row pointers, sources, a row of x for each, and the sums
    for row in benched["changes"]:
        rows, changed = row["rows"], row["changed"]
        assert row["moved"] == 4 * rows + 8 * (rows + 1) + 8 * changed + 4 * 8 * (changed + 3 * rows)
    assert len(benched["changes"]) == 2 * len(kernels.SHARES) and len(benched["crossover"]) == 2
    assert all(time["ms"] > 0 for row in benched["changes"] for time in row["times"].values())
    assert [row["share"] for row in benched["changes"] if "error" in row] == [kernels.CHECKED] * 2
    assert len(benched["attention"]) == 2 and len(benched["rebuild"]) == 4 and all(row["error"] < 1e-5 for row in benched["attention"])


def test_tables_are_made_only_of_the_json(benched):
    text = tables.document({"kernels": {**benched, "status": "passed"}})
    assert text.startswith("**A rehearsal on a CPU")
    assert text.count("| uniform | 8 |") == 1 + len(kernels.SHARES) + 1 + 1 + 2
    assert tables.document({"kernels": {"status": "no device", "why": "torch says so"}}).count("torch says so") == 1


@pytest.mark.slow
def test_a_rival_that_fails_is_noted_and_ours_is_a_failure(monkeypatch, tmp_path):
    def refused(*_: object) -> object:
        raise RuntimeError("no kernel")

    for name in ("rebuild", "attention_increment_"):
        monkeypatch.setattr(kernels, name, refused)
    monkeypatch.setattr(rivals.torch.sparse, "mm", refused)
    monkeypatch.setattr(
        rivals, "summed", lambda graph, x, weights=None: graph_sums(CSR(graph.indptr, graph.indices, weights, graph.num_cols), x)
    )
    record = Record(tmp_path / "kernels.json")
    with pytest.raises(
        Failed, match=r"^4 wrong or not timed: rebuild: RuntimeError: no kernel; attention_increment_: RuntimeError: no kernel;"
    ):
        kernels.bench("cpu", SMALL, record)
    left = tables.kernels(record.data)
    assert "- rebuild: RuntimeError: no kernel" in left and "- torch.sparse: RuntimeError: no kernel" in left


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("name", "by", "message"),
    [
        ("aggregate", lambda sums: sums * 1.01, "sums, uniform, F = 8: Failed: sums and torch.sparse's differ by 1.0e-02"),
        ("increment_", lambda sums: sums + 1, "increment, uniform, F = 8: Failed: touched rows and index_add_'s differ by"),
        (
            "rebuild",
            lambda deltas: (replace(deltas[0], indices=deltas[0].indices.flip(0)), None),
            "the rebuilt adjacency is not the one sorted afresh",
        ),
        ("attention", lambda state: replace(state, total=state.total * 1.01), "attention and a softmax of torch's differ by 1.0e-02"),
    ],
)
def test_what_is_wrong_at_full_size_fails_the_part_and_costs_nothing_else(monkeypatch, tmp_path, name, by, message):
    right = getattr(checks, name)
    monkeypatch.setattr(checks, name, lambda *given, **options: by(right(*given, **options)))
    record = Record(tmp_path / "kernels.json")
    with pytest.raises(Failed) as failed:
        kernels.bench("cpu", SMALL, record)
    assert message in str(failed.value) and str(failed.value).startswith("2 wrong" if name == "rebuild" else "1 wrong")  # of two shares
    assert {key: len(record.data[key]) for key in COUNTS} == COUNTS


@pytest.mark.slow
def test_a_graph_that_does_not_fit_costs_no_other(monkeypatch, tmp_path):
    right = kernels.drawn

    def drawn_or_not(nodes, edges, skewed, device):
        if not skewed:
            raise torch.OutOfMemoryError("no memory")
        return right(nodes, edges, skewed, device)

    monkeypatch.setattr(kernels, "drawn", drawn_or_not)
    record = Record(tmp_path / "kernels.json")
    with pytest.raises(Failed, match=r"^1 wrong or not timed: uniform, F = 8: OutOfMemoryError: no memory$"):
        kernels.bench("cpu", replace(SMALL, graphs=("uniform", "skewed")), record)
    assert [row["graph"] for row in record.data["attention"]] == ["skewed"]


@pytest.mark.slow
def test_attention_goes_to_and_fro(monkeypatch, tmp_path):
    """After an even number of calls the state is the first one: each call is given a change of the state that it finds."""
    states, right = {}, kernels.attention_increment_

    def recorded(state, graph, step, *values):
        before = states.setdefault(id(state), (state, [state.output().clone()]))[1]
        touched = right(state, graph, step, *values)
        before.append(state.output().clone())
        return touched

    monkeypatch.setattr(kernels, "attention_increment_", recorded)
    kernels.bench("cpu", SMALL, Record(tmp_path / "kernels.json"))
    assert len(states) == 2
    for _, outputs in states.values():
        torch.testing.assert_close(outputs[2], outputs[0])
        torch.testing.assert_close(outputs[-1], outputs[0], rtol=1e-3, atol=1e-3)
        assert not torch.allclose(outputs[1], outputs[0])


class Clock:
    """Batches of `timing` on a device that is none: a call takes `enqueued` seconds, as a graph `captured`."""

    def __init__(self, monkeypatch, enqueued: float, captured: float = 1.0) -> None:
        self.rounds: list[int] = []
        took = {timing.STREAM: enqueued, timing.GRAPH: captured}
        monkeypatch.setattr(timing.Batch, "seconds", lambda batch: took[batch.how])
        monkeypatch.setattr(timing, "_captured", self.captured)

    def captured(self, calls, rounds):
        self.rounds.append(rounds)
        return lambda: None


def test_a_captured_batch_has_the_stated_length(monkeypatch):
    """Enqueued a call takes 100 us, most of it the host's; captured 4 us: the graph is made again, with enough of them."""
    clock = Clock(monkeypatch, 100e-6, 4e-6)
    (timing_,) = timing.measure({"ours": [lambda: None] * 2}, "cuda", 3, frozenset({"ours"})).values()
    assert clock.rounds == [50, 1250] and timing_["calls"] * 4e-6 >= timing.BATCH_S
    assert timing_["how"] == timing.GRAPH and timing_["repeats"] == 3


def test_a_capture_that_fails_is_noted_and_nothing_else_is_timed_in_its_place(monkeypatch):
    Clock(monkeypatch, 100e-6)

    def broken(calls, rounds):
        raise RuntimeError("operation not permitted when stream is capturing")

    monkeypatch.setattr(timing, "_captured", broken)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)
    timings = timing.measure({"ours": [lambda: None], "other": [lambda: None]}, "cuda", 3, frozenset({"ours"}))
    assert timings["ours"] == {"left_out": "RuntimeError: operation not permitted when stream is capturing"}
    assert timings["other"]["how"] == timing.STREAM


def test_a_slow_contestant_is_timed_twice(monkeypatch):
    clock, ran = Clock(monkeypatch, 0.3), []
    (timing_,) = timing.measure({"twin": [lambda: ran.append(1)]}, "cuda", 7, frozenset({"twin"})).values()
    assert timing_["repeats"] == 2 and timing_["ms"] == pytest.approx(300) and timing_["how"] == timing.STREAM
    assert clock.rounds == [] and len(ran) == 1


def test_targets_are_met_or_missed():
    def row(graph: str, share: float, rival: float) -> dict[str, object]:
        return {"graph": graph, "F": 64, "of_copy": {"aggregate": share}, "times": {"aggregate": {"ms": 2.0}, "dgl": {"ms": rival}}}

    crossed = {"graph": "uniform", "F": 64, "measured": 0.5, "predicted": 0.56, "error": 0.12}
    text = targets.of("kernels", {"whole": [row("uniform", 0.7, 3.0), row("skewed", 0.59, 2.7)], "crossover": [crossed]})
    assert text.splitlines() == [
        "- aggregate at F ≥ 64, at least 60% of a copy's bandwidth: **missed**, 59% (skewed, F = 64)",
        "- aggregate, at least 1.3 times as fast as other libraries' kernels: kept, 1.35 (dgl, skewed, F = 64)",
        "- crossover predicted within 10%: **missed**, 12.0% (uniform, F = 64)",
    ]
    agreed = {**crossed, "measured": NEVER, "predicted": NEVER, "error": None}
    assert "within 10%: kept" in targets.of("kernels", {"crossover": [agreed]})
    assert "**missed**" in targets.of("kernels", {"crossover": [{**agreed, "predicted": ALWAYS}]})
    assert targets.of("kernels", {}).count("not measured") == 2
    loss = {"model": "wd-gcn", "strategy": "psg", "difference": 2e-5}
    assert "kept, 2.0e-05 (wd-gcn psg)" in targets.of("losses", {"losses": [loss]})
    assert "**missed**, 1 could not be executed" in targets.of("losses", {"losses": [loss, {"model": "a", "strategy": "b", "error": "c"}]})


def test_the_operators_on_edges_beside_their_rivals(tmp_path):
    record = Record(tmp_path / "edges.json", part="edges", rehearsal=True)
    edges.bench("cpu", edges.Sizes(targets=(90,), widths=(8, 12), repeats=2), record)
    data = Record.read(record.path)
    assert {key: len(data[key]) for key in ("sums", "gathers", "shares")} == {"sums": 4, "gathers": 4, "shares": 2}
    assert all(len(data[key]) == 2 and data[key][0]["error"] < 1e-5 for key in ("slots", "gates", "encodings"))
    assert {"attend", "attend, both", "torch", "torch, both", "copy"} == data["slots"][0]["times"].keys()
    assert all(row["error"] < 1e-5 and row["edges"] > 300 for key in ("sums", "gathers", "shares") for row in data[key])
    assert {"by atomics", "ascending", "sorted first", "index_add_", "copy"} <= data["sums"][0]["times"].keys()
    text = tables.document({"edges": {**data, "status": "passed"}})
    assert text.count("| sampled | 90 |") == 5 + 6 and text.count("as fast as") == 2 and "not measured" not in text


def test_a_wrong_operator_on_edges_fails_the_part(monkeypatch, tmp_path):
    right = edges.edge_softmax
    monkeypatch.setattr(edges, "edge_softmax", lambda *given, **options: right(*given, **options) * 1.01)
    with pytest.raises(Failed, match=r"^2 wrong or not timed: shares, sampled, 90 targets, F = 8: Failed: shares and a softmax of torch's"):
        edges.bench("cpu", edges.Sizes(targets=(90,), widths=(8,), repeats=2), Record(tmp_path / "edges.json"))


def test_wrong_attention_to_slots_fails_the_part(monkeypatch, tmp_path):
    right = slots.attend
    monkeypatch.setattr(slots, "attend", lambda *given, backend=None: right(*given, backend=backend) * (1 if backend else 1.01))
    with pytest.raises(Failed, match=r"^1 wrong or not timed: slots, sampled, 90 targets, F = 8: Failed: attend and torch's operators"):
        edges.bench("cpu", edges.Sizes(targets=(90,), widths=(8,), repeats=2), Record(tmp_path / "edges.json"))


@pytest.mark.slow
def test_what_breaks_in_the_middle_costs_nothing_else(monkeypatch, tmp_path):
    monkeypatch.setattr(kernels, "crossover", lambda *_: {}["absent"])
    record = Record(tmp_path / "kernels.json")
    with pytest.raises(Failed, match="_crossover, uniform, F = 8: KeyError"):
        kernels.bench("cpu", SMALL, record)
    assert {"whole", "changes", "rebuild", "attention"} <= Record.read(record.path).keys()


def test_where_two_curves_meet():
    assert _root([0.1, 0.2, 0.4], [0.5, 0.9, 1.3]) == pytest.approx(0.25)
    assert _root([0.1, 0.2], [0.5, 0.9]) == NEVER and _root([0.1, 0.2], [1.5, 1.9]) == ALWAYS


def test_hubs_are_right_on_a_cpu_and_a_wrong_one_is_seen(monkeypatch, capsys):
    assert hubs.main("cpu") == 0 and capsys.readouterr().out.count(": error ") == 3 * (3 * 5 + 2) + 3 + 6 + 3
    right = hubs.aggregate
    monkeypatch.setattr(hubs, "aggregate", lambda graph, x, backend=None: right(graph, x, backend) * (1 if backend else 1.01))
    assert hubs.main("cpu") == 1 and "WRONG" in capsys.readouterr().out

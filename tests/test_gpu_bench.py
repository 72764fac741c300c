"""The benchmark of `make gpu` on a CPU, on small sizes: its graphs, its figures, its tables."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))

from gpu import hubs, kernels, losses, tables
from gpu.crossover import _root
from gpu.graphs import adjacency, change, drawn, flipped, keys_of
from gpu.place import Place
from gpu.record import Failed, Record

from chronoscale.cuda_ext.ops import aggregate as graph_sums
from chronoscale.cuda_ext.ops import rebuild


@pytest.mark.parametrize("skewed", [False, True])
def test_graphs_are_what_they_are_said_to_be(skewed):
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


def test_the_benchmark_runs_on_a_cpu(benched):
    """Every kernel beside its rivals, both graphs, every share; the sums agree with torch.sparse's."""
    assert [(row["graph"], row["F"]) for row in benched["whole"]] == [("uniform", 8), ("skewed", 8)]
    for row in benched["whole"]:
        assert row["error"] < 1e-5 and {"aggregate", "copy", "torch.sparse", "index_add_"} <= {
            w for w, t in row["times"].items() if "ms" in t
        }
        assert row["of_copy"]["aggregate"] * row["copy_gb_s"] == pytest.approx(row["gathered"] / row["times"]["aggregate"]["ms"] / 1e6)
        assert row["gathered"] == 8 * 301 + 4 * 4_000 + 4 * 8 * (4_000 + 300)  # row pointers, sources, a row of x for each, and the sums
    for row in benched["changes"]:
        rows, changed = row["rows"], row["changed"]
        assert row["moved"] == 4 * rows + 8 * (rows + 1) + 8 * changed + 4 * 8 * (changed + 3 * rows)
    assert len(benched["changes"]) == 2 * len(kernels.SHARES) and len(benched["crossover"]) == 2
    assert all(time["ms"] > 0 for row in benched["changes"] for time in row["times"].values())
    assert len(benched["attention"]) == 2 and len(benched["rebuild"]) == 4


def test_tables_are_made_of_the_json_alone(benched):
    text = tables.document({"kernels": {**benched, "status": "passed"}})
    assert text.startswith("**A rehearsal on a CPU")
    assert text.count("| uniform | 8 |") == 1 + len(kernels.SHARES) + 1 + 1 + 2
    assert tables.document({"kernels": {"status": "no device", "why": "torch says so"}}).count("torch says so") == 1


def test_a_rival_that_fails_is_said_and_ours_is_a_failure(monkeypatch, tmp_path):
    def refused(*_: object) -> object:
        raise RuntimeError("no kernel")

    monkeypatch.setattr(kernels, "rebuild", refused)
    record = Record(tmp_path / "kernels.json")
    with pytest.raises(Failed, match="rebuild: RuntimeError: no kernel"):
        kernels.bench("cpu", kernels.Sizes(nodes=100, edges=500, widths=(8,), repeats=2, graphs=("uniform",)), record)
    assert "- rebuild: RuntimeError: no kernel" in tables.kernels(record.data)


def test_wrong_sums_fail_the_part(monkeypatch, tmp_path):
    monkeypatch.setattr(kernels, "aggregate", lambda graph, x: graph_sums(graph, x) * 1.01)
    with pytest.raises(Failed, match=r"_whole, uniform, F = 8: Failed: sums differ from torch\.sparse's by 1\.0e-02"):
        sizes = kernels.Sizes(nodes=100, edges=500, widths=(8,), repeats=2, graphs=("uniform",))
        kernels.bench("cpu", sizes, Record(tmp_path / "kernels.json"))


def test_what_breaks_in_the_middle_costs_nothing_else(monkeypatch, tmp_path):
    monkeypatch.setattr(kernels, "crossover", lambda *_: {}["absent"])
    record = Record(tmp_path / "kernels.json")
    with pytest.raises(Failed, match="_crossover, uniform, F = 8: KeyError"):
        kernels.bench("cpu", kernels.Sizes(nodes=100, edges=500, widths=(8,), repeats=2, graphs=("uniform",)), record)
    assert {"whole", "changes", "rebuild", "attention"} <= Record.read(record.path).keys()


def test_where_two_curves_meet():
    assert _root([0.1, 0.2, 0.4], [0.5, 0.9, 1.3]) == pytest.approx(0.25)
    assert _root([0.1, 0.2], [0.5, 0.9]) is None and _root([0.1, 0.2], [1.5, 1.9]) is None


def test_hubs_are_right_on_a_cpu_and_a_wrong_one_is_seen(monkeypatch, capsys):
    assert hubs.main("cpu") == 0 and capsys.readouterr().out.count(": error ") == 3 * 3 * 3 + 3
    right = hubs.aggregate
    monkeypatch.setattr(hubs, "aggregate", lambda graph, x, backend=None: right(graph, x, backend) * (1 if backend else 1.01))
    assert hubs.main("cpu") == 1 and "WRONG" in capsys.readouterr().out


def test_losses_are_compared_strategy_by_strategy(monkeypatch, tmp_path):
    """The real jobs of a model; then losses that are off by 0.1 %."""
    job = next(losses.jobs(tmp_path / "losses", losses.REHEARSED))
    monkeypatch.setattr(losses, "jobs", lambda folder, sizes: iter([job]))
    place, record = Place(tmp_path / "out", "cpu", tmp_path / "work"), Record(tmp_path / "losses.json")
    losses.run(place, record)
    rows = record.data["losses"]
    assert {"psg", "esdg", "distdgl", "real-g+", "all map", "all delta"} <= {row["strategy"] for row in rows}
    assert all(row["difference"] == 0 and row["cpu"] > 0 for row in rows)
    found, factors = losses._losses, iter((1.001, 1))
    monkeypatch.setattr(losses, "_losses", lambda job, device: {k: v * f for f in [next(factors)] for k, v in found(job, device).items()})
    with pytest.raises(Failed, match=r"wd-gcn psg: 1\.0e-03"):
        losses.run(place, Record(tmp_path / "off.json"))

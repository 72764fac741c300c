"""Graphs of the operators' subjects, and how calls on a GPU are timed: on a CPU, on small sizes."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))

from core import turns
from rivals import reductions
from setups import graphs
from setups.graphs import adjacency, agreeing, change, changes, drawn, flipped, keys_of
from subjects import agreement

from chronoscale.cuda_ext.operators.aggregation import rebuild


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setitem(graphs.GRAPHS, "uniform", graphs.Size(500, 20_000))
    monkeypatch.setitem(graphs.GRAPHS, "skewed", graphs.Size(500, 20_000, True))


@pytest.mark.parametrize("name", ["uniform", "skewed"])
def test_graphs_are_what_they_are_said_to_be(name):
    graph = drawn(name).check()
    degree = graph.indptr.diff()
    assert graph.nnz == 20_000 and (degree.max() > 300) == (name == "skewed")
    step = change(graph, 0.1, 1).check()
    assert step.nnz == 2_000 and step.values is not None and step.values.sum() == 0
    target = torch.repeat_interleave(step.rows.long(), step.indptr.diff())
    gone = (target * 500 + step.indices)[step.values < 0]
    assert set(gone.tolist()) <= set(keys_of(graph).tolist())
    assert not torch.equal(step.indices, change(graph, 0.1, 2).indices)
    following = changes(graph, 0.1, 8)
    assert next(following) is next(following)  # of one on a CPU, whose cache holds any


def test_a_flipped_adjacency_is_the_rebuilt_one():
    before = adjacency(keys_of(drawn("skewed")), 500).check()
    step, after = flipped(before, 0.2)
    made, _ = rebuild(before, step.check(), weighted=False)
    assert 0 < int((step.sign < 0).sum()) < step.nnz
    assert torch.equal(made.indptr, after.indptr) and torch.equal(made.indices, after.indices)


def test_a_rival_that_computes_something_else_is_seen():
    x = torch.rand(500, 4)
    ways = reductions.sums(drawn("uniform"))
    assert list(agreeing({who: lambda way=way: way(x) for who, way in ways.items()})) == list(ways)
    with pytest.raises(AssertionError, match="other: results differ"):
        agreeing({"ours": lambda: x, "other": lambda: x * 1.01})


def test_a_rival_without_memory_is_left_out_and_named(monkeypatch, capsys):
    def no_memory() -> torch.Tensor:
        raise torch.OutOfMemoryError("no memory")

    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)
    assert list(agreeing({"ours": lambda: torch.ones(1), "other": no_memory})) == ["ours"]
    assert list(turns.time_calls({"ours": lambda: None, "other": no_memory}, 1, 1)) == ["ours"]
    assert capsys.readouterr().err.count("other is left out: it needs more memory than the device has") == 2


class Clock:
    """Events of a device that is none: a call takes `call_s`."""

    def __init__(self, monkeypatch, call_s: float) -> None:
        self.now, self.calls, self.waited = 0.0, 0, 0
        self.call_s = call_s
        clock = self

        class Event:
            def __init__(self, enable_timing: bool) -> None:
                self.at = 0.0

            def record(self) -> None:
                self.at = clock.now

            def synchronize(self) -> None:
                pass

            def elapsed_time(self, end: Event) -> float:
                return 1e3 * (end.at - self.at)

        monkeypatch.setattr(torch.cuda, "Event", Event)
        monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
        monkeypatch.setattr(torch.cuda, "_sleep", lambda cycles: setattr(clock, "waited", clock.waited + 1))
        monkeypatch.setattr(turns.time, "perf_counter", lambda: clock.now)

    def call(self) -> None:
        self.calls += 1
        self.now += self.call_s


def test_a_sample_on_a_device_is_enqueued_behind_a_wait(monkeypatch):
    """As many calls as fill a sample, between two events, once the device is kept busy."""
    clock = Clock(monkeypatch, 1e-3)
    assert turns.time_calls({"ours": clock.call}, 3, 1, "cuda") == {"ours": pytest.approx([1e-3] * 3)}
    assert clock.calls == 2 + 3 * 10 and clock.waited == 3


@pytest.mark.parametrize(("call_s", "passes", "calls"), [(0.3, 2, 2 + 2), (1e-6, 7, 2 + 7 * turns.MOST_CALLS)])
def test_a_slow_call_is_sampled_twice_and_a_quick_one_fills_no_queue(monkeypatch, call_s, passes, calls):
    clock = Clock(monkeypatch, call_s)
    assert len(turns.time_calls({"ours": clock.call}, 7, 1, "cuda")["ours"]) == passes
    assert clock.calls == calls


def test_every_strategy_is_named_for_the_models_that_take_it():
    assert {"psg", "esdg", "distdgl", "real-g+", "flaredtdg"} <= {*agreement.strategies_of("t-gcn")}
    assert not [name for name in agreement.strategies_of("gat-lstm") if name.startswith("flaredtdg")]
    for model, strategies in {**agreement.ON_TWO_RANKS, **agreement.CAPTURED}.items():
        assert {*strategies} <= {*agreement.strategies_of(model)}

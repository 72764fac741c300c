"""FAST's studies of its figures and tables by execution, counting and models: quick variants run, and say what they are."""

from functools import cache
from importlib import import_module
from typing import Any

import numpy as np
import pytest
import torch
from small_studies import study_of

from chronoscale.cuda_ext.sampling.cpu_topology import CpuTopology
from chronoscale.errors import UserError
from chronoscale.harness.reproduce import pages, registry
from chronoscale.harness.reproduce.registry import Kind
from chronoscale.harness.study.findings import Findings
from chronoscale.harness.study.hooks import fast_operators as operators
from chronoscale.harness.study.hooks import fast_threads as threads
from chronoscale.harness.study.hooks.fast_epochs import Epoch, epoch, largest
from chronoscale.real_exec.streams.models.model import stream_model
from chronoscale.strategies.streams.models import stream_shape

EVENTS = 60_000
SMALL = {"SHORT": EVENTS, "MOST": EVENTS, "NAMES": ["wikitalk", "bitcoin"]}


def run(kind: Kind, number: int, **names: Any) -> Findings:
    """On short stand-ins, without that of LastFM, which cannot be cut short."""
    findings = study_of("fast", kind, number, **{**SMALL, **names})
    assert any(note.startswith("Quick") for note in findings.notes)
    bytes_of = findings.rows["what"].str.contains("bytes over fast's")  # where fast sends nothing there is no ratio
    assert np.isfinite(findings.rows["ours"][~bytes_of].to_numpy(np.float64)).all()
    study = registry.find("fast", kind, number)
    assert study.title in pages.markdown(study, findings)
    return findings


def ours(findings: Findings) -> dict[str, float]:
    return dict(zip(findings.rows["what"], findings.rows["ours"], strict=True))


@cache
def figure_8() -> Findings:
    """Once, without real data."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CHRONOSCALE_DATA", "/nowhere")
        return run("figure", 8, DATASETS=["wikitalk", "us_flights_2001"])


@pytest.mark.slow
def test_figure_8() -> None:
    """Real data are absent here, which a note says; the curves begin and end where they have to."""
    findings = figure_8()
    assert any(note.startswith("Missing: dataset 'us_flights_2001'") for note in findings.notes)
    assert any("0.8" in what and "taser" in what for what in findings.rows["what"])
    values = ours(findings)
    volume = [values[f"wikitalk, {stage}, GiB"] for stage in ("uncompressed", "compressed", "compressed and cached")]
    assert volume == sorted(volume, reverse=True)
    assert values["wikitalk, greedy, all batches pre-sampled, % of the best split's hits"] == pytest.approx(100)
    points = findings.tables["ratios"].set_index(["strategy", "ratio"])["GiB"]
    for name in ("taser", "simple", "fast"):
        assert (np.diff(points[name].to_numpy()) <= 0).all(), "more room, no more bytes"
    assert points["taser", 0.0] == points["simple", 0.0] > points["fast", 0.0] > points["fast", 1.0] == 0 == points["taser", 1.0]
    assert values["(a) ratio 1, fast's seconds of compressing"] == 0 < values["(a) ratio 0.9, fast's seconds of compressing"]


def test_real_data_are_a_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match=r"dataset 'los_loop': (expected a stream of events|no file)"):
        epoch("los_loop", EVENTS)


@pytest.mark.slow
def test_volumes_that_are_printed() -> None:
    """21 of 49 and 13 of 49 GB; and what Table 1 leaves of 49."""
    findings = figure_8()
    shares = findings.rows.set_index("what")["published"]
    assert shares["wikitalk, compressed, % of what is sampled"] == pytest.approx(42.857, abs=1e-3)
    assert shares["wikitalk, compressed and cached, % of what is sampled"] == pytest.approx(26.53, abs=1e-2)
    assert any("of 49 GB 4.4 to 13.2 by compression alone, not 21" in note for note in findings.notes)


@pytest.mark.slow
def test_figure_9() -> None:
    findings = run("figure", 9)
    assert len(findings.rows) in (2, 6)  # without DGL, with it
    assert (findings.tables["times"]["ms"] > 0).all()


def test_contestants_compute_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gradients, too."""
    graph = largest(epoch("wikitalk", EVENTS))
    made: dict[tuple[str, str], torch.Tensor] = {}
    for (what, who), call in operators.contestants(graph).items():
        torch.manual_seed(0)
        made[what, who] = call()[0]  # type: ignore[index]
    assert {what for what, _ in made} == {"aggregation", "edge softmax"} and len(made) in (3, 5)


@pytest.mark.slow
@pytest.mark.parametrize("number", [2, 5])
def test_tables_of_kernels(number: int) -> None:
    values = ours(run("table", number))
    shares = {what: value for what, value in values.items() if what.endswith("%")}
    assert shares and all(0 <= value <= 100 for value in shares.values())
    assert all(0 < value <= 64 for what, value in values.items() if "an SM" in what or "a warp" in what)


@pytest.mark.slow
def test_figure_2() -> None:
    findings = run("figure", 2)
    values = ours(findings)
    assert values["(a) aggregation and edge softmax, % of the forward pass"] > 0
    assert any("(b) is not reached" in note for note in findings.notes)
    assert findings.tables["threads"]["threads"].tolist() == [1, 2, 3, 4]


@pytest.mark.slow
def test_operators_of_a_pass_have_its_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is timed apart is called with as many rows and columns as the model itself calls it with."""
    one = epoch("wikitalk", EVENTS)
    model, data = stream_model(stream_shape(operators.MODEL, one.width, one.width, 0, 1), 0), operators.batch(one)
    model.operators = "nodes"
    edgewise = import_module("chronoscale.real_exec.streams.models.edgewise")
    called: dict[str, list[tuple[int, ...]]] = {"apart": [], "edgewise": []}

    def seen(module: object, where: str) -> None:
        for name, at in (("aggregate", 1), ("edge_softmax", 0)):
            real = getattr(module, name)

            def recording(*args: torch.Tensor, real=real, at: int = at, **options: object) -> torch.Tensor:
                called[where].append(tuple(args[at].shape))
                return real(*args, **options)

            monkeypatch.setattr(module, name, recording)

    seen(edgewise, "edgewise")
    seen(operators, "apart")
    with torch.no_grad():
        operators.passed(model, data)
        for call in operators.operators(model, data).values():
            call()
    assert sorted(called["apart"]) == sorted(called["edgewise"]) and len(called["apart"]) == 6


@pytest.mark.slow
def test_figure_10() -> None:
    findings = run("figure", 10, BATCHES=3)
    values = ours(findings)
    for level in ("L2", "L3"):
        assert 0 < values[f"(b) wikitalk, tgl, {level} hits, %"] <= 100
    assert values["(b) wikitalk, topology-aware, chunks, L2 hits, %"] > values["(b) wikitalk, tgl, L2 hits, %"]
    printed = findings.rows.set_index("what")["published"]
    assert printed["(b) wikitalk, tgl, L2 hits, %"] == 41 and printed["(b) wikitalk, topology-aware, chunks, L2 hits, %"] == 51
    assert printed["(a) unbound over bound, lowest"] == 1.14 and printed["(a) unbound over bound, highest"] == 1.46


def test_the_paper_server() -> None:
    server: CpuTopology = threads.SERVER
    assert len(server) == 80 and [len(server.groups(level)) for level in ("core", "l2", "l3", "socket")] == [40, 40, 2, 2]
    assert all(len(group) == 2 for group in server.groups("core"))
    places = threads.scattered(server, 40, 3, 0)
    cores = {cpu.number: cpu.core for cpu in server.cpus}
    assert all(len({cores[cpu] for cpu in batch}) == 40 for batch in places) and places[0] != places[1]


def test_roots_of_the_last_batches() -> None:
    one: Epoch = epoch("wikitalk", EVENTS)
    roots = threads.roots(one, 3)
    stream, size = one.data.training.stream, one.deal.size
    last = len(one.deal.part) // size * size
    assert [int(before[0]) for _, before in roots] == [last - 3 * size, last - 2 * size, last - size]
    for node, before in roots:
        assert node.size == before.size == 3 * size
        np.testing.assert_array_equal(node[:size], stream.src[int(before[0]) : int(before[0]) + size])

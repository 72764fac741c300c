"""`dataset.graph` and `--graph`: what people write and are told; a model that reads the graph is not trained without one."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command_line import command, one_line

from chronoscale.batching.signals.windows import Windows
from chronoscale.datasets import store
from chronoscale.datasets.generate.traffic import TrafficSignal
from chronoscale.datasets.signals.signal import Signal
from chronoscale.errors import UserError
from chronoscale.harness.keys.experiment_files import check
from chronoscale.harness.workflows.signals.data import load_signal

SMALL = {"training": {"batch_size": 8, "window": 4, "horizon": 3, "batches": 2}, "strategies": ["index"], "ranks": [1], "epochs": 1}
NONE = np.zeros((2, 0), np.int32)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder to work in: readings of 12 sensors without an edge, and where they stand."""
    monkeypatch.chdir(tmp_path)
    values = TrafficSignal(12, 120, seed=1).signal().values.copy()
    store.save("bare", Signal(values, NONE, node_ids=np.arange(100, 112)))
    rng = np.random.default_rng(0)
    pd.DataFrame({"id": np.arange(100, 112), "lat": 34 + rng.random(12), "lon": -118 + rng.random(12)}).to_csv("places.csv", index=False)
    return tmp_path


def written(name: str = "x.yaml", model: str = "dcrnn", **dataset: object) -> Path:
    keys = {"dataset": {"path": "bare", **dataset}, "model": {"name": model, "hidden": 4}, **SMALL}
    Path(name).write_text(json.dumps(keys))
    return Path(name)


@pytest.mark.parametrize("model", ["dcrnn", "pgt-dcrnn", "a3t-gcn"])
def test_a_model_that_reads_a_graph_asks_for_one(folder, capsys, model):
    for order in ("train", "simulate", "bench"):
        command(order, written(model=model), expect=2)
        line = one_line(capsys)
        assert f"dataset 'bare' has no edge between sensors, and model '{model}' reads the graph" in line
        assert "{graph: {kind: distance, path: FILE}}" in line and "(knn, correlation, grid, file)" in line
        assert "kind: none says that this is meant; models that do without: st-transformer" in line
    assert not Path("runs").exists()


def test_self_loops_are_no_graph(folder, capsys):
    loops = np.tile(np.arange(12, dtype=np.int32), (2, 1))
    store.save("loops", replace(store.load("bare"), edge_index=loops))
    command("train", written(path="loops"), expect=2)
    assert "dataset 'loops' has no edge between sensors" in one_line(capsys)


def test_a_model_without_a_graph_asks_for_none(folder, inline, capsys):
    command("train", written(model="st-transformer", time_of_day=24))
    assert "edge" not in capsys.readouterr().err


@pytest.mark.parametrize(
    "graph",
    [
        {"kind": "distance", "path": "places.csv"},
        {"kind": "knn", "path": "places.csv", "neighbours": 3},
        {"kind": "correlation", "threshold": 0.1},
        {"kind": "grid", "rows": 3, "columns": 4},
        {"kind": "none"},
    ],
)
def test_a_graph_of_a_kind_is_trained_on(folder, inline, graph):
    command("train", written(graph=graph))
    stored = store.load("runs/x-train-1/data/signal")
    assert isinstance(stored, Signal)
    assert (stored.edge_index.shape[1] > 0) == (graph["kind"] != "none") and str(stored.account["graph"]).startswith(graph["kind"])


@pytest.mark.slow
def test_other_places_begin_another_run(folder, inline, capsys):
    file = written(graph={"kind": "knn", "path": "places.csv", "neighbours": 2})
    command("simulate", file)
    status = Path("runs/x-simulate-1/status.json")
    status.write_text(status.read_text().replace("complete", "running"))
    table = pd.read_csv("places.csv")
    table.assign(lat=table["lat"][::-1].to_numpy()).to_csv("places.csv", index=False)
    capsys.readouterr()
    command("simulate", file)
    assert "taking up" not in capsys.readouterr().err and Path("runs/x-simulate-2").exists()
    digests = [json.loads(Path(f"runs/x-simulate-{n}/environment.json").read_text())["places.csv"] for n in (1, 2)]
    assert digests[0] != digests[1]


def test_advice_finds_the_file_from_anywhere(folder, capsys):
    keys = json.loads(written(graph={"kind": "knn", "path": "places.csv", "neighbours": 2}).read_text())
    Path("x.yaml").write_text(json.dumps({**keys, "gpus": [1]}))
    command("advise", "x.yaml", "--json")
    assert json.loads(capsys.readouterr().out)["points"][0]["rank"] == 1


def test_the_correlation_of_an_experiment_sees_training_alone(folder):
    """Of the windows that it has: what comes after their training steps changes nothing, the last of these does."""
    graph, keys = {"kind": "correlation", "threshold": 0.05}, {"model": "dcrnn", "training": {"window": 5, "horizon": 9}}
    values = store.load("bare").values.copy()
    until = Windows(120, 5, 9).training_steps
    graphs = []
    for number, first in enumerate((until, until - 1, None)):
        changed = values.copy()
        if first is not None:
            changed[first:] = np.random.default_rng(5).normal(size=changed[first:].shape) * 1e5
        store.save(f"late{number}", Signal(changed, NONE))
        signal = load_signal(check({**keys, "dataset": {"path": f"late{number}", "graph": graph}}, "x"))
        graphs.append((signal.edge_index.tolist(), signal.edge_weight.tolist()))
        assert str(signal.account["graph"]).startswith(f"correlation of the first {until} steps")
    assert graphs[0] == graphs[2] != graphs[1]


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        ({"kind": "knn"}, "x: graph.path: kind knn needs it"),
        ({"kind": "knn", "path": "a", "rows": 3}, "x: graph.rows: kind knn does not read it; it reads path, names, neighbours, sigma"),
        ({"kind": "none", "path": "a"}, "x: graph.path: kind none does not read it; it reads nothing"),
        ({"kind": "grid", "rows": 2}, "x: graph.columns: kind grid needs it"),
        ({"kind": "grid", "rows": 2, "columns": 2, "neighbours": 5}, "x: graph.neighbours: on a grid 4 or 8, got 5"),
        ({"kind": "near"}, "x: dataset.graph.kind: expected 'distance', 'knn', 'correlation', 'grid', 'file' or 'none' (got 'near')"),
        ({"kind": "correlation", "threshold": 2}, "x: dataset.graph.threshold: expected at most 1 (got 2)"),
        ({"kind": "knn", "paht": "a"}, "x: unknown key 'dataset.graph.paht'; did you mean 'dataset.graph.path'?"),
    ],
)
def test_mistakes_in_keys_are_one_line(graph, message):
    with pytest.raises(UserError) as caught:
        check({"dataset": {"path": "p", "graph": graph}, "model": "dcrnn"}, "x")
    assert str(caught.value) == message


def test_a_graph_is_for_signals_that_are_at_hand(folder, capsys):
    with pytest.raises(UserError, match=r"dataset\.graph: for signals alone"):
        check({"dataset": {"name": "growth_small", "graph": {"kind": "none"}}, "model": "t-gcn"}, "x")
    keys = {"dataset": {"name": "pems", "graph": {"kind": "correlation"}}, "model": "dcrnn", "gpus": [1], "strategies": ["index"]}
    Path("x.yaml").write_text(json.dumps(keys))
    command("simulate", "x.yaml", expect=2)
    assert "dataset.graph: the readings of 'pems' are not at hand" in one_line(capsys)


def info(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[str, object]:
    command("data", "info", *arguments, "--json")
    return {row["what"]: row["value"] for row in json.loads(capsys.readouterr().out)}


def test_info_counts_and_draws_the_graph_that_it_is_asked_for(folder, capsys):
    shown = info(capsys, "bare")
    assert (shown["edges"], shown["neighbours a sensor"], shown["isolated sensors"], shown["components"]) == (0, 0, 12, 12)
    shown = info(capsys, "bare", "--graph", "{kind: grid, rows: 3, columns: 4}", "--picture", "grid.svg")
    assert (shown["edges"], shown["neighbours a sensor"], shown["isolated sensors"], shown["components"]) == (34, 34 / 12, 0, 1)
    assert "34 edges" in Path("grid.svg").read_text() and "mean 2.8, 0 without one" in Path("grid.svg").read_text()
    for keys in ("{kind: distance, path: places.csv}", "{kind: none}", "{kind: correlation, threshold: 0.1}"):
        info(capsys, "bare", "--graph", keys, "--picture", "p.png")
        info(capsys, "bare", "--graph", keys, "--picture", "p.svg")
        assert ("longitude" in Path("p.svg").read_text()) == ("places" in keys) and Path("p.png").exists()
    command("data", "info", "bare")
    out = capsys.readouterr().out
    assert "12: 100, 101, 102, 103, 104, …" in out and "0.0 in the mean, 0 at most" in out


def test_convert_stores_the_graph_that_an_experiment_would_build(folder, capsys):
    command("data", "convert", "bare", "near", "--graph", "{kind: knn, path: places.csv, neighbours: 3}")
    assert "graph: knn by places.csv: the 3 nearest, both ways, sigma " in " ".join(capsys.readouterr().err.split())
    graph = {"kind": "knn", "path": "places.csv", "neighbours": 3}
    built = load_signal(check({"dataset": {"path": "bare", "graph": graph}, "model": "dcrnn"}, "x"))
    stored = store.load("near")
    assert np.array_equal(stored.edge_index, built.edge_index) and np.array_equal(stored.edge_weight, built.edge_weight)
    command("data", "convert", "bare", "along", "--graph", "{kind: correlation, threshold: 0.1}")
    assert store.load("along").account["graph"].startswith(f"correlation of the first {Windows(120, 12, 12).training_steps} steps")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--graph", "knn"], "--graph knn: expected keys and values, such as '{kind: knn, path: sensors.csv, neighbours: 8}'"),
        (["--graph", "{kind: ["], "--graph {kind: [: expected keys and values"),
        (["--graph", "{kind: knn}"], "--graph: graph.path: kind knn needs it"),
        (["--graph", "{kind: knn, path: gone.csv}"], "graph: gone.csv: no such file"),
        (["--graph", "{kind: grid, rows: 1, columns: 1}"], "graph: a grid of 1 x 1 = 1 places, and there are 12 sensors"),
        (["--picture", "p.pdf"], "--picture p.pdf: expected a name that ends in .svg or .png"),
        (["--picture", "nowhere/p.svg"], "--picture nowhere/p.svg: no such file or directory"),
    ],
)
def test_mistakes_on_the_command_line_are_one_line(folder, capsys, arguments, message):
    command("data", "info", "bare", *arguments, expect=2)
    assert one_line(capsys).startswith(f"error: {message}")


def test_a_graph_of_what_has_no_sensors_is_refused(folder, capsys):
    Path("e.txt").write_text("1 2 3\n2 3 4\n")
    for arguments in (("info", "e.txt"), ("convert", "e.txt", "out")):
        command("data", *arguments, "--graph", "{kind: none}", expect=2)
        assert "--graph: for readings of sensors alone, and this dataset has none" in one_line(capsys)
    command("data", "info", "pems", "--graph", "{kind: none}", expect=2)
    assert "dataset 'pems' is not at hand, so that there is no graph of its sensors" in one_line(capsys)
    assert not Path("out").exists()


def test_the_calendar_is_no_reading(folder, capsys):
    """Half of a channel's readings are missing, whatever tells the time beside it."""
    values = np.ones((40, 5, 1))
    values[::2] = np.nan
    store.save("half", Signal.from_readings(values, NONE))
    keys = {"dataset": {"path": "half", "time_of_day": 24, "graph": {"kind": "none"}}, "model": {"name": "dcrnn", "hidden": 4}, **SMALL}
    Path("x.yaml").write_text(json.dumps(keys))
    command("simulate", "x.yaml")
    assert "100 of 200 readings are missing (50.00%)" in " ".join(capsys.readouterr().err.split())
    signal = load_signal(check(keys, "x"))
    store.save("dated", signal)
    command("data", "info", "dated")
    assert "100 (50.00%)" in capsys.readouterr().out

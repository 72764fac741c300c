"""`data make`, `data get` and `data info`: what they write and say, and one line for what is wrong."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import command, one_line
from numpy.testing import assert_array_equal

from chronoscale.datasets import catalogue, store
from chronoscale.datasets.generate import generators
from chronoscale.datasets.generate.dygraph import EvolvingGraph
from chronoscale.datasets.generate.events import RandomStream
from chronoscale.datasets.generate.traffic import TrafficSignal
from chronoscale.datasets.signals.signal import Signal
from chronoscale.datasets.streams.statistics import stream_shape
from chronoscale.errors import UserError
from chronoscale.harness.keys import experiment_files
from chronoscale.harness.workflows.registry import WORKFLOWS

CITY = "{kind: traffic, sensors: 300, steps: 2_000, channels: 2, missing: 0.05, seed: 4}"  # three blocks


def json_output(capsys: pytest.CaptureFixture[str], *arguments: object) -> Any:
    capsys.readouterr()
    command(*arguments, "--json")
    return json.loads(capsys.readouterr().out)


def info(capsys: pytest.CaptureFixture[str], name: object) -> dict[str, Any]:
    return {row["what"]: row["value"] for row in json_output(capsys, "data", "info", name)}


def test_a_signal_is_made_from_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "city.yaml"
    file.write_text(CITY)
    assert json_output(capsys, "data", "make", file, tmp_path / "a") == {"folder": str(tmp_path / "a")}
    command("data", "make", file, tmp_path / "b", "--seed", 5)
    for folder, seed in (("a", 4), ("b", 5)):
        made, generated = store.load(tmp_path / folder), TrafficSignal(300, 2_000, 2, 0.05, seed=seed, name="city").signal()
        assert (made.name, made.verified) == ("city", True)
        for field in ("values", "missing", "edge_index", "edge_weight"):
            assert_array_equal(getattr(made, field), getattr(generated, field))
    command("data", "make", file, tmp_path / "a", expect=2)
    assert "already exists" in one_line(capsys)


def test_snapshots_are_made_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "g.yaml"
    file.write_text("{kind: dygraph, nodes: 50, edges: 40, snapshots: 30, seed: 3, name: town}")
    command("data", "make", file, tmp_path / "d")
    made, generated = store.load(tmp_path / "d"), EvolvingGraph(50, 40, 30, seed=3).sequence()
    assert made.name == "town"
    assert_array_equal(made.ptr, generated.ptr)
    assert_array_equal(made.src, generated.src)


def test_events_are_made_from_a_file_and_described(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "talk.yaml"
    file.write_text("{kind: events, nodes: 90, items: 30, events: 2_000, pairs: 400, features: 3, node_features: 2, labels: 0.1, seed: 3}")
    command("data", "make", file, tmp_path / "d")
    generated = RandomStream(90, 2_000, 400, 30, features=3, node_features=2, labels=0.1, seed=3).stream()
    assert_array_equal(store.load(tmp_path / "d").node_features, generated.node_features)
    capsys.readouterr()
    shown = info(capsys, tmp_path / "d")
    assert (shown["nodes with an event"], shown["events"], shown["distinct pairs"], shown["repetition"]) == (90, 2_000, 400, 0.8)
    assert (shown["features"], shown["node features"], shown["distinct labels"]) == (3, 2, 2)
    measured = stream_shape(generated)
    assert (shown["source skew"], shown["destination skew"], shown["burstiness"]) == measured[1:]
    command("data", "info", tmp_path / "d")
    text = capsys.readouterr().out
    assert "80.00% of the events" in text and "Zipf exponent" in text and "(-1 even, 0 Poisson, 1 bursts)" in text


@pytest.mark.parametrize("name", ["traffic_small", "growth_small", "events_small"])
def test_a_generated_dataset_is_made_by_name(tmp_path: Path, name: str) -> None:
    command("data", "make", name, tmp_path / "made", "--seed", 2)
    command("data", "get", name, tmp_path / "got", "--seed", 2)
    store.save(tmp_path / "held", catalogue.load(name, 2))
    for file in (tmp_path / "held").glob("*.npy"):
        assert (tmp_path / "made" / file.name).read_bytes() == (tmp_path / "got" / file.name).read_bytes() == file.read_bytes()
    assert store.load(tmp_path / "made").name == store.load(tmp_path / "got").name == name


def test_a_longer_signal_takes_no_more_memory(tmp_path: Path) -> None:
    peaks = []
    for steps in (1_000, 6_000):
        progress: list[int] = []
        tracemalloc.start()
        generators.write_dataset(tmp_path / str(steps), TrafficSignal(1_000, steps, missing=0.02), progress.append)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert progress[-1] == steps and len(progress) > 2 and progress == sorted(progress)
    assert peaks[1] < 1.2 * peaks[0] < 6_000 * 1_000 * 4


def test_an_interrupted_write_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(TrafficSignal, "_lose", interrupted)
    command("data", "make", "traffic_small", tmp_path / "d", expect=130)
    assert capsys.readouterr().err.startswith("interrupted while writing")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{kind: trafic}", "kind: unknown generator 'trafic'; did you mean 'traffic'?"),
        ("{sensors: 5}", "expected keys and values with a kind: growth, dygraph, communities, traffic, events, sessions"),
        ("traffic", "expected keys and values with a kind"),
        ("[1", "not valid YAML: "),
        ("\x00", "not valid YAML: "),
        ("{kind: traffic, sensor: 5, steps: 3}", "unknown key 'sensor'; did you mean 'sensors'?"),
        ("{kind: traffic, nodes: 5, steps: 3}", "unknown key 'nodes'; "),
        ("{kind: traffic, 5: 5}", "expected text as a key, got 5"),
        ("{kind: traffic, sensors: 5, steps: 3, sed: 1}", "unknown key 'sed'; did you mean 'seed'?"),
        ("{kind: traffic, sensors: 5}", "steps: required, and not there"),
        ("{kind: traffic, sensors: 0, steps: 3}", "sensors: expected more than 0 (got 0)"),
        ("{kind: traffic, sensors: true, steps: 3}", "sensors: expected a whole number (got true)"),
        ("{kind: traffic, sensors: 5, steps: 3, channels: 3}", "channels: expected 1 or 2 (got 3)"),
        ("{kind: traffic, sensors: 5, steps: 3, missing: 1}", "missing: expected less than 1 (got 1)"),
        ("{kind: traffic, sensors: 5, steps: 3, seed: -1}", "seed: expected at least 0 (got -1)"),
        ("{kind: traffic, sensors: 5, steps: 3, name: 7}", "name: expected text (got 7)"),
        ("{kind: traffic, sensors: 3_000_000_000, steps: 3}", "num_nodes: expected 0..2147483647, got 3000000000"),
        ("{kind: events, nodes: 5, events: 9}", "pairs: required, and not there"),
        ("{kind: events, nodes: 5, events: 9, pairs: 6, skew: 1}", "unknown key 'skew'; "),
        ("{kind: events, nodes: 5, events: 9, pairs: 6, burstiness: 1}", "burstiness: expected at most 0.9 (got 1)"),
        ("{kind: events, nodes: 5, events: 9, pairs: 6, span: .nan}", "span: expected "),
        ("{kind: events, nodes: 5, events: 9, pairs: 21}", "events: pairs expected in 5..20, so that every node is in one, got 21"),
        ("{kind: events, nodes: 5, events: 9, pairs: 10}", "events: expected at least one for each of 10 pairs, got 9"),
        ("{kind: events, nodes: 5, items: 4, events: 9, pairs: 6}", "events: expected 2 nodes or more, and no items or 2 and 2 others"),
        ("{kind: dygraph, nodes: 5, edges: 3, snapshots: 3}", "evolving graph: expected at least 1 snapshot and 10 nodes"),
    ],
)
def test_a_mistake_in_a_file_is_one_line(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "s.yaml"
    file.write_text(text)
    with pytest.raises(UserError) as caught:
        generators.read_generator(file)
    assert str(caught.value).startswith(f"{file}: {message}") and "\n" not in str(caught.value)


def test_what_cannot_be_made_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "latin.yaml").write_bytes(b"name: \xe9")
    for what, message in (
        (tmp_path / "latin.yaml", "latin.yaml: not text in UTF-8"),
        (tmp_path / "gone.yaml", "gone.yaml: no such file"),
        ("trafic_small", "unknown dataset 'trafic_small'; did you mean 'traffic_small'?"),
        ("los_loop", "dataset 'los_loop' is local, not generated"),
        ("pems", "dataset 'pems' is published, not generated"),
    ):
        command("data", "make", what, tmp_path / "d", expect=2)
        assert message in one_line(capsys)
    assert not (tmp_path / "d").exists()


def test_info_counts_what_is_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    values = np.arange(40 * 8 * 2, dtype=np.float32).reshape(40, 8, 2)
    values[:, 1:7, 0] = np.nan
    values[3, 0, 1] = np.nan
    ids = np.arange(100, 108)
    for node_ids, named in ((None, "1, 2, 3, 4, 5, …"), (ids, "101, 102, 103, 104, 105, …")):
        store.save(tmp_path / "d", Signal.from_readings(values, np.zeros((2, 3), np.int32), node_ids=node_ids))
        shown = info(capsys, tmp_path / "d")
        assert (shown["sensors"], shown["steps"], shown["channels"], shown["edges"]) == (8, 40, 2, 3)
        assert (shown["missing readings"], shown["sensors without a reading"]) == (241, 6)
        command("data", "info", tmp_path / "d")
        text = capsys.readouterr().out
        assert "241 (37.66%)" in text and f"6: {named}" in text
        (tmp_path / "d").rename(tmp_path / f"before {node_ids is None}")
    assert shown["bytes, one array (float32)"] == values.nbytes
    copied = np.stack([values[at : at + 24] for at in range(17)])
    assert shown["bytes, windows copied, eq. 1 (float32, horizon 12)"] == copied.nbytes
    assert shown["bytes, index-batching, eq. 2 (float32, horizon 12)"] == values.nbytes + 17 * 8


def test_info_of_a_signal_too_short_for_a_window_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store.save(tmp_path / "d", Signal(np.ones((23, 2, 1)), np.zeros((2, 0), np.int32)))
    shown = info(capsys, tmp_path / "d")
    assert shown["bytes, one array (float64)"] == 368
    assert shown["bytes, windows copied, eq. 1 (float64, horizon 12)"] is None
    command("data", "info", tmp_path / "d")
    printed = " ".join(capsys.readouterr().out.split())
    assert "23 steps is shorter than window 12 + horizon 12; say how many are to be read and predicted" in printed
    assert shown["sensors without a reading"] == 0


def test_info_of_published_counts_uses_their_horizon(capsys: pytest.CaptureFixture[str]) -> None:
    shown = info(capsys, "windmill_large")
    assert shown["bytes, one array (published counts, float64)"] == 17_472 * 319 * 8
    assert shown["bytes, windows copied, eq. 1 (published counts, float64, horizon 8)"] == 2 * (17_472 - 15) * 8 * 319 * 8
    assert shown["bytes, index-batching, eq. 2 (published counts, float64, horizon 8)"] == 17_472 * 319 * 8 + (17_472 - 15) * 8
    assert not [what for what in info(capsys, "gdelt") if "bytes" in what]
    assert [what for what in info(capsys, "traffic_small") if "horizon 12" in what]


SIGNED = "6,2,4,1289241911\n6,5,-2,1289241941\n6,6,1,1289241950\n6,6,1,1289241950\n"
USUAL = "columns=src,dst,weight,time"


def test_info_says_what_was_understood(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "a b.csv"
    file.write_text(SIGNED)
    command("data", "info", file, expect=2)
    assert "4 fields ('6,2,4,1289241911')" in one_line(capsys)
    shown = {row["what"]: row["value"] for row in json_output(capsys, "data", "info", file, "--option", USUAL)}
    assert (shown["reader"], shown["files"], shown["columns"]) == ("plain", ["a b.csv"], ["src", "dst", "weight", "time"])
    assert (shown["first time"], shown["last time"], shown["events"], shown["nodes"]) == (1289241911, 1289241950, 4, 3)
    assert (shown["self-loops"], shown["repeated events"], shown["distinct pairs"], shown["dropped"]) == (2, 1, 3, [])
    command("data", "info", file, "--option", "columns=src,dst,_rating,time")
    text = capsys.readouterr().out
    assert "1,289,241,911 (2010-11-08 18:45:11 UTC, as seconds)" in text and "column 3 (rating)" in text
    file.write_text("1 2\n2 3\n")
    command("data", "info", file)
    assert "the order of the events, from 0 on" in (text := capsys.readouterr().out) and "UTC" not in text


def test_files_of_one_stream_are_converted_together_and_the_folder_remembers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, lines in (("b.csv", SIGNED), ("a b.csv", SIGNED.replace("12892419", "12892418"))):
        (tmp_path / name).write_text(lines)
    files = (tmp_path / "b.csv", tmp_path / "a b.csv")
    command("data", "convert", *files, tmp_path / "d", "--option", USUAL, "--strict", expect=2)
    assert "a b.csv:1: time 1289241811 is before" in one_line(capsys)
    command("data", "convert", *files, tmp_path / "told", "--option", USUAL)
    said_so = " ".join(capsys.readouterr().err.split())
    assert "warning: " in said_so and "order: sorted by time: 1 of 8 events came after a later one" in said_so
    made = json_output(capsys, "data", "convert", *files, tmp_path / "d", "--option", USUAL, "--sort")
    assert made["folder"] == str(tmp_path / "d") and made["columns"] == ["src", "dst", "weight", "time"]
    assert len(store.load(tmp_path / "d")) == 8
    shown = info(capsys, tmp_path / "d")
    assert (shown["reader"], shown["files"], shown["events"]) == ("plain", ["b.csv", "a b.csv"], 8)
    command("data", "convert", *files, tmp_path / "e", "--option", USUAL, "--sort")
    caught = capsys.readouterr()
    assert caught.out.strip() == str(tmp_path / "e") and "columns: src, dst, weight, time" in caught.err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ["--option", "srot=true"],
            "unknown option of format 'plain': 'srot'; did you mean 'sort'? valid: bipartite, columns, skip, sort, strict",
        ),
        (["--option", "sort"], "--option sort: expected NAME=VALUE"),
        (["--strict", "--sort"], "a.txt: sort and strict exclude each other: one sorts, the other refuses"),
        (["--option", "sort=false", "--sort"], "--option sort=false: sort is given twice"),
        (["--option", "skip=two"], "option skip: expected a whole number"),
        (["--format", "konekt"], "unknown format 'konekt'; did you mean 'konect'?"),
    ],
)
def test_options_that_were_not_understood_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], message: str
) -> None:
    (tmp_path / "a.txt").write_text("1 2 3\n")
    for where in (("convert", tmp_path / "a.txt", tmp_path / "d"), ("info", tmp_path / "a.txt")):
        command("data", *where, *options, expect=2)
        assert message in one_line(capsys)
    command("data", "info", "uci_messages", "--sort", expect=2)
    assert "the catalogue says how this dataset is read" in one_line(capsys)


def test_a_folder_without_a_dataset_says_what_it_lacks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "graph.txt").write_text("1 2 3\n")
    command("data", "info", tmp_path, expect=2)
    line = one_line(capsys)
    assert "no meta.json, which `chronoscale data convert` writes with the arrays (.npy)" in line and "it holds graph.txt" in line


@pytest.mark.parametrize(
    ("dataset", "message"),
    [
        ({"options": {"columns": ["src", "dst", "weight", "time"]}}, ""),
        ({"options": {"columns": "src,dst,_,time", "sort": True}}, ""),
        ({}, "4 fields ('6,2,4,1289241911')"),
        ({"options": {"colums": "src,dst,_,time"}}, "did you mean 'columns'?"),
        ({"path": None, "name": "uci_messages", "options": {"sort": True}}, "options: for a path; the catalogue says how"),
        ({"path": None, "name": "uci_messages", "format": "plain"}, "format: for a path"),
        ({"path": []}, "path: expected at least one file"),
    ],
)  # fmt: skip
def test_an_experiment_reads_with_the_same_options(tmp_path: Path, dataset: dict[str, Any], message: str) -> None:
    (tmp_path / "a b.csv").write_text(SIGNED * 20)
    given = {"path": str(tmp_path / "a b.csv"), "cut": {"count": 10}, **dataset}
    if "options" in dataset:
        given["options"] = {"sort": True, **dataset["options"]}
    keys = {"dataset": {key: value for key, value in given.items() if value is not None}, "model": "wd-gcn", "strategies": ["psg"]}

    def statistics() -> int:
        experiment = experiment_files.check(keys, "e.yaml")
        return len(WORKFLOWS["snapshots"].workload(experiment).snapshots)

    if not message:
        assert statistics() == 8
        return
    with pytest.raises(UserError) as caught:
        statistics()
    assert message in str(caught.value)


def test_the_list_in_json_has_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    rows = {row["name"]: row for row in json_output(capsys, "data", "list")}
    assert rows["arxiv"]["nodes"] == 169_300 and rows["uci_messages"]["nodes"] is None
    assert info(capsys, "arxiv")["published (real, table 3)"]["nodes"] == 169_300

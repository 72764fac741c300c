"""`data look`: ten lines on what a file would be read as, and a command that does so; or a question, with a command for each answer."""

from __future__ import annotations

import json
import shlex
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from command_line import command, one_line
from table_files import write_table

from chronoscale.datasets import store
from chronoscale.datasets.convert import snapshots_by_count, snapshots_by_width
from chronoscale.datasets.node_names import name_nodes
from chronoscale.datasets.snapshots.sequence import SnapshotSequence
from chronoscale.datasets.streams.events import EventStream
from chronoscale.harness.data.opening import open_data
from chronoscale.harness.keys.experiment import Data

CALLS = {
    "caller": ["ann", "bob", "ann"],
    "callee": ["bob", "ann", "eve"],
    "when": ["2019-01-01", "2019-01-02", "2019-02-01"],
    "s": [5, 6, 7],
}


def look(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[str, str]:
    """Lines that the command prints, by what they are about."""
    capsys.readouterr()
    command("data", "look", *arguments)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 13
    return {line[:9].strip(): line[10:] for line in lines if line}


def same(one: EventStream, other: EventStream) -> bool:
    assert one.node_names is not None and other.node_names is not None
    return (
        one.node_names.tolist() == other.node_names.tolist()
        and one.t.tolist() == other.t.tolist()
        and one.src.tolist() == other.src.tolist()
    )


def test_events_and_the_commands_that_read_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    name = "my calls.csv"  # which a shell has to be told in quotes
    write_table(tmp_path / name, CALLS)
    lines = look(capsys, name, "--option", "features=s")
    assert lines == {
        "file": name,
        "format": "table",
        "read as": "CSV: events",
        "columns": "caller (src), callee (dst), when (time), s (feature)",
        "nodes": "3: ann, bob, eve",
        "events": "3, with 1 feature",
        "time": "ISO dates, 2019-01-01 to 2019-02-01; kept in seconds, taken as UTC, for they have no zone",
        "first": "ann -> bob, time 2019-01-01 00:00:00",
        "read it": "chronoscale data convert 'my calls.csv' 'my calls' --option features=s",
        "or": "dataset: {path: my calls.csv, options: {features: s}}",
    }
    command(*shlex.split(lines["read it"])[1:])
    converted = store.load("my calls")
    opened = open_data(Data(**yaml.safe_load(lines["or"])["dataset"]), 0)
    assert isinstance(converted, EventStream) and isinstance(opened, EventStream) and same(converted, opened)
    again = look(capsys, "my calls")
    assert again["read it"] == "chronoscale data convert 'my calls' 'my calls-data'" and again["nodes"] == "3: ann, bob, eve"
    assert again["format"] == "table" and "time" in again


def test_a_question_has_a_command_for_each_answer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_table(tmp_path / "calls.csv", {**CALLS, "when": ["01/02/2019", "02/03/2019", "03/04/2019"]})
    command("data", "look", "calls.csv")
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == [
        "file      calls.csv",
        "question  column 'when' has dates such as '01/02/2019', of which no entry shows whether the day or the month comes first",
    ]
    commands = [line.strip() for line in lines if line.startswith("  chronoscale")]
    assert commands == [f"chronoscale data convert calls.csv calls --option day_first={word}" for word in ("true", "false")]
    datasets = [yaml.safe_load(line)["dataset"] for line in lines if line.startswith("  dataset")]
    for at, month in enumerate((2, 1)):
        command(*commands[at].replace("csv calls", f"csv out{at}").split()[1:])
        converted, opened = store.load(f"out{at}"), open_data(Data(**datasets[at]), 0)
        assert isinstance(converted, EventStream) and isinstance(opened, EventStream) and same(converted, opened)
        assert converted.t[0].astype("datetime64[s]").astype("datetime64[M]") == np.datetime64(f"2019-0{month}")
    command("data", "look", "calls.csv", "--format", "table", "--option", "features=s")
    assert (
        "  chronoscale data convert calls.csv calls --format table --option features=s --option day_first=true" in capsys.readouterr().out
    )
    command("data", "convert", "calls.csv", "calls", expect=2)
    assert "calls.csv: column 'when' has dates such as" in one_line(capsys)
    assert not Path("calls").exists()


def test_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_table(tmp_path / "calls.jsonl", CALLS)
    command("data", "look", path, "--json")
    shown: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert shown["facts"]["columns"] == ["caller (src)", "callee (dst)", "when (time)"] and shown["question"] is None
    (way,) = shown["ways"]
    assert way["command"].startswith("chronoscale data convert ") and way["lines"].startswith("dataset: {path: ")
    write_table(tmp_path / "calls.jsonl", {**CALLS, "when": [5, 5, 5]})
    command("data", "look", path, "--json")
    shown = json.loads(capsys.readouterr().out)
    assert shown["question"] == "column 'when', which is read as the time, is 5 in every row" and len(shown["ways"]) == 2


def test_what_is_odd_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "t.txt"
    path.write_text("1 1 9\n2 2 8\n")
    command("data", "look", path)
    text = capsys.readouterr().out
    assert "odd       " + str(path) + ":2: time 8 is before the 9" in text and "odd       every event goes from a node to itself" in text
    np.savez(tmp_path / "x.npz", x=np.ones((3, 2)), edge_index=np.array([[0], [1]]), lat=np.ones(2))
    lines = look(capsys, tmp_path / "x.npz")
    assert lines["format"] == "npz" and lines["read as"] == "signals" and lines["sensors"] == "2: 0, 1"
    assert lines["readings"] == "3 steps, 1 channel, 0.00% of the readings missing" and lines["first"] == "step 0: 0 1, 1 1"
    assert lines["not read"] == "lat" and "arrays that nobody reads: lat" in lines["odd"]
    air = write_table(tmp_path / "air.csv", {"time": range(5), "a": [1, "", 3, 4, 5], "b": range(5)})
    lines = look(capsys, air)
    assert lines["readings"] == "5 steps, 1 channel, 10.00% of the readings missing" and "no edges" in lines["odd"]


def test_snapshots_and_unreadable_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ids = np.arange(3, dtype=np.int32)
    store.save(tmp_path / "d", SnapshotSequence(3, np.array([0, 1, 3]), ids, ids, node_names=np.array(["a", "b", "c"])))
    lines = look(capsys, tmp_path / "d")
    assert lines["read as"] == "snapshots" and lines["nodes"] == "3: a, b, c" and lines["snapshots"] == "2, of 3 edges in all"
    command("data", "look", tmp_path / "none.csv", expect=2)
    assert one_line(capsys) == f"error: {tmp_path / 'none.csv'}: no such file or folder"
    (tmp_path / "t.csv").write_text("src,dst,time\na,b,2019-01-01\nb,c,noon\n")
    command("data", "look", tmp_path / "t.csv", expect=2)
    assert "t.csv:3: column 'time': expected a date" in one_line(capsys)


def test_info_names_nodes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_table(tmp_path / "calls.csv", CALLS)
    command("data", "info", path, "--json")
    facts = {fact["what"]: fact["value"] for fact in json.loads(capsys.readouterr().out)}
    assert facts["names of nodes"] == ["ann", "bob", "eve"]
    command("data", "info", path)
    text = capsys.readouterr().out
    assert "ann, bob, eve" in text and "1,546,300,800 (2019-01-01 00:00:00 UTC, as seconds)" in text
    air = {"sensor": [*"abcdefg"] * 2, "time": [0] * 7 + [1] * 7, "value": ["", *range(6)] * 2}
    command("data", "info", write_table(tmp_path / "air.csv", air))
    text = capsys.readouterr().out
    assert "a, b, c, d, e, …" in text and "sensors without a reading" in text and "1: a" in text


def test_names_stay_with_snapshots_that_are_cut(tmp_path: Path) -> None:
    path = write_table(tmp_path / "calls.csv", CALLS)
    stream = open_data(Data(path=str(path)), 0)
    assert isinstance(stream, EventStream) and stream.node_names is not None
    from_stream = EventStream.from_blocks([stream.span(0, 1), stream.span(1, 3)])
    assert from_stream.node_names is stream.node_names
    for cut in (snapshots_by_count(stream, 2), snapshots_by_count(stream, 1, sliding=2), snapshots_by_width(stream, 86400)):
        assert name_nodes(cut, cut[0].src.tolist())[0] in ("ann", "bob")


def test_one_sensor_alone_lacks_no_edges(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    for sensors in (1, 2):
        content = "".join(",".join([f"2019-01-{day:02d}", *["5"] * sensors]) + "\n" for day in range(1, 9))
        with zipfile.ZipFile("air.csv.zip", "w") as file:
            file.writestr("air.csv", ",".join(["date", *"ab"[:sensors]]) + "\n" + content)
        command("data", "look", "air.csv.zip")
        printed = capsys.readouterr().out
        assert ("have no edges" in printed) == (sensors == 2)
        assert "read it   chronoscale data convert air.csv.zip air\n" in printed
    assert Data(path=("folder/air.csv.zip",)).label == Data(path=("air.csv",)).label == "air"

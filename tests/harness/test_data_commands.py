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
from chronoscale.datasets.generate import spec
from chronoscale.datasets.generate.dygraph import EvolvingGraph
from chronoscale.datasets.generate.traffic import TrafficSignal
from chronoscale.datasets.signals.signal import Signal
from chronoscale.errors import UserError

CITY = "{kind: traffic, sensors: 300, steps: 2_000, channels: 2, missing: 0.05, seed: 4}"  # three blocks


def said(capsys: pytest.CaptureFixture[str], *arguments: object) -> Any:
    capsys.readouterr()
    command(*arguments, "--json")
    return json.loads(capsys.readouterr().out)


def info(capsys: pytest.CaptureFixture[str], name: object) -> dict[str, str]:
    return {row["what"]: row["value"] for row in said(capsys, "data", "info", name)}


def test_a_signal_is_made_from_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "city.yaml"
    file.write_text(CITY)
    assert said(capsys, "data", "make", file, tmp_path / "a") == {"folder": str(tmp_path / "a")}
    command("data", "make", file, tmp_path / "b", "--seed", 5)
    for folder, seed in (("a", 4), ("b", 5)):
        made, held = store.load(tmp_path / folder), TrafficSignal(300, 2_000, 2, 0.05, seed=seed, name="city").signal()
        assert (made.name, made.verified) == ("city", True)
        for field in ("values", "missing", "edge_index", "edge_weight"):
            assert_array_equal(getattr(made, field), getattr(held, field))
    command("data", "make", file, tmp_path / "a", expect=2)
    assert "already exists" in one_line(capsys)


def test_snapshots_are_made_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "g.yaml"
    file.write_text("{kind: dygraph, nodes: 50, edges: 40, snapshots: 30, seed: 3, name: town}")
    command("data", "make", file, tmp_path / "d")
    made, held = store.load(tmp_path / "d"), EvolvingGraph(50, 40, 30, seed=3).sequence()
    assert made.name == "town"
    assert_array_equal(made.ptr, held.ptr)
    assert_array_equal(made.src, held.src)


@pytest.mark.parametrize("name", ["traffic_small", "growth_small"])
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
        told: list[int] = []
        tracemalloc.start()
        spec.write(tmp_path / str(steps), TrafficSignal(1_000, steps, missing=0.02), told.append)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert told[-1] == steps and len(told) > 2 and told == sorted(told)
    assert peaks[1] < 1.2 * peaks[0] < 6_000 * 1_000 * 4


def test_an_interrupted_write_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(TrafficSignal, "_lose", interrupted)
    command("data", "make", "traffic_small", tmp_path / "d", expect=1)
    assert "interrupted while writing" in one_line(capsys)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{kind: trafic}", "kind: unknown generator 'trafic'; did you mean 'traffic'?"),
        ("{sensors: 5}", "expected keys and values with a kind: growth, dygraph, traffic"),
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
        ("{kind: dygraph, nodes: 5, edges: 3, snapshots: 3}", "evolving graph: expected at least 1 snapshot and 10 nodes"),
    ],
)
def test_a_mistake_in_a_file_is_one_line(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "s.yaml"
    file.write_text(text)
    with pytest.raises(UserError) as caught:
        spec.from_file(file)
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
        assert (shown["sensors"], shown["steps"], shown["channels"], shown["edges"]) == ("8", "40", "2", "3")
        assert shown["missing readings"] == "241 (37.66%)"
        assert shown["sensors without a reading"] == f"6: {named}"
        (tmp_path / "d").rename(tmp_path / f"before {node_ids is None}")
    assert shown["bytes, one array (float32)"] == f"{values.nbytes:,}"
    copied = np.stack([values[at : at + 24] for at in range(17)])
    assert shown["bytes, windows copied, eq. 1 (float32, horizon 12)"] == f"{copied.nbytes:,}"
    assert shown["bytes, index-batching, eq. 2 (float32, horizon 12)"] == f"{values.nbytes + 17 * 8:,}"


def test_info_of_a_signal_too_short_for_a_window_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store.save(tmp_path / "d", Signal(np.ones((23, 2, 1)), np.zeros((2, 0), np.int32)))
    shown = info(capsys, tmp_path / "d")
    assert shown["bytes, one array (float64)"] == "368"
    assert "23 steps is shorter than window 12" in shown["bytes, windows copied, eq. 1 (float64, horizon 12)"]
    assert shown["sensors without a reading"] == "0"


def test_info_of_published_counts_uses_their_horizon(capsys: pytest.CaptureFixture[str]) -> None:
    shown = info(capsys, "windmill_large")
    assert shown["bytes, one array (published counts, float64)"] == f"{17_472 * 319 * 8:,}"
    assert shown["bytes, windows copied, eq. 1 (published counts, float64, horizon 8)"] == f"{2 * (17_472 - 15) * 8 * 319 * 8:,}"
    assert shown["bytes, index-batching, eq. 2 (published counts, float64, horizon 8)"] == f"{17_472 * 319 * 8 + (17_472 - 15) * 8:,}"
    assert not [what for what in info(capsys, "gdelt") if "bytes" in what]
    assert [what for what in info(capsys, "traffic_small") if "horizon 12" in what]

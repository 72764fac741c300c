"""Traffic sets as their authors distribute them, tiny ones written here; and readings whose axes look swapped."""

import json
import pickle
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from dcrnn_files import write_adjacency, write_table
from numpy.testing import assert_array_equal

from chronoscale.datasets.formats.registry import detect, open_dataset
from chronoscale.datasets.generate.traffic import TrafficSignal
from chronoscale.datasets.signals.axes import swapped_reason, time_first
from chronoscale.datasets.signals.signal import Signal
from chronoscale.errors import UserError

IDS = [317842, 318711, 318721, 315955]
FLOWS = np.random.default_rng(0).integers(0, 500, (30, 4, 3)).astype(np.float64)


def edges(signal: Signal) -> dict[tuple[int, int], float]:
    weight = np.ones(signal.edge_index.shape[1]) if signal.edge_weight is None else signal.edge_weight
    return {(int(a), int(b)): float(w) for a, b, w in zip(*signal.edge_index, weight, strict=True)}


# PEMS03, 04, 07, 08


def pems(folder: Path, name: str = "PEMS04", roads: str = "from,to,cost\n0,1,0.5\n3,2,1.25\n", **arrays: np.ndarray) -> Path:
    np.savez_compressed(folder / f"{name}.npz", **(arrays or {"data": FLOWS}))
    (folder / f"{name}.csv").write_text(roads)
    return folder / f"{name}.npz"


def test_pems_with_numbers(tmp_path):
    path = pems(tmp_path)
    assert detect(path) == "pems"
    signal = open_dataset(path, time_of_day=288)
    assert_array_equal(signal.values[:, :, :3], FLOWS)
    assert (signal.calendar, signal.name, signal.node_ids, signal.edge_weight) == (1, "PEMS04", None, None)
    assert edges(signal) == {(0, 1): 1, (3, 2): 1}
    assert signal.account["graph"] == "roads of PEMS04.csv, which all weigh 1" and signal.account["files"] == ["PEMS04.npz", "PEMS04.csv"]


def test_pems_with_ids_and_a_self_loop(tmp_path):
    """PEMS03: roads between ids, which a file of their own puts in the order of the readings."""
    path = pems(tmp_path, "PEMS03", "from,to,distance\n318721,318711,0.872\n315955,317842,1.3\n317842,317842,0.0\n")
    (tmp_path / "PEMS03.txt").write_text("\n".join(map(str, IDS)) + "\n")
    signal = open_dataset(path)
    assert edges(signal) == {(2, 1): 1, (3, 0): 1, (0, 0): 1} and signal.node_ids.tolist() == IDS
    assert "PEMS03.txt" in signal.account["files"]


@pytest.mark.parametrize(
    ("roads", "ids", "data", "message"),
    [
        ("from,to,cost\n0,4,1\n", None, FLOWS, r"PEMS04\.csv: column to: '4' is none of the 4 sensors"),
        ("from,to,cost\n0,1,1\n", "317842\n318711\n", FLOWS, r"PEMS04\.npz: PEMS04\.txt has 2 ids, for 4 sensors"),
        ("from,to,cost\n0,1,1\n", "7\n8\n9\n5\n", FLOWS, r"PEMS04\.csv: column from: '0' is none of the 4 sensors"),
        ("from,to,cost\n0,1,1\n", "a\nb\n", FLOWS, r"PEMS04\.txt: expected whole numbers, a line each, each once"),
        ("from,to,cost\n0,1,1\n", "1\n1\n", FLOWS, r"PEMS04\.txt: expected whole numbers, a line each, each once"),
        ("from\n0\n", None, FLOWS, r"PEMS04\.csv: expected the columns from and to, found from"),
        ("from,to,cost\n0,1,1\n", None, FLOWS[:, :, 0], r"PEMS04\.npz: expected numbers in 3 dimensions as data"),
        ("from,to,cost\n0,3,1\n", None, FLOWS.swapaxes(0, 1), r"readings \[4, 30, 3\] look like \[sensors, time\].*the graph has 4 nodes"),
    ],
)
def test_pems_that_does_not_fit_is_one_line(tmp_path, roads, ids, data, message):
    path = pems(tmp_path, roads=roads, data=data)
    if ids is not None:
        (tmp_path / "PEMS04.txt").write_text(ids)
    with pytest.raises(UserError, match=message) as caught:
        open_dataset(path)
    assert "\n" not in str(caught.value)


def test_an_archive_beside_another_csv_is_no_pems(tmp_path):
    path = pems(tmp_path, src=np.array([0, 1]), dst=np.array([1, 0]), t=np.array([1, 2]))
    assert detect(path) == "npz" and len(open_dataset(path)) == 2


# LargeST


def largest(folder: Path, matrix: np.ndarray, stem: str = "sd_his_2019", adjacency: str = "sd_rn_adj.npy") -> Path:
    """Flows of three sensors, of a table that pandas would write; the matrix's rows are in the order of the metadata."""
    path = write_table(folder / f"{stem}.h5", "t", values=np.array([[1.0, 2.0, np.nan], [4.0, 0.0, 6.0]]))
    np.save(folder / adjacency, matrix)
    return path


MATRIX = np.array([[1.0, 0.5, 0.0], [0.0, 1.0, 0.25], [0.0, 0.0, 1.0]], np.float32)


@pytest.mark.parametrize("names", [("sd_his_2019", "sd_rn_adj.npy", "sd_meta.csv"), ("SD", "adj_SD.npy", "meta_SD.csv")])
def test_largest(tmp_path, names):
    path = largest(tmp_path, MATRIX, names[0], names[1])
    ids = ["767541", "717447", "773869"]  # the table has 773869, 767541, 717447
    pd.DataFrame({"ID": ids, "Lat": [1, 2, 3], "Lng": [4, 5, 6], "ID2": [0, 1, 2]}).to_csv(tmp_path / names[2], index=False)
    assert detect(path) == "largest"
    signal = open_dataset(path)
    assert signal.node_ids.tolist() == [773869, 767541, 717447] and signal.missing_count == 1
    assert edges(signal) == {(1, 1): 1, (1, 2): 0.5, (2, 2): 1, (2, 0): 0.25, (0, 0): 1}
    assert signal.account["files"] == [path.name, names[1], names[2]]


def test_largest_without_metadata_and_beside_other_areas(tmp_path):
    path = largest(tmp_path, MATRIX)
    np.save(tmp_path / "gla_rn_adj.npy", np.eye(9))
    assert edges(open_dataset(path)) == {(0, 0): 1, (0, 1): 0.5, (1, 1): 1, (1, 2): 0.25, (2, 2): 1}
    np.save(tmp_path / "sd_rn_adj.npy", np.eye(2))
    with pytest.raises(UserError, match=r"sd_rn_adj\.npy: expected 3 x 3 for the sensors of sd_his_2019\.h5, found 2 x 2"):
        open_dataset(path)
    np.save(tmp_path / "sd_other_adj.npy", np.eye(2))
    with pytest.raises(UserError, match=r"expected one \*adj\*\.npy beside it, found sd_other_adj\.npy, sd_rn_adj\.npy; say which"):
        open_dataset(path)
    np.save(tmp_path / "mine.npy", MATRIX)
    assert len(edges(open_dataset(path, adjacency=str(tmp_path / "mine.npy")))) == 5


def test_metr_la_stays_dcrnns(tmp_path):
    path = write_table(tmp_path / "metr-la.h5")
    write_adjacency(tmp_path / "adj_mx.pkl")
    np.save(tmp_path / "other_adj.npy", np.eye(3))
    assert detect(path) == "dcrnn"


def test_a_pickle_of_the_matrix_alone_does_for_dcrnn(tmp_path):
    path = write_table(tmp_path / "metr-la.h5")
    (tmp_path / "adj_mx.pkl").write_bytes(pickle.dumps(MATRIX))
    assert edges(open_dataset(path)) == {(0, 0): 1, (0, 1): 0.5, (1, 1): 1, (1, 2): 0.25, (2, 2): 1}


# BasicTS


def basicts(folder: Path, graph: object = None, features: int = 3, **changed: object) -> Path:
    values = FLOWS[:, :, :features].astype(np.float32)
    values.tofile(folder / "data.dat")
    description = {
        "name": "SD", "domain": "traffic flow", "shape": list(values.shape), "num_time_steps": 30, "num_nodes": 4, "num_features": features,
        "feature_description": ["traffic flow", "time of day", "day of week"][:features], "has_graph": graph is not None,
        "frequency (minutes)": 15, "regular_settings": {"INPUT_LEN": 12, "NULL_VAL": 0.0, "METRICS": ["MAE"]},
    } | changed  # fmt: skip
    (folder / "desc.json").write_text(json.dumps(description))
    if graph is not None:
        (folder / "adj_mx.pkl").write_bytes(pickle.dumps(graph))
    return folder


@pytest.mark.parametrize("graph", [np.eye(4) * 0.5, [["0", "1", "2", "3"], {}, np.eye(4) * 0.5], None])
def test_basicts(tmp_path, graph):
    folder = basicts(tmp_path, graph)
    assert detect(folder) == "basicts"
    signal = open_dataset(folder)
    assert_array_equal(signal.values, FLOWS.astype(np.float32))
    assert (signal.calendar, signal.name) == (2, folder.name)
    assert edges(signal) == ({} if graph is None else {(i, i): 0.5 for i in range(4)})
    assert signal.account["no reading"] == "desc.json says that 0 is none; the option missing=0 marks it"
    assert open_dataset(folder, missing=0).missing_count == np.count_nonzero(FLOWS[:, :, 0] == 0)


def test_basicts_without_a_clock_or_descriptions(tmp_path):
    assert open_dataset(basicts(tmp_path, features=1)).calendar == 0
    assert open_dataset(basicts(tmp_path, feature_description=["a", "time of day", "speed"])).calendar == 0
    assert open_dataset(basicts(tmp_path, feature_description=["flow", "speed", "Time of Day"])).calendar == 1
    signal = open_dataset(basicts(tmp_path, feature_description=[], regular_settings={"NULL_VAL": float("nan")}))
    assert signal.calendar == 0 and "no reading" not in signal.account


@pytest.mark.parametrize(
    ("changed", "graph", "message"),
    [
        ({"shape": [30, 4, 2]}, None, r"data\.dat: expected 960 bytes, float32 \[30, 4, 2\] of desc\.json, found 1,440"),
        ({"shape": [30, 12]}, None, r"desc\.json: shape\.2: required, and not there"),
        ({"shape": [0, 4, 3]}, None, r"data\.dat: expected 0 bytes"),
        ({}, np.eye(5), r"adj_mx\.pkl: expected 4 x 4 for the sensors of data\.dat, found 5 x 5"),
    ],
)
def test_basicts_that_does_not_fit_is_one_line(tmp_path, changed, graph, message):
    with pytest.raises(UserError, match=message):
        open_dataset(basicts(tmp_path, graph, **changed))


def test_a_description_that_is_no_json_is_one_line(tmp_path):
    folder = basicts(tmp_path)
    (folder / "desc.json").write_text("{")
    with pytest.raises(UserError, match=r"desc\.json: not JSON"):
        open_dataset(folder)


# Readings without a graph


@pytest.mark.parametrize("shape", [(40, 12), (40, 12, 2)])
def test_readings_without_edges_are_read(tmp_path, shape):
    x = np.random.default_rng(0).normal(size=shape)
    np.savez(tmp_path / "a.npz", x=x)
    signal = open_dataset(tmp_path / "a.npz")
    assert isinstance(signal, Signal) and signal.edge_index.shape == (2, 0) and signal.edge_weight is None
    assert_array_equal(signal.values, x.reshape(40, 12, -1))
    assert signal.account["arrays"] == ["x (values)"]
    np.savez(tmp_path / "b.npz", counts=x, names=np.arange(12))
    with pytest.raises(UserError, match=r"expected the keys .* or x; found counts, names; if counts has .*by the option values=counts"):
        open_dataset(tmp_path / "b.npz")
    assert_array_equal(open_dataset(tmp_path / "b.npz", values="counts", ignore="names").values, x.reshape(40, 12, -1))


def test_a_feature_called_x_makes_no_signal_of_events(tmp_path):
    np.savez(tmp_path / "e.npz", src=np.array([0, 1]), dst=np.array([1, 0]), t=np.array([1, 2]), x=np.ones((2, 3)))
    assert open_dataset(tmp_path / "e.npz").features.shape == (2, 3)


# Swapped axes


def smooth(sensors: int = 40, steps: int = 200) -> np.ndarray:
    return TrafficSignal(sensors, steps, seed=2).signal().values[:, :, 0].astype(np.float64)


RING = np.array([[*range(40)], [*range(1, 40), 0]])


def write_swapped(folder: Path, name: str, x: np.ndarray) -> Path:
    """Readings as they come, beside a graph of 40 sensors."""
    matrix = np.zeros((40, 40))
    matrix[tuple(RING)] = 1
    if name == "npz":
        np.savez(folder / "x.npz", x=x, edge_index=RING)
        return folder / "x.npz"
    if name == "pygt":
        (folder / "c.json").write_text(json.dumps({"edges": RING.T.tolist(), "FX": x.tolist()}))
        return folder / "c.json"
    if name == "node_values":
        np.save(folder / "adj_mat.npy", matrix)
        np.save(folder / "node_values.npy", x[:, :, None])
        return folder / "node_values.npy"
    np.savetxt(folder / "los_adj.csv", matrix, delimiter=",")
    header = ",".join(f"n{i}" for i in range(x.shape[1]))
    np.savetxt(folder / "los_speed.csv", x, delimiter=",", header=header, comments="")
    return folder / "los_speed.csv"


@pytest.mark.parametrize("name", ["npz", "node_values", "tgcn", "pygt"])
def test_the_graph_tells_which_axis_is_time(tmp_path, name):
    x = smooth()
    swapped = write_swapped(tmp_path, name, x.T)
    with pytest.raises(UserError) as caught:
        open_dataset(swapped)
    line = str(caught.value)
    assert line.startswith(str(swapped)) and "[sensors, time], where [time, sensors] is expected: the graph has 40 nodes; " in line
    assert line.endswith("the option axes=sensors,time reads them so, axes=time,sensors as they are")
    signal = open_dataset(swapped, axes="sensors,time")
    np.testing.assert_allclose(signal.values[:, :, 0], x, rtol=1e-5)
    assert signal.edge_index.shape == (2, 40) and signal.node_ids is None
    (tmp_path / "right").mkdir()
    np.testing.assert_allclose(open_dataset(write_swapped(tmp_path / "right", name, x)).values[:, :, 0], x, rtol=1e-5)
    with pytest.raises(UserError, match=r"option axes: expected 'time,sensors' or 'sensors,time', got 'x'"):
        open_dataset(swapped, axes="x")


def test_smoothness_tells_where_no_graph_does(tmp_path):
    np.savez(tmp_path / "x.npz", x=smooth().T)
    with pytest.raises(UserError, match=r"readings \[40, 200\] look like.*fewer steps \(40\) than sensors \(200\), and readings change"):
        open_dataset(tmp_path / "x.npz")
    assert open_dataset(tmp_path / "x.npz", axes="sensors,time").values.shape == (200, 40, 1)
    assert open_dataset(tmp_path / "x.npz", axes="time,sensors").values.shape == (40, 200, 1)


def noisy(steps: int, sensors: int, memory: float, seed: int = 0) -> np.ndarray:
    """Readings of levels of their own, each keeping so much of its last deviation."""
    rng = np.random.default_rng(seed)
    x = np.zeros((steps, sensors))
    for t in range(1, steps):
        x[t] = memory * x[t - 1] + rng.normal(size=sensors)
    return x + rng.normal(size=sensors) * 50


@pytest.mark.parametrize(("steps", "sensors"), [(400, 30), (30, 400), (100, 100), (90, 110)])
@pytest.mark.parametrize("memory", [0.0, 0.5, 0.8, 0.99])
def test_readings_in_their_order_are_never_asked_about(steps, sensors, memory):
    """Also where steps are fewer than sensors, levels differ, and nothing stays from step to step; holes are passed over."""
    for seed in range(4):
        x = noisy(steps, sensors, memory, seed)
        x[np.random.default_rng(seed).random(x.shape) < 0.2] = np.nan
        assert swapped_reason(x) == ""
        assert time_first(x, None) is x


@pytest.mark.parametrize(("steps", "sensors", "memory"), [(400, 30, 0.8), (30, 400, 0.97), (400, 30, 0.6)])
def test_swapped_readings_are_asked_about(steps, sensors, memory):
    for seed in range(4):
        assert swapped_reason(noisy(steps, sensors, memory, seed).T)


@pytest.mark.parametrize(
    "values", [np.zeros((5, 40)), np.zeros((40, 200)), np.full((40, 200), np.nan), np.random.default_rng(0).normal(size=(40, 200))]
)
def test_what_says_nothing_is_not_asked_about(values):
    assert swapped_reason(values) == ""


@pytest.mark.parametrize(
    ("shape", "at_least", "exactly", "doubted"),
    [
        ((207, 2016), 0, 207, True),
        ((207, 2016), 0, 2016, False),
        ((207, 2016), 207, None, True),
        ((207, 2016), 2016, None, False),
        ((2016, 207), 207, None, False),
        ((2016, 207), 300, None, False),
        ((207, 2016), 3000, None, False),  # of no axis: refused as an edge that leaves the graph
        ((207, 207), 207, None, False),
        ((2016, 207), 0, 55, False),  # of no axis: refused as a matrix of another size
    ],
)
def test_what_a_graph_decides(shape, at_least, exactly, doubted):
    assert bool(swapped_reason(np.zeros(shape), at_least, exactly)) == doubted

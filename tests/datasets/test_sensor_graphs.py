"""Graphs of sensors, against brute force that shares nothing with the builders; files of all kinds; what does not fit is said."""

import math
import pickle
from dataclasses import replace
from pathlib import Path

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from chronoscale.datasets.signals.graphs import correlation
from chronoscale.datasets.signals.graphs.correlation import SHARED, CorrelationGraph, correlations
from chronoscale.datasets.signals.graphs.distance import DistanceGraph
from chronoscale.datasets.signals.graphs.edge_file import FileGraph
from chronoscale.datasets.signals.graphs.empty import EmptyGraph
from chronoscale.datasets.signals.graphs.graph_counts import GraphCounts
from chronoscale.datasets.signals.graphs.grid import GridGraph
from chronoscale.datasets.signals.graphs.nearest import NearestGraph
from chronoscale.datasets.signals.graphs.positions import Positions
from chronoscale.datasets.signals.graphs.sensor_graph import SensorGraph
from chronoscale.datasets.signals.signal import Signal
from chronoscale.errors import UserError

IDS = np.array([773869, 767541, 717447, 717446, 773062, 765604], np.int64)
PLACES = np.array(
    [[34.15497, -118.31829], [34.11621, -118.23799], [34.07248, -118.26772], [34.07142, -118.26572], [34.1, -118.4], [34.2, -118.1]]
)


def readings(sensors: int = 6, steps: int = 60, ids: bool = True, seed: int = 0) -> Signal:
    values = np.random.default_rng(seed).normal(size=(steps, sensors, 1)).cumsum(0)
    return Signal(values, np.zeros((2, 0), np.int32), node_ids=IDS[:sensors] if ids else None)


def edges(graph: SensorGraph) -> dict[tuple[int, int], float]:
    weight = np.ones(graph.edge_index.shape[1]) if graph.edge_weight is None else graph.edge_weight
    weights = {(int(a), int(b)): float(w) for a, b, w in zip(*graph.edge_index, weight, strict=True)}
    assert len(weights) == len(weight), "an edge comes twice"
    assert list(weights) == sorted(weights), "edges are in no order"
    return weights


def same(ours: dict[tuple[int, int], float], theirs: dict[tuple[int, int], float]) -> None:
    assert ours.keys() == theirs.keys()
    assert list(ours.values()) == pytest.approx([theirs[pair] for pair in ours], rel=1e-5)


def great_circle(a: np.ndarray, b: np.ndarray) -> float:
    """Kilometres between two places, by the angle between their directions from the centre of the Earth."""

    def direction(place: np.ndarray) -> np.ndarray:
        latitude, longitude = np.radians(place)
        return np.array([math.cos(latitude) * math.cos(longitude), math.cos(latitude) * math.sin(longitude), math.sin(latitude)])

    u, v = direction(a), direction(b)
    return 6371.0088 * math.atan2(float(np.linalg.norm(np.cross(u, v))), float(u @ v))


def straight(a: np.ndarray, b: np.ndarray) -> float:
    return math.sqrt(sum((float(x) - float(y)) ** 2 for x, y in zip(a, b, strict=True)))


def by_distance(points: np.ndarray, far, threshold: float, sigma: float | None = None) -> dict[tuple[int, int], float]:
    """The thresholded kernel, pair by pair."""
    pairs = {(i, j): far(points[i], points[j]) for i in range(len(points)) for j in range(len(points)) if i != j}
    mean = sum(pairs.values()) / len(pairs)
    width = sigma or math.sqrt(sum((d - mean) ** 2 for d in pairs.values()) / len(pairs))
    weights = {pair: math.exp(-((d / width) ** 2)) for pair, d in pairs.items()}
    return {pair: weight for pair, weight in weights.items() if weight >= threshold}


def coordinates(folder: Path, name: str = "places.csv", order: list[int] | None = None) -> Path:
    order = [*range(6)] if order is None else order
    table = pd.DataFrame({"index": range(len(order)), "sensor_id": IDS[order], "latitude": PLACES[order, 0], "longitude": PLACES[order, 1]})
    table.to_csv(folder / name, index=False)
    return folder / name


# By distance


@pytest.mark.parametrize("order", [None, [3, 0, 5, 1, 4, 2]])
@pytest.mark.parametrize("sigma", [None, 4.0])
def test_coordinates_become_a_thresholded_kernel(tmp_path, order, sigma):
    graph = DistanceGraph(str(coordinates(tmp_path, order=order)), threshold=0.3, sigma=sigma).build(readings(), 0)
    expected = by_distance(PLACES, great_circle, 0.3, sigma)
    assert 0 < len(expected) < 30
    same(edges(graph), expected)
    assert graph.note.startswith("distance by places.csv: sigma ") and graph.note.endswith(" km, weights of at least 0.3")


def test_distances_become_what_the_public_code_of_dcrnn_makes_of_them(tmp_path):
    """Of pairs in their direction, self-pairs and repeated ones among them; sensors that the readings do not have are passed over."""
    rng = np.random.default_rng(1)
    rows = [(IDS[rng.integers(6)], IDS[rng.integers(6)], round(float(rng.exponential(3000.0)), 1)) for _ in range(30)]
    rows += [(IDS[0], IDS[0], 0.0), (999, IDS[1], 10.0), (IDS[1], 999, 10.0), (IDS[2], IDS[3], 100.0), (IDS[2], IDS[3], 4000.0)]
    (tmp_path / "distances.csv").write_text("from,to,cost\n" + "".join(f"{a},{b},{d}\n" for a, b, d in rows))
    matrix = np.full((6, 6), np.inf)
    for a, b, d in rows:
        if a != 999 and b != 999:
            matrix[list(IDS).index(a), list(IDS).index(b)] = d
    weights = np.exp(-((matrix / matrix[np.isfinite(matrix)].std()) ** 2))
    weights[weights < 0.1] = 0
    expected = {(int(i), int(j)): float(weights[i, j]) for i, j in zip(*np.nonzero(weights), strict=True)}
    assert (0, 0) in expected and 5 < len(expected) < 30
    same(edges(DistanceGraph(str(tmp_path / "distances.csv")).build(readings(), 0)), expected)
    renamed = (tmp_path / "distances.csv").read_text().replace("from,to,cost", "a,b,metres")
    (tmp_path / "other.csv").write_text(renamed)
    same(edges(DistanceGraph(str(tmp_path / "other.csv"), ("a", "b", "metres")).build(readings(), 0)), expected)


@settings(max_examples=25, deadline=None)
@given(
    points=arrays.arrays(np.float64, (7, 2), elements=st.integers(-50, 50).map(float), unique=True),
    threshold=st.sampled_from([0.05, 0.3, 0.8]),
)
def test_planes_of_any_points(tmp_path_factory, points, threshold):
    folder = tmp_path_factory.mktemp("plane")
    pd.DataFrame(points, columns=["x", "y"]).to_csv(folder / "xy.csv", index=False)
    expected, signal = by_distance(points, straight, threshold), readings(7, ids=False)
    borders = [abs(weight - threshold) for weight in by_distance(points, straight, 0.0).values()]
    if not expected or min(borders) < 1e-9:
        return
    same(edges(DistanceGraph(str(folder / "xy.csv"), threshold=threshold).build(signal, 0)), expected)


def test_tables_of_all_kinds_place_sensors(tmp_path):
    """CSV with semicolons or tabs, without a header, Parquet, columns of an archive beside others, names of one's own, rows in order."""
    expected = edges(DistanceGraph(str(coordinates(tmp_path))).build(readings(), 0))
    table = pd.read_csv(tmp_path / "places.csv")
    for name, separator in (("a.csv", ";"), ("a.tsv", "\t"), ("a.txt", " ")):
        table.to_csv(tmp_path / name, sep=separator, index=False)
        assert edges(DistanceGraph(str(tmp_path / name)).build(readings(), 0)) == expected
    table.to_parquet(tmp_path / "a.parquet")
    assert edges(DistanceGraph(str(tmp_path / "a.parquet")).build(readings(), 0)) == expected
    np.savez(
        tmp_path / "a.npz", node_lat=PLACES[:, 0], node_lon=PLACES[:, 1], node_names=IDS.astype("S6"), t=np.arange(50), x=np.ones((50, 6))
    )
    assert edges(DistanceGraph(str(tmp_path / "a.npz")).build(readings(), 0)) == expected
    table[["sensor_id", "longitude", "latitude"]].to_csv(tmp_path / "bare.csv", index=False, header=False)
    with pytest.raises(UserError, match=r"bare\.csv: no columns lat and lon, or x and y, among 0, 1, 2; say which with names"):
        DistanceGraph(str(tmp_path / "bare.csv")).build(readings(), 0)
    named = table.rename(columns={"sensor_id": "station", "longitude": "my_lon", "latitude": "my_lat"})
    named.to_csv(tmp_path / "named.csv", index=False)
    assert edges(DistanceGraph(str(tmp_path / "named.csv"), ("station", "my_lat", "my_lon")).build(readings(), 0)) == expected
    assert edges(DistanceGraph(str(tmp_path / "places.csv")).build(readings(ids=False), 0)) == expected


@pytest.mark.parametrize(
    ("text", "ids", "message"),
    [
        (
            "sensor_id,lat,lon\n1,2,3\n4,5,6\n",
            True,
            r"none of its sensors \(1, 4, …\) is one of the readings' \(773869, 767541, 717447, …\)",
        ),
        ("sensor_id,lat,lon\n773869,2,3\n4,5,6\n", True, r"no row for sensor '767541' in column sensor_id"),
        ("lat,lon\n2,3\n4,5\n", False, r"2 rows for 6 sensors, and no column with their numbers from 0"),
        ("sensor_id,lat,lon\n" + "".join(f"{i},-118.3,34\n" for i in IDS), True, r"latitude -118\.3 is beyond 90: are the columns swapped"),
        ("sensor_id,lat,lon\n" + "".join(f"{i},34,-118.3\n" for i in IDS), True, r"all sensors are equally far apart.*: say sigma"),
        ("sensor_id,lat,lon\n" + "".join(f"{i},?,1\n" for i in IDS), True, r"column lat, row 1: expected a number, found '\?'"),
        ("from,to,cost\n773869,767541,-2\n773869,717447,3\n", True, r"column cost: -2 is no distance"),
        ("from,to,cost\n773869,767541,2\n773869,717447,2\n", True, r"all distances are 2, so that they have no deviation: say sigma"),
        ("from,to,cost\n1,2,2\n2,3,4\n", True, r"none of its sensors"),
        ("sensor_id,lat,lon\n", True, r"a table without rows"),
        ("", True, r"not a table|a table without rows"),
    ],
)
def test_files_that_do_not_fit_are_one_line(tmp_path, text, ids, message):
    (tmp_path / "f.csv").write_text(text)
    with pytest.raises(UserError, match=message) as caught:
        DistanceGraph(str(tmp_path / "f.csv")).build(readings(ids=ids), 0)
    assert str(tmp_path / "f.csv") in str(caught.value) and "\n" not in str(caught.value)


def test_too_high_a_threshold_leaves_no_edge(tmp_path):
    with pytest.raises(UserError, match=r"no two sensors are so near that an edge weighs 1 \(sigma .* km\)"):
        DistanceGraph(str(coordinates(tmp_path)), threshold=1.0).build(readings(), 0)


# The nearest


@settings(max_examples=25, deadline=None)
@given(points=arrays.arrays(np.float64, (8, 2), elements=st.floats(-60, 60, width=32).map(float), unique=True), k=st.integers(1, 4))
def test_the_nearest_are_the_nearest(tmp_path_factory, points, k):
    folder = tmp_path_factory.mktemp("near")
    pd.DataFrame(points, columns=["lat", "lon"]).to_csv(folder / "p.csv", index=False)
    far = np.array([[great_circle(a, b) for b in points] for a in points])
    ordered = np.sort(far + np.diag([np.inf] * 8), axis=1)
    if (np.diff(ordered[:, :-1], axis=1) < 1e-6).any():  # who is nearer is a matter of rounding
        return
    sigma = math.sqrt(np.square(far[~np.eye(8, dtype=bool)] - far[~np.eye(8, dtype=bool)].mean()).mean())
    pairs = {(i, j) for i in range(8) for j in range(8) if i != j and (far[i, j] <= ordered[i, k - 1] or far[j, i] <= ordered[j, k - 1])}
    ours = edges(NearestGraph(str(folder / "p.csv"), neighbours=k).build(readings(8, ids=False), 0))
    same(ours, {(i, j): max(math.exp(-((far[i, j] / sigma) ** 2)), float(np.finfo(np.float32).tiny)) for i, j in pairs})


def test_sensors_at_one_place_are_neighbours(tmp_path):
    (tmp_path / "p.csv").write_text("x,y\n" + "0,0\n" * 3 + "9,9\n")
    ours = edges(NearestGraph(str(tmp_path / "p.csv"), neighbours=2).build(readings(4, ids=False), 0))
    assert {(0, 1), (0, 2), (1, 2)} <= ours.keys() and not any(i == j for i, j in ours) and ours[0, 1] == 1
    with pytest.raises(UserError, match=r"graph\.neighbours: 4 of each sensor, and there are 4 sensors in all"):
        NearestGraph(str(tmp_path / "p.csv"), neighbours=4).build(readings(4, ids=False), 0)


# What goes together


def correlated(steps: int = 200, sensors: int = 9) -> Signal:
    rng = np.random.default_rng(3)
    common = rng.normal(size=(steps, 3)).cumsum(0)
    values = (common @ rng.normal(size=(3, sensors)) + rng.normal(size=(steps, sensors)) + 1e6)[:, :, None]
    values[rng.random(values.shape) < 0.2] = np.nan
    values[:, 4] = 7.0  # never changes
    values[: steps - SHARED // 2, 5] = np.nan  # hardly ever there
    return Signal.from_readings(values, np.zeros((2, 0), np.int32))


@pytest.mark.parametrize("steps", [200, 140])
def test_correlations_are_those_of_pandas(steps):
    signal = correlated()
    frame = pd.DataFrame(np.where(signal.missing[:steps, :, 0], np.nan, signal.values[:steps, :, 0]))
    expected = frame.corr(min_periods=SHARED).to_numpy(copy=True)
    expected[4], expected[:, 4] = np.nan, np.nan
    np.testing.assert_allclose(correlations(signal, steps), expected, atol=1e-7)
    assert np.isnan(expected[5]).all() and not np.isnan(expected[0, 1])
    whole = replace(signal, missing=None, values=np.nan_to_num(signal.values, nan=1e6))
    np.testing.assert_allclose(correlations(whole, steps)[:4, :4], np.corrcoef(whole.values[:steps, :4, 0].T), atol=1e-7)


def test_the_highest_correlations_become_edges():
    signal = correlated()
    matrix = correlations(signal, 150)
    expected = {}
    for i in range(9):
        others = sorted((j for j in range(9) if j != i and matrix[i, j] >= 0.4), key=lambda j: -matrix[i, j])[:2]
        expected |= {pair: float(matrix[i, j]) for j in others for pair in ((i, j), (j, i))}
    graph = CorrelationGraph(neighbours=2, threshold=0.4).build(signal, 150)
    assert expected and graph.note == "correlation of the first 150 steps: the 2 highest of each, at least 0.4"
    same(edges(graph), expected)


def test_later_readings_change_no_correlation():
    signal = correlated()
    before = CorrelationGraph().build(signal, 140)
    values, missing = signal.values.copy(), signal.missing.copy()
    values[140:], missing[140:] = np.random.default_rng(9).normal(size=values[140:].shape) * 1e9, False
    after = CorrelationGraph().build(Signal(values, signal.edge_index, missing=missing), 140)
    assert edges(before) == edges(after)
    values[139] = 1e9
    assert edges(before) != edges(CorrelationGraph().build(Signal(values, signal.edge_index, missing=missing), 140))


def test_sensors_that_have_nothing_in_common_are_said():
    noise = Signal(np.random.default_rng(0).normal(size=(400, 5, 1)), np.zeros((2, 0), np.int32))
    most = np.max(np.corrcoef(noise.values[:, :, 0].T) - 2 * np.eye(5))
    message = rf"graph\.threshold: no two sensors correlate by 0\.5 in the first 400 steps, the most is {most:.2g}; say a lower one, or"
    with pytest.raises(UserError, match=message):
        CorrelationGraph().build(noise, 400)
    flat = Signal(np.ones((400, 5, 1)), np.zeros((2, 0), np.int32))
    with pytest.raises(UserError, match=r"in the first 400 steps, none can be compared; say"):
        CorrelationGraph().build(flat, 400)
    with pytest.raises(UserError, match=r"one sensor alone has no neighbours; take kind none"):
        CorrelationGraph().build(Signal(noise.values[:, :1], noise.edge_index), 400)


# Grids, files, none


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (1, 4), (3, 4), (5, 2)])
@pytest.mark.parametrize("neighbours", [4, 8])
def test_a_grid_joins_what_stands_side_by_side(rows, columns, neighbours):
    signal = Signal(np.zeros((2, rows * columns, 1)), np.zeros((2, 0), np.int32))
    places = [(r, c) for r in range(rows) for c in range(columns)]
    reach = 1 if neighbours == 4 else 2
    expected = {
        (i, j)
        for i, a in enumerate(places)
        for j, b in enumerate(places)
        if i != j and max(abs(a[0] - b[0]), abs(a[1] - b[1])) == 1 and abs(a[0] - b[0]) + abs(a[1] - b[1]) <= reach
    }
    graph = GridGraph(rows, columns, neighbours).build(signal, 0)
    assert edges(graph).keys() == expected and graph.edge_weight is None


def test_a_grid_of_another_size_is_refused():
    with pytest.raises(UserError, match=r"graph: a grid of 2 x 4 = 8 places, and there are 6 sensors"):
        GridGraph(2, 4).build(readings(), 0)
    with pytest.raises(UserError, match=r"graph\.neighbours: on a grid 4 or 8, got 6"):
        GridGraph(2, 3, 6)


def test_edges_and_matrices_are_read_from_files(tmp_path):
    matrix = np.zeros((6, 6))
    matrix[0, 1], matrix[4, 2], matrix[5, 5] = 0.5, 0.25, 1.0
    expected = {(0, 1): 0.5, (4, 2): 0.25, (5, 5): 1.0}
    np.save(tmp_path / "m.npy", matrix)
    np.savez(tmp_path / "m.npz", adj=matrix, n=np.arange(6))
    np.savetxt(tmp_path / "m.csv", matrix, delimiter=",")
    (tmp_path / "bare.pkl").write_bytes(pickle.dumps(matrix))
    order = [3, 1, 0, 2, 5, 4]
    named = [[str(IDS[i]) for i in order], {str(IDS[i]): n for n, i in enumerate(order)}, matrix[np.ix_(order, order)]]
    (tmp_path / "named.pkl").write_bytes(pickle.dumps(named))
    for name in ("m.npy", "m.npz", "m.csv", "bare.pkl", "named.pkl"):
        graph = FileGraph(str(tmp_path / name)).build(readings(), 0)
        assert edges(graph) == expected and graph.note == f"matrix of {name}", name
    lines = [f"{IDS[a]},{IDS[b]},{w}" for (a, b), w in expected.items()]
    for name, head in (("e.csv", []), ("h.csv", ["from,to,weight"])):
        (tmp_path / name).write_text("\n".join([*head, *lines]))
        assert edges(FileGraph(str(tmp_path / name)).build(readings(), 0)) == expected
    (tmp_path / "two.csv").write_text("a b\n0 1\n4 2\n")
    graph = FileGraph(str(tmp_path / "two.csv")).build(readings(ids=False), 0)
    assert edges(graph) == {(0, 1): 1.0, (4, 2): 1.0} and graph.edge_weight is None


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("gone.csv", None, r"gone\.csv: no such file"),
        (
            "d.csv",
            "from,to,cost\n773869,767541,3.2\n",
            r"column cost has lengths.*graph: \{kind: distance, path: .*d\.csv\} makes weights of them",
        ),
        ("e.csv", "from,to\n1,2\n", r"none of its sensors \(1, …\)"),
        ("one.csv", "from\n773869\n", r"expected from, to and, if edges have weights, a third column, or a matrix, found 1 columns"),
        ("m.npy", np.zeros((5, 5)), r"expected 6 x 6 for the sensors of the readings, found 5 x 5"),
        ("t.npy", np.zeros((6, 6, 2)), r"expected numbers in 2 dimensions"),
        ("p.pkl", pickle.dumps({"a": 1}), r"expected \[sensor ids, a dict of their indices, the matrix\], or the matrix alone"),
    ],
)
def test_files_of_graphs_that_do_not_fit_are_one_line(tmp_path, name, content, message):
    path = tmp_path / name
    if isinstance(content, np.ndarray):
        np.save(path, content)
    elif content is not None:
        path.write_bytes(content) if isinstance(content, bytes) else path.write_text(content)
    with pytest.raises(UserError, match=message):
        FileGraph(str(path)).build(readings(), 0)


def test_no_graph_takes_edges_away_and_is_told():
    signal = replace(readings(), edge_index=np.array([[0], [1]], np.int32), edge_weight=np.ones(1, np.float32))
    bare = EmptyGraph().build(signal, 0).attach(signal)
    assert bare.edge_index.shape == (2, 0) and bare.edge_weight is None and bare.account["graph"] == "none, as asked"


def test_of_two_ways_the_larger_weight_stays():
    src, dst = np.array([0, 1, 2, 0]), np.array([1, 0, 1, 2])
    graph = SensorGraph.of(src, dst, np.array([0.25, 0.75, 0.5, 0.125]), "made").both_ways()
    assert edges(graph) == {(0, 1): 0.75, (1, 0): 0.75, (1, 2): 0.5, (2, 1): 0.5, (0, 2): 0.125, (2, 0): 0.125} and graph.note == "made"
    assert edges(SensorGraph.of(src, dst, None, "").both_ways()).keys() == edges(graph).keys()


# Counts


@settings(max_examples=50, deadline=None)
@given(pairs=arrays.arrays(np.int32, st.tuples(st.just(2), st.integers(0, 14)), elements=st.integers(0, 7)))
def test_counts_are_those_of_networkx(pairs):
    counts = GraphCounts.of(Signal(np.zeros((1, 8, 1)), pairs))
    graph = nx.Graph()
    graph.add_nodes_from(range(8))
    graph.add_edges_from((a, b) for a, b in pairs.T.tolist() if a != b)
    assert counts.neighbours.tolist() == [graph.degree(node) for node in range(8)]
    assert counts.components == nx.number_connected_components(graph)
    assert counts.isolated.tolist() == list(nx.isolates(graph))
    assert counts.edges == sum(a != b for a, b in pairs.T.tolist()) and counts.mean_degree == pytest.approx(2 * graph.size() / 8)


def test_many_edges_of_one_pair_are_one_neighbour():
    pairs = np.zeros((2, 256), np.int32)
    pairs[1] = 1  # as many fit into no byte
    counts = GraphCounts.of(Signal(np.zeros((1, 3, 1)), pairs))
    assert counts.neighbours.tolist() == [1, 1, 0] and (counts.edges, counts.components) == (256, 2)


def test_of_many_sensors_some_say_how_far_apart_all_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """Near the deviation of all; and correlations of more pairs than memory holds are refused before they are made."""
    points = np.random.default_rng(0).random((5_000, 2))
    all_of_them = math.sqrt(np.var(np.linalg.norm(points[:1_500, None] - points[None, 1_500:3_000], axis=2)))
    assert Positions(points, False).deviation() == pytest.approx(all_of_them, rel=0.03)
    monkeypatch.setattr(correlation, "free_memory", lambda: 10**9)
    many = Signal(np.zeros((3, 5_000, 1), np.float32), np.empty((2, 0), np.int32))
    with pytest.raises(UserError, match="all pairs of 5,000 sensors take 2 GB, and 1 GB of memory are free; take knn, or a file"):
        CorrelationGraph().build(many, 3)

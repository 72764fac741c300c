"""Graphs from files of sensors that have names, and matrices told from edges."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from chronoscale.datasets.signals.graphs.distance import DistanceGraph
from chronoscale.datasets.signals.graphs.edge_file import FileGraph
from chronoscale.datasets.signals.graphs.nearest import NearestGraph
from chronoscale.datasets.signals.signal import Signal
from chronoscale.errors import UserError


def named_signal(names: list[str], ids: list[int] | None = None) -> Signal:
    node_ids = None if ids is None else np.array(ids)
    return Signal(np.zeros((5, len(names), 1), np.float32), np.empty((2, 0), np.int32), node_ids=node_ids, node_names=np.array(names))


@pytest.mark.parametrize("kind", ["knn", "distance"])
def test_sensors_are_found_by_their_names(tmp_path: Path, kind: str) -> None:
    """Of a file whose rows stand in another order; order alone says nothing where sensors have names."""
    signal = named_signal(["a", "b", "c", "d"])
    (tmp_path / "pos.csv").write_text("station,x,y\nd,31,0\nb,1,0\nc,30,0\na,0,0\n")
    more = {"neighbours": 1} if kind == "knn" else {"sigma": 1.0}
    graph = {"knn": NearestGraph, "distance": DistanceGraph}[kind](path=str(tmp_path / "pos.csv"), **more).build(signal, 5)
    assert {tuple(sorted(pair)) for pair in graph.edge_index.T.tolist()} == {(0, 1), (2, 3)}
    (tmp_path / "bare.csv").write_text("x,y\n31,0\n1,0\n30,0\n0,0\n")
    with pytest.raises(UserError, match=r"bare\.csv: none of its sensors"):
        {"knn": NearestGraph, "distance": DistanceGraph}[kind](path=str(tmp_path / "bare.csv"), **more).build(signal, 5)


@pytest.mark.parametrize("form", ["plain", "headed", "indexed", ";"])
def test_a_matrix_is_told_from_edges(tmp_path: Path, form: str) -> None:
    """Five by five numbers, with the names of sensors above, before them, or neither; in another order where there are names."""
    names, ring = ["a", "b", "c", "d", "e"], np.roll(np.eye(5), 1, 1)
    order = [3, 0, 4, 2, 1] if form in ("headed", "indexed") else [*range(5)]
    frame = pd.DataFrame(ring[np.ix_(order, order)], index=[names[at] for at in order], columns=[names[at] for at in order])
    frame.to_csv(tmp_path / "m.csv", sep=form if form == ";" else ",", header=form in ("headed", "indexed"), index=form == "indexed")
    graph = FileGraph(path=str(tmp_path / "m.csv")).build(named_signal(names), 5)
    assert graph.edge_index.T.tolist() == [[at, (at + 1) % 5] for at in range(5)]


def test_what_is_no_matrix_and_no_edges_is_refused(tmp_path: Path) -> None:
    (tmp_path / "three.csv").write_text("0,1,0\n0,0,1\n1,0,0\n")
    with pytest.raises(UserError, match="3 rows and 3 columns for 3 sensors are a matrix or edges"):
        FileGraph(path=str(tmp_path / "three.csv")).build(named_signal(["0", "1", "2"]), 5)
    (tmp_path / "four.csv").write_text("a,b,1,7\nb,a,1,7\n")
    with pytest.raises(UserError, match="or a matrix, found 4 columns"):
        FileGraph(path=str(tmp_path / "four.csv")).build(named_signal(["a", "b", "c"]), 5)


def test_rows_of_other_sensors_are_counted(tmp_path: Path) -> None:
    (tmp_path / "edges.csv").write_text("from,to\na,b\nx,b\ny,z\n")
    graph = FileGraph(path=str(tmp_path / "edges.csv")).build(named_signal(["a", "b"]), 5)
    assert graph.note == "edges of edges.csv, 2 of whose 3 rows name other sensors" and graph.edge_index.tolist() == [[0], [1]]

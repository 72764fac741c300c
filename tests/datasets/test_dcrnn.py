"""DCRNN's files, written here with h5py and pickle: read right, refused where they are damaged, unfit or would run code."""

import os
import pickle
from pathlib import Path

import h5py
import numpy as np
import pytest
from dcrnn_files import IDS, MATRIX, VALUES, write_adjacency, write_table
from numpy.testing import assert_array_equal

from chronoscale.datasets.formats.adjacency import AdjacencyMatrix
from chronoscale.datasets.formats.pickles.array_pickle import read_pickle
from chronoscale.datasets.formats.registry import detect, open_dataset
from chronoscale.errors import UserError

PYTHON_2 = (  # what Python 2 writes at protocol 0: text for bytes, the old names of modules
    b"(lp0\n(lp1\nS'773869'\np2\naS'767541'\np3\naS'717447'\np4\naa(dp5\ng2\nI0\nsg3\nI1\nsg4\nI2\nsa"
    b"cnumpy.core.multiarray\n_reconstruct\np6\n(cnumpy\nndarray\np7\n(I0\ntp8\nS'b'\np9\ntp10\nRp11\n"
    b"(I1\n(I3\nI3\ntp12\ncnumpy\ndtype\np13\n(S'f4'\np14\nI0\nI1\ntp15\nRp16\n(I3\nS'<'\np17\nNNNI-1\nI-1\nI0\ntp18\nbI00\nS"
    + repr(MATRIX.tobytes().decode("latin1")).encode()
    + b"\np19\ntp20\nba."
)


class Evil:
    """Unpickles by a call."""

    def __init__(self, witness: Path) -> None:
        self.witness = str(witness)

    def __reduce__(self):
        return os.mkdir, (self.witness,)


@pytest.mark.parametrize("pickled", ["python 2", 0, 1, 2, 3, 4, 5])
def test_readings_and_adjacency_become_a_signal(tmp_path, pickled):
    adjacency = tmp_path / "adj_mx.pkl"
    if pickled == "python 2":
        adjacency.write_bytes(PYTHON_2)
    else:
        write_adjacency(adjacency, protocol=pickled)
    path = write_table(tmp_path / "metr-la.h5")
    assert detect(path) == "dcrnn"
    signal = open_dataset(path)
    assert (signal.name, signal.values.shape, signal.values.dtype) == ("metr-la", (2, 3, 1), np.float64)
    assert_array_equal(signal.values[:, :, 0], VALUES)
    assert_array_equal(signal.missing[:, :, 0], np.isnan(VALUES))
    assert_array_equal(signal.node_ids, [int(name) for name in IDS])
    dense = np.zeros((3, 3))
    dense[tuple(signal.edge_index)] = signal.edge_weight
    assert_array_equal(dense, MATRIX)


def test_sensors_are_matched_by_id_and_numbers_do_as_columns(tmp_path):
    order = [2, 0, 1]
    write_adjacency(tmp_path / "adj_mx_bay.pkl", ids=[IDS[i] for i in order], matrix=MATRIX[np.ix_(order, order)], protocol=4)
    signal = open_dataset(write_table(tmp_path / "pems-bay.hdf5", "speed", np.array(IDS).astype(np.int64), VALUES.astype(np.float32)))
    dense = np.zeros((3, 3))
    dense[tuple(signal.edge_index)] = signal.edge_weight
    assert_array_equal(dense, MATRIX)
    assert signal.values.dtype == np.float32
    named = write_table(tmp_path / "named.h5", columns=np.array(["a", "b", "c"], "S1"))
    signal = open_dataset(named, adjacency=write_adjacency(tmp_path / "other.pkl", ids=["a", "b", "c"]))
    assert signal.node_ids is None and signal.node_names.tolist() == ["a", "b", "c"]


def test_of_two_tables_one_must_be_named(tmp_path):
    write_adjacency(tmp_path / "adj_mx.pkl")
    path = write_table(tmp_path / "x.h5")
    write_table(path, "speed", values=VALUES + 1)
    with pytest.raises(UserError, match=r"several tables, say which with key=: df, speed"):
        open_dataset(path)
    with pytest.raises(UserError, match=r"'sped'; did you mean 'speed'"):
        open_dataset(path, key="sped")
    assert_array_equal(open_dataset(path, key="speed").values[:, :, 0], VALUES + 1)


def test_a_pickle_that_promises_more_than_it_holds_is_refused(tmp_path):
    """Of 13 bytes, bytes by the gigabyte; and copies of one text without end."""
    text = 1 << 20
    body = b"X" + text.to_bytes(4, "little") + b"a" * text + b"q\x00X\x06\x00\x00\x00latin1q\x010"
    copy = b"c_codecs\nencode\nh\x00h\x01\x86R0"
    for name, data in {
        "promised": b"\x80\x05\x96" + (1 << 40).to_bytes(8, "little") + b"x.",
        "copied": b"\x80\x02" + body + copy * 40 + b"N.",
    }.items():
        (tmp_path / f"{name}.pkl").write_bytes(data)
        with pytest.raises(UserError, match=r"not an adjacency pickle \((pickle data was truncated|refused copies that fill memory)\)"):
            read_pickle(tmp_path / f"{name}.pkl")


def test_a_pickle_of_few_bytes_that_names_itself_over_and_over_ends(tmp_path):
    """A container that names one container twice, and so on 99 times: written out or hashed, it would have no end."""
    path, lists, tuples = tmp_path / "adj_mx.pkl", ["1"], ("1",)
    for _ in range(99):
        lists, tuples = [lists, lists], (tuples, tuples)
    key = r"\(refused a key that holds tuples\)"
    for use, message in {
        b"0cnumpy\ndtype\nh\xff\x85R": r"\(refused an array of (list|tuple)\)",
        b"0}h\xffNs": key,
        b"0}(h\xffNu": key,
        b"0(h\xffNd": key,
        b"0\x8f(h\xff\x90": key,
        b"0(h\xff\x91": key,
    }.items():
        for nested, expected in ((lists, f"unhashable|{message}"), (tuples, message)):
            path.write_bytes(pickle.dumps(nested, protocol=2)[:-1] + b"q\xff" + use + b".")
            with pytest.raises(UserError, match=rf"adj_mx\.pkl: .*({expected})"):
                AdjacencyMatrix.read(path)
    path.write_bytes(pickle.dumps([[lists], {}, np.zeros((1, 1))]))
    with pytest.raises(UserError, match=r"expected \[sensor ids, a dict of their indices, the matrix\]"):
        AdjacencyMatrix.read(path)


def test_copies_of_any_container_are_counted(tmp_path):
    members = 1 << 16
    copied = b"(" + b"K\x00" * members + b"tq\x000" + b"c__builtin__\nbytes\nh\x00\x85R0" * 64
    (tmp_path / "copied.pkl").write_bytes(b"\x80\x04" + copied + b"N.")
    with pytest.raises(UserError, match="refused copies that fill memory"):
        read_pickle(tmp_path / "copied.pkl")


def test_states_of_arrays_are_counted(tmp_path):
    """One state, in which Python 2 has text, that fills one array after another."""
    text = 1 << 20
    kind = b"cnumpy\ndtype\n(X\x02\x00\x00\x00u1K\x00K\x01tR"
    state = b"(K\x01(J" + text.to_bytes(4, "little") + b"t" + kind + b"\x89X" + text.to_bytes(4, "little") + b"a" * text + b"tq\x000"
    empty = b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\nK\x00tR"
    for copies, expected in ((1, None), (64, "refused copies that fill memory")):
        (tmp_path / "states.pkl").write_bytes(b"\x80\x02" + state + (empty + b"h\x00b0") * (copies - 1) + empty + b"h\x00b.")
        if expected is None:
            assert read_pickle(tmp_path / "states.pkl").values.tobytes() == b"a" * text
            continue
        with pytest.raises(UserError, match=expected):
            read_pickle(tmp_path / "states.pkl")


def test_a_pickle_that_would_run_code_is_refused(tmp_path):
    path = write_table(tmp_path / "x.h5")
    (tmp_path / "adj_mx.pkl").write_bytes(pickle.dumps([IDS, {}, Evil(tmp_path / "witness")]))
    with pytest.raises(UserError, match=r"adj_mx\.pkl: not an adjacency pickle \(refused (posix|nt)\.mkdir\)"):
        open_dataset(path)
    assert not (tmp_path / "witness").exists()
    for code in (
        b"cbuiltins\neval\n(S'1'\ntR.",
        b"cnumpy\nload\n(S'x'\ntR.",
        b"cnumpy.core.multiarray\nfrombuffer\n.",
        b"cnumpy\nndarray\n(I9\ntR.",
    ):
        (tmp_path / "adj_mx.pkl").write_bytes(code)
        with pytest.raises(UserError, match="adjacency pickle"):
            open_dataset(path)


@pytest.mark.slow
@pytest.mark.parametrize("whole", [PYTHON_2, *(pickle.dumps([IDS, {}, MATRIX], protocol) for protocol in (0, 2, 5))])
def test_a_pickle_cut_or_spoilt_anywhere_reads_or_is_a_user_error(tmp_path, whole):
    path, adjacency = write_table(tmp_path / "x.h5"), tmp_path / "adj_mx.pkl"
    refused = 0
    for end in range(len(whole)):
        for spoilt in (whole[:end], whole[:end] + b"\xff" + whole[end + 1 :]):
            adjacency.write_bytes(spoilt)
            try:
                AdjacencyMatrix.read(adjacency)
                if end % 31 == 0:
                    open_dataset(path)  # slower
            except UserError as error:
                refused += 1
                assert "adj_mx.pkl" in str(error) or "edge_weight" in str(error)
    assert refused > len(whole) / 2


def test_what_does_not_fit_is_named(tmp_path):
    path = write_table(tmp_path / "x.h5")
    with pytest.raises(UserError, match=r"expected one adj_mx\*\.pkl beside it, found none"):
        open_dataset(path)
    adjacency = write_adjacency(tmp_path / "adj_mx.pkl", ids=IDS[:2], matrix=MATRIX[:2, :2])
    with pytest.raises(UserError, match=r"adj_mx\.pkl: expected 3 x 3 for the sensors of x\.h5, found 2 x 2"):
        open_dataset(path)
    write_adjacency(adjacency, ids=[*IDS[:2], "5"])
    with pytest.raises(UserError, match="no sensor '717447', which x"):
        open_dataset(path)
    adjacency.write_bytes(pickle.dumps({"matrix": MATRIX}))
    with pytest.raises(UserError, match="expected \\[sensor ids"):
        open_dataset(path)
    adjacency.write_bytes(b"(]}cnumpy.core.multiarray\n_reconstruct\n(tRt.")  # an array that is never filled
    with pytest.raises(UserError, match="expected \\[sensor ids"):
        open_dataset(path)
    write_adjacency(adjacency)
    with pytest.raises(UserError, match=r"values\[0, 0, 0\]: not finite"):
        open_dataset(write_table(tmp_path / "inf.h5", values=np.where(VALUES == 1, np.inf, VALUES)))
    with pytest.raises(UserError, match="expected a number a step and sensor, found float64"):
        open_dataset(write_table(tmp_path / "t.h5", values=VALUES[:, :2]))


def test_a_damaged_table_is_named(tmp_path):
    write_adjacency(tmp_path / "adj_mx.pkl")
    whole = write_table(tmp_path / "x.h5", values=np.ones((500, 3))).read_bytes()
    for cut in (0, 7, 100, len(whole) // 2, len(whole) - 100):
        (tmp_path / "y.h5").write_bytes(whole[:cut])
        with pytest.raises(UserError, match=r"y\.h5: truncated or not pandas"):
            open_dataset(tmp_path / "y.h5")
    with h5py.File(tmp_path / "z.h5", "w") as file:
        file["numbers"] = VALUES
    with pytest.raises(UserError, match=r"z\.h5: no table in pandas' fixed form; found numbers"):
        open_dataset(tmp_path / "z.h5")

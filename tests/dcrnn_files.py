"""DCRNN's files, written with h5py and pickle."""

import pickle
from pathlib import Path

import h5py
import numpy as np

VALUES = np.array([[1.0, 2.0, np.nan], [4.0, 0.0, 6.0]])
MATRIX = np.array([[1.0, 0.5, 0.0], [0.0, 1.0, 0.25], [0.0, 0.0, 1.0]], np.float32)
IDS = ["773869", "767541", "717447"]


def write_table(path: Path, key: str = "df", columns: object = None, values: np.ndarray = VALUES) -> Path:
    with h5py.File(path, "a") as file:
        group = file.create_group(key)
        group["axis0"] = np.array(IDS, "S6") if columns is None else columns
        group["axis1"] = np.arange(len(values), dtype=np.int64) * 300 * 10**9
        group["block0_items"] = group["axis0"][()]
        group["block0_values"] = values
    return path


def write_adjacency(path: Path, ids: object = IDS, matrix: np.ndarray = MATRIX, protocol: int = 2) -> Path:
    path.write_bytes(pickle.dumps([ids, {name: i for i, name in enumerate(ids)}, matrix], protocol))
    return path

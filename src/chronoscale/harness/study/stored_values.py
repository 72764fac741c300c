"""Stored values: what a study's point gave as JSON, arrays, tuples and keys that are no text among it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np


def plain(value: Any) -> Any:
    """Return a value as JSON holds it, from which `restored` makes it again; NumPy numbers become Python's."""
    if isinstance(value, np.ndarray):
        return {"__array__": value.tolist()}
    if isinstance(value, Mapping):
        if all(isinstance(key, str) for key in value):
            return {key: plain(one) for key, one in value.items()}
        return {"__pairs__": [[plain(key), plain(one)] for key, one in value.items()]}
    if isinstance(value, tuple | list):
        return {"__tuple__": [plain(one) for one in value]} if isinstance(value, tuple) else [plain(one) for one in value]
    return value.item() if isinstance(value, np.generic) else value


def restored(value: Any) -> Any:
    """Return what `plain` was given, from what JSON holds of it."""
    if isinstance(value, list):
        return [restored(one) for one in value]
    if not isinstance(value, dict):
        return value
    if "__array__" in value:
        return np.asarray(value["__array__"])
    if "__tuple__" in value:
        return tuple(restored(one) for one in value["__tuple__"])
    if "__pairs__" in value:
        return {restored(key): restored(one) for key, one in value["__pairs__"]}
    return {key: restored(one) for key, one in value.items()}

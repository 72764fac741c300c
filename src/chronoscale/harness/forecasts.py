"""Forecasts: errors of a training's test, and those of naive ways that were tested beside it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from chronoscale.real_exec.plans import TEST

NAIVE = "naive"  # in TEST: by name, an error, errors by name, or the three in their order
ERRORS = ("mae", "rmse", "mape")


def tested(folder: Path, model: str) -> tuple[tuple[str, Mapping[str, float]], ...]:
    """The model's errors first, then the naive ones; nothing before training has come to its end."""
    path = folder / TEST
    if not path.exists():
        return ()
    data = json.loads(path.read_text())
    naive = data.get(NAIVE, {}) if isinstance(data, dict) else {}
    return (model, _errors(data)), *((f"{NAIVE}: {name}", _errors(one)) for name, one in naive.items())


def _errors(data: Any) -> dict[str, float]:
    if isinstance(data, dict):
        return {name: float(value) for name, value in data.items() if isinstance(value, (int, float))}
    return dict(zip(ERRORS, map(float, data if isinstance(data, list) else [data]), strict=False))

"""Forecasts: errors of a training's test, and those of naive predictions that were tested beside it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from chronoscale.real_exec.plans import TEST

NAIVE = "naive.json"  # by name, errors of what predicts without learning
ERRORS = ("mae", "rmse", "mape")


def errors(folder: Path, model: str) -> dict[str, dict[str, float]]:
    """Errors on the test windows by predictor, the model's first; nothing before training has come to its end."""
    if not (folder / TEST).exists():
        return {}
    naive = json.loads((folder / NAIVE).read_text()) if (folder / NAIVE).exists() else {}
    return {model: _errors(json.loads((folder / TEST).read_text()))} | {name: _errors(one) for name, one in naive.items()}


def _errors(data: Any) -> dict[str, float]:
    """By kind: they are kept in their order, or by name."""
    return {name: float(error) for name, error in (data.items() if isinstance(data, dict) else zip(ERRORS, data, strict=True))}

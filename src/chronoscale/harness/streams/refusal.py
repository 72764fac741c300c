"""Refusal: what is said where events come to a model of another family."""

from __future__ import annotations

from chronoscale.strategies.streams.models import STREAM_MODELS


def refused(label: str) -> str:
    """What can be done with a dataset of events, in one line."""
    return (
        f"dataset '{label}' is a stream of events: {', '.join(STREAM_MODELS)} train on it as it is, models on snapshots where it is "
        "cut, as in `cut: {width: 604800}` or `cut: {count: 1000}`"
    )

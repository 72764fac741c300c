"""Streams: events (CTDG), trained in chronological batches."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime

from chronoscale.datasets.streams.events import EventStream
from chronoscale.datasets.streams.statistics import count_stream, distinct_labels, stream_shape
from chronoscale.harness.fact import Fact, Facts
from chronoscale.harness.family import Configuration, Family
from chronoscale.harness.streams import tgl
from chronoscale.harness.streams.experiment import StreamExperiment
from chronoscale.strategies.baselines.streams import TGL_UNIQUE
from chronoscale.strategies.streams.models import STREAM_MODELS

EARLIEST, LATEST = 315_532_800, 4_102_444_800  # 1980 and 2100: a time between them looks like seconds


class Streams(Family):
    """As `Family` says."""

    name, container = "streams", EventStream
    keys, models, preferred = StreamExperiment, STREAM_MODELS.keys(), TGL_UNIQUE.name
    configurations: Mapping[str, Configuration] = {"tgl": tgl.read}

    def describe(self, found: EventStream, horizon: int) -> Facts:
        counted = count_stream(found)
        facts = [Fact("nodes", found.num_nodes), Fact("events", len(found)), *_times(found)]
        facts += [
            Fact("self-loops", counted.self_loops),
            Fact("repeated events", counted.duplicates, f"{counted.duplicates:,} (same src, dst and time)"),
        ]
        facts += [Fact("distinct pairs", counted.pairs), *_shape(found, counted.repetition)]
        facts += [Fact("features", 0 if found.features is None else found.features.shape[1])]
        if found.node_features is not None:
            facts.append(Fact("node features", found.node_features.shape[1]))
        return facts if found.labels is None else [*facts, Fact("distinct labels", distinct_labels(found))]


def _shape(found: EventStream, repetition: float) -> Facts:
    measured = stream_shape(found)
    facts = [Fact("nodes with an event", measured.active_nodes), Fact("repetition", repetition, f"{repetition:.2%} of the events")]
    skews = {"source skew": measured.source_skew, "destination skew": measured.destination_skew}
    facts += [Fact(what, value, f"{value:.2f} (Zipf exponent)") for what, value in skews.items() if not math.isnan(value)]
    if math.isnan(measured.burstiness):
        return facts
    return [*facts, Fact("burstiness", measured.burstiness, f"{measured.burstiness:.2f} (-1 even, 0 Poisson, 1 bursts)")]


def _times(found: EventStream) -> Facts:
    if not len(found):
        return []
    ends = {"first time": found.t[0].item(), "last time": found.t[-1].item()}
    seconds = all(EARLIEST <= time < LATEST for time in ends.values()) and "time" not in found.account
    return [Fact(what, time, f"{time:,}" + (f" ({_date(time)}, as seconds)" if seconds else "")) for what, time in ends.items()]


def _date(time: float) -> str:
    return datetime.fromtimestamp(time, UTC).isoformat(" ", "seconds").replace("+00:00", " UTC")

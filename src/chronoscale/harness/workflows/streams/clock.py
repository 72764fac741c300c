"""Clock of an experiment on an event stream: the unit in which its model reads elapsed times, and where float32 is too coarse for them."""

from __future__ import annotations

import warnings

from chronoscale.batching.streams.event_gaps import measure_event_gaps
from chronoscale.batching.streams.partitioning.partitioner import elapsed_time
from chronoscale.batching.streams.prepared import PreparedStream
from chronoscale.errors import ChronoscaleWarning
from chronoscale.harness.keys.streams import StreamModel
from chronoscale.strategies.streams.models import stream_kind

ROUNDING = 2.0**-24  # of a float32, relative
COARSE = 0.01  # rad, of a phase


def clock_notes(model: StreamModel, data: PreparedStream) -> list[str]:
    """Return the notes of a training on its model's clock: the unit of elapsed times, with `clock: gaps`; [] for another clock, and for a
    model of a user's file, which reads elapsed times as they are.

    Warns (ChronoscaleWarning) where the clock's sharpest frequency, 1 a unit at first, turns so far within the stream that float32 resolves
    its phase to COARSE rad at best.
    """
    kind = stream_kind(model.name)
    if not kind.clock or kind.own or model.clock == "log":
        return []
    unit = (measure_event_gaps(data.training, data.training_events)[1] or 1.0) if model.clock == "gaps" else 1.0
    turned = float(elapsed_time(data.whole.stream, slice(-1, None))[0]) / unit
    if turned * ROUNDING > COARSE:
        warnings.warn(
            f"model.clock: {model.clock}: phases of elapsed times reach {turned:.2g} rad, where float32 is off by {turned * ROUNDING:.2g}: "
            "runs that differ in rounding alone part soon, as on other numbers of ranks" + "; model.clock: gaps" * (model.clock != "gaps"),
            ChronoscaleWarning,
            stacklevel=2,
        )
    if model.clock != "gaps":
        return []
    return [
        f"model.clock: gaps: elapsed times are in units of {unit:.6g}, the standard deviation of gaps between a node's training events."
    ]

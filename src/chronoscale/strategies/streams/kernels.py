"""Counts of kernels for schedules on events."""

from __future__ import annotations

from chronoscale.strategies.costing.kernels import Kernels
from chronoscale.strategies.plugins import names_file
from chronoscale.strategies.streams.feeding import StreamFeeding
from chronoscale.strategies.streams.kinds.base import DECIBELS
from chronoscale.strategies.streams.models import StreamShape, shape_of
from chronoscale.strategies.streams.placements import PLACEMENTS
from chronoscale.strategies.workload import Workload

STATE = "STATE"  # the law of a batch's second H2D row, of node memory and mailbox, and of its rows' way to where they are read
# Where rows of features are read elsewhere than they arrive: of their sending, of bringing them there, of that and of keeping some.
SENT = "SENT"
EXPAND = "EXPAND"
KEEP = "KEEP"


def model_key(shape: StreamShape, feeding: StreamFeeding) -> str:
    """Return the key under which kernels of an event-stream model were counted: name, task, and the operators of attention where they are
    not ours.

    A model of a user's file has the key of the published one that is most like it, as an estimate: plans of what is executed need no more.
    """
    operators = feeding.operators if shape.spatial == "attention" else ""
    name = shape.name
    if names_file(name):
        name = ("tgn" if shape.memory else "tgat") if shape.layers else "jodie"
    return " ".join([name, "node" if shape.outputs else "link", *[operators] * bool(operators)])


def kernels_of(workload: Workload, ranks: int, feeding: StreamFeeding) -> Kernels:
    """Return how many GPU kernels each operation starts, and what bytes it moves, for a plan of epochs on an event stream.

    feeding: how the strategy samples, caches and sends batches, on which counts depend. Raises UserError for a model that was not counted.
    """
    shape = shape_of(workload)
    sizes = {
        "above": max(shape.layers - 1, 0),
        "steps": 0,
        "windows": shape.windows,
        "features": int(shape.features > 0),
        "edges": int(shape.edge > 0),
        "log": int(shape.clock == "log"),
        "gaps": int(shape.clock == "gaps"),
        "both": int(shape.clock in DECIBELS),
        "beside": int(shape.slot > 0),
        "parted": int(shape.heads > 1),
        "dropout": int(shape.dropout > 0),
        "spread": int(ranks > 1),
        "named": int(shape.pairwise and not feeding.merged),
        "compressed": int(feeding.compressed),
        "cached": int(bool(feeding.placement)),
        "changing": int(bool(feeding.placement) and PLACEMENTS[feeding.placement].dynamic),
        "hidden": shape.hidden,
        "time": shape.time,
        "slot": shape.slot,
        "heads": shape.heads,
        "mail": shape.mail,
        "mails": shape.mails,
        "given": shape.features,
        "outputs": shape.outputs,
        "patches": shape.patches,
        "patch": shape.patch,
        "places": shape.patches * shape.patch,
        "parameters": shape.parameters,
    }
    return Kernels.of_model("events", model_key(shape, feeding), sizes)

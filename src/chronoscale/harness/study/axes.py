"""Axes: the names that the axes of a study's grid may have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Any

from chronoscale.errors import unknown
from chronoscale.harness.study.expressions import read_by
from chronoscale.harness.study.point import AXES

TESTBED = "testbed"  # setting of a point: keys of the paper's testbed, in place of those in its file
EVERY = (*AXES[1:], "experiment", "runner", "of", TESTBED)
BLOCK = ("if", "like")  # keys of a block that are no axes
SETTINGS = frozenset((  # that testbeds and hooks read
    "ahead", "alpha", "bandwidth", "batch", "batches", "bus", "cached", "cases", "churn", "copies", "cut", "degrees", "divisor", "edges",
    "efficiency", "epochs", "events", "factor", "fanout", "full", "heads", "hidden", "horizon", "l1", "latency_s", "launch_s", "least",
    "length", "longest", "most", "network", "nodes", "once", "pipelined", "policy", "presample", "rate", "rates", "reads", "repeats",
    "sampling", "seed", "sent", "share", "shared", "size", "stages", "steps", "strategies", "tests", "theta", "threads", "warm",
    "warps", "way", "width",
))  # fmt: skip


def words(value: Any) -> Iterator[str]:
    """Yield what the expressions and templates in a study file's part read. value: as YAML gives it; its keys are none of them."""
    if isinstance(value, str):
        yield from read_by(value)
    elif isinstance(value, Mapping | Sequence):
        for one in value.values() if isinstance(value, Mapping) else value:
            yield from words(one)


def check(axes: Mapping[str, Any], read: Set[str]) -> None:
    """Check that something reads each axis of a grid's block.

    axes: by name, without `if` and `like`; those with a dot are keys of the experiment, which checks them. read: `words` of the study file.
    Raises UserError for one that nothing reads, with the nearest known one.
    """
    for_experiments = "experiment" in axes and "of" not in axes  # which read their own keys, with a dot
    known = {*EVERY, *(() if for_experiments else SETTINGS)}
    for name in axes:
        if not ("." in name or name in known or name in read):
            raise unknown("axis", name, known)

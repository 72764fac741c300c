"""Variants: how a snapshot is sent, and which implementation of an operation runs a row (`Schedule.variant`)."""

from __future__ import annotations

from enum import IntEnum


class Form(IntEnum):
    """How a snapshot comes to the device in plans of REAL."""

    FULL = 0  # its adjacency
    MAP = 1  # its changed edges; the adjacency is rebuilt on the device and aggregated in full
    DELTA = 2  # its changed edges; the aggregation is incremented


class AggregateVariant(IntEnum):
    """Implementations of a schedule's AGGREGATE rows on snapshots, which costs tell apart (`Schedule.variant`)."""

    ALONE = 0  # one result
    TWICE = 1  # the sums, which increments go on from, and beside them the normalised ones
    TRACKED = 2  # above the first layer, with what its gradient needs


class TransformVariant(IntEnum):
    """Implementations of a schedule's TRANSFORM rows (dense products) on snapshots, which costs tell apart (`Schedule.variant`)."""

    WHOLE = 0  # the rows are the result
    INTO = 1  # the rows are put into a copy of all rows of the snapshot before (`index_copy`)
    PART = 2  # the rows are gathered first, where groups share the others
    INTO_PART = 3  # the rows are put into a copy of those that groups do not share


class TemporalVariant(IntEnum):
    """Implementations of a schedule's TEMPORAL rows (recurrent steps) on snapshots, which costs tell apart (`Schedule.variant`).

    They begin from a state, or from none, which saves the product with it; and run a group without others, or in turn with another group's
    rows, which leave it colder caches. Where groups share rows (`shared_rows`), a step reads products that were made once, or computes only
    the rows that an earlier group does not.
    """

    ON = 0
    FIRST = 1
    ON_BESIDE = 2
    FIRST_BESIDE = 3
    LASTING = 4
    LASTING_FIRST = 5
    REST = 6
    REST_FIRST = 7


class BackwardVariant(IntEnum):
    """Implementations of a schedule's BACKWARD rows on snapshots, which costs tell apart (`Schedule.variant`)."""

    ALONE = 0  # of the group that was computed last
    BESIDE = 1  # of one of two that were computed in turn
    LASTING = 2  # of a group whose steps read products that were made once, and whose rows no other group reads
    REST = 3  # of a group that reads rows of an earlier one
    LED = 4  # of a group whose rows later groups read, after their passes

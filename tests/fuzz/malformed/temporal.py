"""Calls on event streams: a T-CSR is made, and neighbours are sampled from it, or across a boundary."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np

from chronoscale.cuda_ext.sampling import boundary_decay, temporal

Call = Callable[[str], tuple[Any, ...]]
HOSTILE = (-(2**31), -2, -1, 0, 5, 9, 100, 2**31 - 1)
STRANGE: tuple[Callable[[np.ndarray], np.ndarray], ...] = (
    lambda array: array.astype(array.dtype.newbyteorder()),
    lambda array: np.repeat(array, 2)[::2],
    lambda array: array.astype(np.int8),
    lambda array: array[: len(array) // 2],
    lambda array: array[None],
    lambda array: array + 2**20,
    lambda array: -array,
)
HOSTILE_NUMBERS = (-1.0, np.nan, np.inf)
SEEDS = (0, 1, 2**63, 2**64 - 1, 2**64, -1)


def _ids(generator: np.random.Generator, size: int, below: int) -> np.ndarray:
    """Mostly sound ones; some hostile; sometimes of another type, shape or place in memory."""
    made = generator.integers(0, max(below, 1), size).astype(np.int32)
    if size and generator.random() < 0.3:
        made[generator.integers(size)] = HOSTILE[generator.integers(len(HOSTILE))]
    choice = generator.integers(24)
    if choice == 0:
        return made[: size // 2]
    if choice == 1:
        return made[None]
    if choice == 2:
        if generator.random() < 0.3:
            return made + np.int64(2**32)
        return made.astype((np.int64, np.float64, np.uint8, np.bool_)[generator.integers(4)])
    return np.repeat(made, 2)[::2] if choice == 3 else made


def neighbours(generator: np.random.Generator) -> Call:
    nodes, events, roots = (int(generator.integers(0, most)) for most in (9, 60, 20))
    if generator.random() < 0.03:
        nodes, events, roots = 300, 5000, 9000  # enough for helpers
    src, dst, node, before = (_ids(generator, *of) for of in ((events, nodes), (events, nodes), (roots, nodes), (roots, events + 1)))
    both, fanout, seed = bool(generator.integers(2)), int(generator.choice([0, 1, 3, 10, 1024, 1025, -1])), SEEDS[generator.integers(6)]
    policy, threads, room = (
        ("recent", "uniform", "any")[generator.choice(3, p=(0.45, 0.45, 0.1))],
        int(generator.integers(4)),
        generator.random(),
    )

    since = _ids(generator, roots, events + 1) if generator.random() < 0.5 else None
    strange, at = int(generator.integers(len(STRANGE))) if generator.random() < 0.2 else -1, int(generator.integers(3))

    def call(backend: str) -> tuple[Any, ...]:
        with mock.patch.object(temporal, "cpu_library_or_warn", temporal.cpu_library_or_warn if backend == "cpu" else lambda what: None):
            indptr = np.zeros(nodes + 1, np.int64)
            temporal.count(src, dst, both, indptr[1:])
            np.cumsum(indptr, out=indptr)
            entries = int(indptr[-1]) if room < 0.9 else int(indptr[-1]) // 2
            neighbor, event, cursor = np.zeros(entries, np.int32), np.zeros(entries, np.int32), indptr[:-1].copy()
            temporal.fill(src, dst, 0, both, cursor, neighbor, event)
            rows = [indptr, neighbor, event]
            if strange >= 0:
                rows[at] = STRANGE[strange](rows[at])
            found = temporal.sample(tuple(rows), node, before, fanout, policy, seed, threads, since)  # type: ignore[arg-type]
            return (neighbor, event, *found) if strange < 5 else ()  # of rows that do not ascend nothing is promised

    return call


def across(generator: np.random.Generator) -> Call:
    nodes, events, roots = (int(generator.integers(0, most)) for most in (9, 60, 20))
    src, dst = (generator.integers(0, max(nodes, 1), events if nodes else 0).astype(np.int32) for _ in range(2))
    node, before = _ids(generator, roots, nodes), _ids(generator, roots, len(src) + 1)
    parts = [generator.integers(-1, 2, nodes).astype(np.int32), generator.integers(0, 2, len(src)).astype(np.int32)]
    t = np.sort(generator.integers(-9, 9, len(src))) * (1 if generator.random() < 0.8 else 2**58)
    t = t if generator.random() < 0.5 else t / 7
    hostile = generator.integers(3)
    theta, decay = (
        float(generator.choice(some))
        for some in ([0, 0.1, 0.5, 0.7, 0.9, 1, 9, HOSTILE_NUMBERS[hostile]], [0, 0.1, 0.3, 2, 1e9, 1e308, HOSTILE_NUMBERS[hostile]])
    )
    complete, fanout, seed = bool(generator.integers(2)), int(generator.choice([0, 1, 3, 10, 1024, 1025])), SEEDS[generator.integers(6) % 5]
    rank, threads = int(generator.choice([0, 0, 0, 1, 1, 1, 5, -1, 2**31])), int(generator.integers(4))
    strange, at = int(generator.integers(len(STRANGE))) if generator.random() < 0.4 else -1, int(generator.integers(6))

    def call(backend: str) -> tuple[Any, ...]:
        indptr = np.zeros(nodes + 1, np.int64)
        temporal.count(src, dst, True, indptr[1:])
        np.cumsum(indptr, out=indptr)
        neighbor, event = np.zeros(int(indptr[-1]), np.int32), np.zeros(int(indptr[-1]), np.int32)
        temporal.fill(src, dst, 0, True, indptr[:-1].copy(), neighbor, event)
        given = [indptr, neighbor, event, *parts, t]
        if strange >= 0:
            given[at] = STRANGE[strange](given[at])
        library = boundary_decay.cpu_library_or_warn if backend == "cpu" else lambda what: None
        with mock.patch.object(boundary_decay, "cpu_library_or_warn", library):
            owned = boundary_decay.Ownership(*given[3:5], rank)
            found = boundary_decay.sample(tuple(given[:3]), given[5], owned, node, before, fanout, theta, decay, complete, seed, threads)  # type: ignore[arg-type]
        return tuple(found) if strange < 5 else ()

    return call


KINDS = (neighbours, across)

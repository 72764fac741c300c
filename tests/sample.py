"""A pytest plug-in: `@pytest.mark.sample(n)` leaves n cases of a parametrised test, spread over all, to the fast tier; others are slow."""

from __future__ import annotations

from collections import defaultdict

import pytest


def spread(count: int, wanted: int) -> set[int]:
    """Return `wanted` of `count` places, at most all, as far apart as they can be, the first and the last among them."""
    if wanted >= count:
        return set(range(count))
    return {round(place * (count - 1) / max(wanted - 1, 1)) for place in range(wanted)}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what is not in the sample, before tests are chosen by their marks."""
    cases = defaultdict[tuple[object, ...], list[pytest.Item]](list)
    for item in items:
        if item.get_closest_marker("sample") and not item.get_closest_marker("slow"):
            cases[item.path, item.nodeid.partition("[")[0]].append(item)
    for group in cases.values():
        (wanted,) = group[0].get_closest_marker("sample").args  # type: ignore[union-attr]
        taken = spread(len(group), wanted)
        for place, item in enumerate(group):
            if place not in taken:
                item.add_marker(pytest.mark.slow)

"""Grids: points as products of axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Any

from chronoscale.harness.study import axes as known
from chronoscale.harness.study.expressions import Names, filled, value
from chronoscale.harness.study.point import StudyPoint

Block = Mapping[str, Any]  # axis -> value, list of values, or `=expression` of either; `if` -> expression


def points(blocks: Block | Sequence[Block], paper: str, names: Names, read: Set[str] = frozenset()) -> list[StudyPoint]:
    """Return the points of a study file's `grid`, the product of its axes, the first axis outermost, each point once.

    blocks: one or several mappings, axis (such as 'dataset' or 'gpus') -> value, list of values, or `=expression`, which sees the axes
    before it. `if` leaves out points for which its expression is false; `like` is an expression that gives axes to put before the block's
    own. paper: key of the paper whose testbed they run on, '' for none. names: what expressions may use. read:
    `axes.words` of the study file. Raises UserError for an axis that nothing reads.
    """
    unique_points: dict[StudyPoint, None] = {}
    for block in [blocks] if isinstance(blocks, Mapping) else blocks:
        like = value(block["like"], names) if "like" in block else {}
        axes = {name: given for name, given in {**like, **block}.items() if name not in known.BLOCK}
        known.check(axes, read)
        for point in _product(list(axes.items()), {}, names, block.get("if", True)):
            unique_points[StudyPoint.of({"paper": paper, **point})] = None
    return list(unique_points)


def _product(axes: list[tuple[str, Any]], above: dict[str, Any], names: Names, wanted: Any) -> list[dict[str, Any]]:
    if not axes:
        return [above] if value(wanted, {**names, **above}) else []
    (name, given), *rest = axes
    values = value(given[1:], {**names, **above}) if isinstance(given, str) and given.startswith("=") else given
    if isinstance(values, str) and "{" in values:
        values = filled(values, {**names, **above})
    several = list(values) if isinstance(values, list | tuple | range) else [values]
    return [point for one in several for point in _product(rest, {**above, name: one}, names, wanted)]

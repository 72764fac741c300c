"""Line-up of the rivals of a model that predicts links, the same for snapshots and streams."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from chronoscale.batching.rivals.links.neighbours import CommonNeighbours
from chronoscale.batching.rivals.links.pairs import (
    LatestThenPopular,
    LinkHistory,
    PairFrequency,
    Popularity,
    PreferentialAttachment,
    SeenPair,
    SeenThenPopular,
)
from chronoscale.batching.rivals.links.rival import LinkRival
from chronoscale.batching.rivals.rival import choose_rival

FADING: tuple[type[Popularity], ...] = (SeenThenPopular, LatestThenPopular, Popularity)  # those that have a half-life to choose


def line_up(
    history: LinkHistory,
    edge_banks: Sequence[SeenPair],
    half_lives: Sequence[float],
    chosen: str,
    validated: Callable[[LinkRival], Mapping[str, float]],
    neighbours: CommonNeighbours,
) -> list[LinkRival]:
    """Return the rivals of a model that predicts links: `edge_banks`, and those that count what `history` holds, each with the one of
    `half_lives` (units of the history's clock) whose scores by `validated` are best. chosen: what chose it, for people. neighbours: of the
    same events.
    """
    fading = (choose_rival([kind(history, each, chosen) for each in half_lives], validated) for kind in FADING)
    return [*edge_banks, PairFrequency(history), *fading, PreferentialAttachment(history), neighbours]

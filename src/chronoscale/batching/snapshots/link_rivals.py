"""Rivals of models that predict the links of a snapshot: what scores without a network reach, from the snapshots so far."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np

from chronoscale.batching.rivals.links.lineup import line_up
from chronoscale.batching.rivals.links.neighbours import CommonNeighbours
from chronoscale.batching.rivals.links.pairs import EVER, LinkHistory, SeenPair
from chronoscale.batching.rivals.links.rival import LinkRival
from chronoscale.batching.rivals.rival import RivalScores
from chronoscale.batching.snapshots.links import LinkPairs, mean_scores, score_sums
from chronoscale.datasets.streams.tcsr import TCSR

LAST_EDGES = "edges of the last snapshot"
HALF_LIVES = (1, 0.5, 2, 4, 8)  # snapshots, after which an event counts half as much; validation chooses, or without it the first is taken


def score_snapshot_link_rivals(pairs: LinkPairs, part: range, horizon: int) -> list[RivalScores]:
    """Score the rivals of a model that predicts links on the snapshots `part`, from what is `horizon` snapshots before and earlier: AP, AUC
    and MRR, each the mean over the snapshots that have it, against the same negatives as a model."""
    events = pairs.events
    history = LinkHistory(events, np.asarray(events.t, np.int64), "snapshots")
    bipartite = not np.intersect1d(events.src[: pairs.trained], events.dst[: pairs.trained]).size
    half_lives, chosen = (
        ([*HALF_LIVES, EVER], "validation chose that") if pairs.validated else (HALF_LIVES[:1], "nothing validates to choose it by")
    )
    validated: Callable[[LinkRival], Mapping[str, float]] = partial(_scores, pairs, pairs.validated, horizon, ranked=False)
    edge_banks = SeenPair(history, LAST_EDGES, 0, "the edges of the newest snapshot that has any"), SeenPair(history)
    rivals = line_up(history, edge_banks, half_lives, chosen, validated, CommonNeighbours(TCSR.of(events), bipartite))
    return [RivalScores(rival.name, rival.meaning, _scores(pairs, part, horizon, rival)) for rival in rivals]


def _scores(pairs: LinkPairs, part: range, horizon: int, rival: LinkRival, ranked: bool = True) -> dict[str, float]:
    """Return a rival's scores; without `ranked` those of AP and AUC alone, which is faster."""
    sums = []
    for snapshot in part:
        rows = pairs.evaluated(snapshot)[:, : None if ranked else 3]  # source, destination, a negative; the ranked ones
        scores = rival.scores(rows[:, 0], rows[:, 1:], np.full(len(rows), pairs.known(snapshot, horizon), np.int64))
        sums.append(score_sums(scores[:, 0], scores[:, 1:]))
    return mean_scores(np.sum(sums, axis=0)) if sums else {}

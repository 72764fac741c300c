"""Rivals of models of event streams, and their scores on validation or test events: what predictions without a network reach."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Literal

import numpy as np

from chronoscale.batching.rivals.links.lineup import line_up
from chronoscale.batching.rivals.links.neighbours import CommonNeighbours
from chronoscale.batching.rivals.links.pairs import EVER, LinkHistory, SeenPair
from chronoscale.batching.rivals.links.rival import LinkRival
from chronoscale.batching.rivals.rival import RivalScores
from chronoscale.batching.streams.label_rivals import score_label_rivals
from chronoscale.batching.streams.prepared import PreparedStream
from chronoscale.datasets.streams import ranking
from chronoscale.datasets.streams.edgebank import batch_starts

Period = Literal["test", "validation"]
HALF_LIVES = (10, 30, 100, 300, 1_000, 3_000, 10_000, 30_000, 100_000)  # events, after which one counts half as much; validation chooses


def score_stream_rivals(data: PreparedStream, batch: int, period: Period = "test", limit: int = 0) -> list[RivalScores]:
    """Score the rivals of a model of event streams on the validation or test events, links or labels, as the task has it: on the negatives
    that a model is scored with there, from the events before each batch of `batch` events. limit: of so many batches alone, the first ones;
    0: of all."""
    part = _part(data, period, batch * limit)
    if data.protocol.task == "node":
        return score_label_rivals(data, batch_starts(part, batch), part)
    rivals = link_rivals(data, batch)
    return [RivalScores(rival.name, rival.meaning, _scores(data, batch, period, rival, batch * limit)) for rival in rivals]


def link_rivals(data: PreparedStream, batch: int) -> list[LinkRival]:
    """Return the rivals of a model that predicts a stream's links. Settings are those that are best on the validation events, which are
    told from `batch` events a batch."""
    events, trained = data.whole.stream, slice(data.split.train_end)
    history = LinkHistory(events, np.arange(len(events), dtype=np.int64), "events")
    share = 1 - data.protocol.train - data.protocol.validation
    window = share * float(events.t[trained][-1] - events.t[0])
    late = f"the events of the last {window:.4g} units of time, {share:.0%} of what training spans (TGB's public code)"
    half_lives = [*(half_life for half_life in HALF_LIVES if half_life < len(events)), EVER]
    validated: Callable[[LinkRival], Mapping[str, float]] = partial(_scores, data, batch, "validation")
    sends, receives = (np.bincount(ends[trained], minlength=events.num_nodes) for ends in (events.src, events.dst))
    neighbours = CommonNeighbours(data.whole.tcsr, bipartite=not (sends * receives).any())
    edge_banks = SeenPair(history), SeenPair(history, "EdgeBank of a window", window, late)
    return line_up(history, edge_banks, half_lives, "validation chose that", validated, neighbours)


def _part(data: PreparedStream, period: Period, events: int) -> range:
    """Return the events of a period, or its first so many; 0: all."""
    part = data.split.test if period == "test" else data.split.validation
    return part[:events] if events else part


def _scores(data: PreparedStream, batch: int, period: Period, rival: LinkRival, limit: int = 0) -> dict[str, float]:
    part = _part(data, period, limit)
    events, span = data.whole.stream, slice(part.start, part.stop)
    src, dst = np.asarray(events.src[span]), np.asarray(events.dst[span])
    uses = ("test", "ranked") if period == "test" else ("validation",)
    candidates = np.concatenate([dst[:, None], *(data.negatives(use).dst[: len(part)] for use in uses)], axis=1)
    scores = rival.scores(src, candidates, batch_starts(part, batch))
    return ranking.link_scores(scores[:, 0], scores[:, 1:], data.new[src] | data.new[dst])

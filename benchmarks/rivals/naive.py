"""Naive rivals, which learn nothing: a pair seen before, a destination that is popular, both. Each gives scores [E, 2 + k] to questions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from chronoscale.datasets.arrays import Float32
from chronoscale.datasets.streams.edgebank import EdgeBank
from chronoscale.datasets.streams.events import EventStream
from rivals.protocol import Figures, Protocol, Questions

HALF_LIVES = (100, 300, 1_000, 3_000, 10_000, 30_000, 100_000)  # events; validation chooses
Answers = Callable[[Questions], Float32]


def edgebank(stream: EventStream) -> Answers:
    """1 for a pair that an earlier batch had."""
    bank = EdgeBank(stream)
    return lambda questions: bank.scores(questions.src, questions.candidates, questions.known)


def popularity(stream: EventStream, half_life: float) -> Answers:
    """Events that the destination had before the batch, each counting half as much after every `half_life` events (PopTrack: Daniluk and
    Dabrowski 2023, section 4, which lets them fade by the batch)."""

    def answers(questions: Questions) -> Float32:
        weight, done = np.zeros(stream.num_nodes), 0
        scores = np.empty(questions.candidates.shape, np.float32)
        starts, first = np.unique(questions.known, return_index=True)
        for known, here in zip(starts.tolist(), np.split(np.arange(len(scores)), first[1:]), strict=True):
            weight *= 0.5 ** ((known - done) / half_life)
            age = known - np.arange(done, known)
            weight += np.bincount(stream.dst[done:known], 0.5 ** (age / half_life), stream.num_nodes)
            done = known
            scores[here] = weight[questions.candidates[here]]
        return scores

    return answers


def both(stream: EventStream, half_life: float) -> Answers:
    """Pairs that were there before others, and among equals by popularity."""
    seen, popular = edgebank(stream), popularity(stream, half_life)

    def answers(questions: Questions) -> Float32:
        weight = popular(questions)
        return seen(questions) + weight / (1 + weight)

    return answers


def chosen(protocol: Protocol, rival: Callable[[EventStream, float], Answers]) -> tuple[float, Answers]:
    """The half-life that validates best, and the rival with it."""
    tried = {half_life: rival(protocol.stream, half_life) for half_life in HALF_LIVES}
    best = max(tried, key=lambda half_life: protocol.validation.figures(tried[half_life](protocol.validation)).ap)
    return best, tried[best]


def tested(protocol: Protocol, answers: Answers) -> tuple[float, Figures, Figures]:
    """Validation AP, the figures of the test, and of its events on new nodes."""
    validation, test = answers(protocol.validation), answers(protocol.test)
    return protocol.validation.figures(validation).ap, protocol.test.figures(test), protocol.test.figures(test, protocol.test.new)

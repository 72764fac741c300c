"""Evaluation: the test events of a stream whose memory is spread over ranks, predicted as the strategy predicts."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from chronoscale.datasets.arrays import Int32
from chronoscale.datasets.streams.draws import FIXED_EPOCH, derive_key
from chronoscale.datasets.streams.event_numbers import relative_to, row_index
from chronoscale.real_exec.streams.evaluation import ROOTS
from chronoscale.real_exec.streams.outcome import Outcome
from chronoscale.real_exec.streams.spread.program import SpreadProgram


@torch.no_grad()
def evaluate(program: SpreadProgram) -> dict[str, float]:
    """Scores of the test events, in batches of the training's size; nothing is trained. Called on every rank.

    Each rank predicts its part's, of replicas the one alone whose memory has seen all; neighbours are sampled, remote rows fetched and
    shared nodes synchronised as in training, in turn.
    """
    program.learner.model.eval()
    if not program.hyper.validate:
        _pass(program, program.data.split.validation, None, None)
    data, link = program.data, program.data.protocol.task == "link"
    part = data.split.test
    others: Int32 = np.empty((len(part), 0), np.int32)
    if link:
        others = np.concatenate([data.negatives("test").dst, data.negatives("ranked").dst], axis=1)
    outcome = Outcome(part, program.width(others.shape[1]), program.device)
    outcome.seen[:] = True
    _pass(program, part, others, outcome)
    outcome.together(program.collective)
    return outcome.links(data, others >= 0) if link else outcome.labels(data)


def _pass(program: SpreadProgram, part: range, others: Int32 | None, outcome: Outcome | None) -> None:
    """Over events in batches, memory going on. others [n, k]: what they are told from."""
    seat, source = program.spreading.local_part(True, program.rank), program.spreading.source(True)
    allotment, steps = program.spreading.assignment(part, program.hyper.batch_size, validates=True), program.steps
    seed, width = derive_key(program.seed, FIXED_EPOCH + 1), 0 if others is None else others.shape[1]
    size = max(ROOTS // (2 + width), 1)
    for iteration in range(allotment.iterations):
        own = allotment.rank_events(iteration, program.turn)
        longest = max(len(allotment.rank_events(iteration, rank)) for rank in range(allotment.ranks))
        ends: list[tuple[Tensor, Tensor]] = [steps.ends(None)]
        for begin in range(0, longest, size):  # of the same number on all ranks, as they exchange rows
            events = own[begin : begin + size]
            told = np.empty((len(events), 0), np.int32) if others is None else others[row_index(relative_to(events, part.start))]
            before = allotment.before(iteration, program.turn)
            batch = steps.around(source, seat, events, (told, None), before, seed) if len(events) else None
            steps.bring(batch, seat is not None and allotment.ranks > 1)
            if batch is None:
                continue
            for layer in range(program.material.shape.layers):
                steps.layer(batch, layer)
            if outcome is not None:
                outcome.add(events, steps.logits(batch))
            ends.append(steps.ends(batch))
        program.settle(allotment, iteration, ends)

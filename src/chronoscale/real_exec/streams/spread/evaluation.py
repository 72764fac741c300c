"""Evaluation: the test events of a stream whose memory is spread over ranks, predicted as the strategy predicts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from chronoscale.datasets.arrays import Int32
from chronoscale.datasets.streams.draws import FIXED_EPOCH, derive_key
from chronoscale.datasets.streams.event_numbers import relative_to, row_index
from chronoscale.real_exec.streams.evaluation import ROOTS
from chronoscale.real_exec.streams.predictions import Predictions
from chronoscale.real_exec.streams.spread.program import SpreadProgram


@torch.no_grad()
def evaluate(program: SpreadProgram, file: Path | None = None) -> dict[str, float]:
    """Return a trained model's scores of the test events, by key, where node memory is spread over ranks. Called on every rank.

    Batches have the training's size; the model does not train. Each rank predicts the events of its part; of replicas, or groups, only the
    one whose memory has seen all events predicts. Neighbours are sampled, remote rows fetched and shared nodes synchronised as in training,
    in turn. file: that rank 0 writes the predictions to.
    """
    program.learner.model.eval()
    if not program.hyper.validate:
        _pass(program, program.data.split.validation, None, None)
    data, link = program.data, program.data.protocol.task == "link"
    part = data.split.test
    others = data.negatives_of_evaluation("test")
    predictions = Predictions(part, program.width(others.shape[1]), program.device)
    predictions.seen[:] = True
    _pass(program, part, others, predictions)
    predictions.all_reduce(program.collective)
    if file is not None and program.rank == 0:
        predictions.save(file)
    return predictions.links(data, others >= 0) if link else predictions.labels(data)


def _pass(program: SpreadProgram, part: range, others: Int32 | None, predictions: Predictions | None) -> None:
    """Predict events in batches, memory going on; without `predictions`, only memory is updated by them. others [n, k]: negatives."""
    local_part, source = program.spreading.local_part(True, program.rank), program.spreading.source(True)
    allotment, steps = program.spreading.assignment(part, program.hyper.batch_size, validates=True), program.steps
    seed, width = derive_key(program.seed, FIXED_EPOCH + 1), 0 if others is None else others.shape[1]
    size, cache = max(ROOTS // (2 + width), 1), program.cache(True, allotment)
    for iteration in range(allotment.iterations):
        own = allotment.rank_events(iteration, program.turn)
        longest = max(len(allotment.rank_events(iteration, rank)) for rank in range(allotment.ranks))
        ends: list[tuple[Tensor, Tensor]] = [steps.ends(None)]
        for begin in range(0, longest, size):  # of the same number on all ranks, as they exchange rows
            events = own[begin : begin + size]
            negatives = np.empty((len(events), 0), np.int32) if others is None else others[row_index(relative_to(events, part.start))]
            before = allotment.before(iteration, program.turn)
            batch = steps.around(source, local_part, events, (negatives, None), before, seed, cache, iteration) if len(events) else None
            steps.prepare(batch, program.group.members > 1)
            if batch is None:
                continue
            for layer in range(program.material.shape.layers):
                steps.layer(batch, layer)
            if predictions is not None:
                predictions.add(events, steps.logits(batch))
            ends.append(steps.ends(batch))
        program.settle(allotment, iteration, ends)

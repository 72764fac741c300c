"""Evaluation: the test or validation events of a stream, predicted in order, with node memory going on from what came before them."""

from __future__ import annotations

from pathlib import Path

import torch

from chronoscale.batching.streams.prepared import Period
from chronoscale.batching.streams.ranks.assignment import BatchAssignment
from chronoscale.datasets.streams.draws import FIXED_EPOCH, derive_key
from chronoscale.real_exec.streams.predictions import Predictions
from chronoscale.real_exec.streams.program import EventProgram
from chronoscale.real_exec.streams.updates import UpdatedNodes, write_updates

ROOTS = 1 << 14  # read at once, however many negatives an event is ranked against


@torch.no_grad()
def evaluate(program: EventProgram, file: Path | None = None, period: Period = "test") -> dict[str, float]:
    """Return a trained model's scores of the events of a period, by key, in batches of the training's size, on whichever ranks.

    Called on every rank.

    Node memory goes on, the model does not train. Each destination is compared with one fixed negative (AP, AUC) and ranked against others
    (MRR), of the validation published ones; where labels are predicted, those are scored. Neighbours of the validation are those that
    epochs draw for it. file: that rank 0 writes the predictions to.
    """
    data = program.data
    steps = program.steps.for_evaluation()
    source = data.source(True, program.sampling)
    link, deal = data.protocol.task == "link", _batches(program, data.split.test if period == "test" else data.split.validation)
    others = data.negatives_of_evaluation(period)
    predictions = Predictions(deal.part, program.width(others.shape[1]), program.device)
    predictions.seen[:] = True
    program.learner.model.eval()
    seed, size = derive_key(program.seed, FIXED_EPOCH + (period == "test")), max(ROOTS // (2 + others.shape[1]), 1)
    for iteration in range(deal.iterations):
        whole, own = deal.all_events(iteration), deal.rank_events(iteration, program.rank)
        for begin in range(own.start, own.stop, size):
            part = range(begin, min(begin + size, own.stop))
            negatives = others[part.start - deal.part.start : part.stop - deal.part.start]
            batch = steps.sample(source, part, negatives, whole.start, seed)
            predictions.add(part, steps.forward(batch))
        _write(program, deal, iteration)
    predictions.all_reduce(program.collective)
    if file is not None and program.rank == 0:
        predictions.save(file)
    return predictions.links(data, others >= 0) if link else predictions.labels(data)


@torch.no_grad()
def catch_up(program: EventProgram) -> None:
    """Update every rank's node memory with the validation events before a test, where epochs end before them. Called on every rank."""
    program.learner.model.eval()
    deal = _batches(program, program.data.split.validation)
    for iteration in range(deal.iterations):
        _write(program, deal, iteration)


def _batches(program: EventProgram, part: range) -> BatchAssignment:
    return BatchAssignment(part, program.collective.ranks, program.hyper.batch_size)


def _write(program: EventProgram, deal: BatchAssignment, iteration: int) -> None:
    """Write the updates of node memory by an iteration of all events, which every rank computes alike."""
    if not program.material.shape.memory:
        return
    source = program.data.source(True, program.sampling)
    updated = UpdatedNodes.of(source, deal, iteration)
    fresh = program.steps.fresh(torch.from_numpy(updated.nodes))
    whole = deal.all_events(iteration)
    write_updates(whole, updated, fresh, source, program.learner.model, program.state, program.sampling.delivers)

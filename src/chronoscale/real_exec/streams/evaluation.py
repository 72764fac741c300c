"""Evaluation: the test events of a stream, predicted in order, their node memory going on from where validation ended."""

from __future__ import annotations

import numpy as np
import torch

from chronoscale.datasets.arrays import Int32
from chronoscale.datasets.streams.deal import Deal
from chronoscale.datasets.streams.prepared import FIXED
from chronoscale.real_exec.streams.outcome import Outcome
from chronoscale.real_exec.streams.program import EventProgram
from chronoscale.real_exec.streams.updates import Updated, settle

ROOTS = 1 << 14  # read at once, however many negatives an event is ranked against


@torch.no_grad()
def evaluate(program: EventProgram) -> dict[str, float]:
    """Scores of the test events on whichever ranks, in batches of the training's size; nothing is trained. Called on every rank.

    Each destination is told from one fixed negative (AP, AUC) and ranked against others (MRR).
    """
    data, steps, source = program.data, program.steps, program.data.whole
    link, memory = data.protocol.task == "link", bool(program.material.shape.memory)
    deal = Deal(data.split.test, program.collective.ranks, program.hyper.batch_size)
    others: Int32 = np.empty((len(deal.part), 0), np.int32)
    if link:
        others = np.concatenate([data.negatives("test").dst, data.negatives("ranked").dst], axis=1)
    outcome = Outcome(deal.part, program.width(others.shape[1]), program.device)
    outcome.seen[:] = True
    program.learner.model.eval()
    seed, size = data.seed(FIXED + 1), max(ROOTS // (2 + others.shape[1]), 1)
    for iteration in range(deal.iterations):
        whole, own = deal.together(iteration), deal.own(iteration, program.rank)
        for begin in range(own.start, own.stop, size):
            part = range(begin, min(begin + size, own.stop))
            told = others[part.start - deal.part.start : part.stop - deal.part.start]
            batch = steps.sample(source, part, told, whole.start, seed)
            outcome.add(part, steps.forward(batch))
        if memory:
            updated = Updated.of(source, deal, iteration)
            fresh = steps.fresh(torch.from_numpy(updated.nodes))  # the same on every rank
            settle(whole, updated, fresh, source, program.learner.model, program.state, program.sampling.delivers)
    outcome.together(program.collective)
    return outcome.links(data, others >= 0) if link else outcome.labels(data)

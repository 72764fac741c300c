"""Evaluation: the test events of a stream, predicted in order, their node memory going on from where validation ended."""

from __future__ import annotations

import numpy as np
import torch

from chronoscale.datasets.arrays import Int32
from chronoscale.datasets.streams.deal import Deal
from chronoscale.datasets.streams.draws import key_of
from chronoscale.real_exec.streams.outcome import Outcome
from chronoscale.real_exec.streams.program import FIXED, EventProgram
from chronoscale.real_exec.streams.updates import Updated, contribution, settle

ROOTS = 1 << 14  # at once, so that many negatives do not take a batch's memory many times


@torch.no_grad()
def evaluate(program: EventProgram, ranks: int) -> dict[str, float]:
    """Scores of the test events on whichever ranks, in batches of the training's size; nothing is trained. Called on every rank.

    Each destination is told from one fixed negative (AP, AUC) and ranked against `ranked` others (MRR).
    """
    data, steps, link = program.data, program.steps, program.data.protocol.task == "link"
    deal = Deal(data.split.test, ranks, program.hyper.batch_size)
    others: Int32 = np.empty((len(deal.part), 0), np.int32)
    if link:
        others = np.concatenate([data.negatives("test").dst, data.negatives("ranked").dst], axis=1)
    outcome = Outcome(deal.part, program.width(others.shape[1]), program.device)
    outcome.seen[:] = True
    program.learner.model.eval()
    seed = key_of(data.protocol.seed, FIXED + 1)
    for iteration in range(deal.iterations):
        whole, own = deal.together(iteration), deal.own(iteration, program.rank)
        batches = []
        for begin in range(own.start, own.stop, size := max(ROOTS // (2 + others.shape[1]), 1)):
            part = range(begin, min(begin + size, own.stop))
            batch = steps.whole(data.whole, part, others[part.start - deal.part.start : part.stop - deal.part.start], whole.start, seed)
            outcome.add(part, steps.logits(batch))
            batches.append(batch)
        if data.whole is not None and program.material.shape.memory:
            updated = Updated.of(data.whole, deal, iteration)
            _ = batches
    outcome.together(program.collective)
    return outcome.links(data, others >= 0) if link else outcome.labels(data)

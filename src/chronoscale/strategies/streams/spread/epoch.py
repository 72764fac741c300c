"""An epoch on events whose node memory is spread over ranks (MemShare, TGL-dist, MSPipe, DistTGL), as rows.

A unit is an iteration's batch on one rank; optimiser step i has iteration = unit = i and step 0; batches that validate follow, step 1, in
the last iteration. Node memory is updated when a batch begins, and brought to where it lies at once: what follows does not change it.

Nothing overlaps but where `Sharing.pipelined` says so. Then, of unit i, sampling and the exchange of ids are under way two iterations
before; remote rows come as soon as the iteration before has settled memory (with stale memory: `staleness` iterations before), beside its
layers; what becomes of shared nodes is exchanged beside them, too, and the next iteration reads it.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from chronoscale.batching.streams.ranks.assignment import BatchAssignment
from chronoscale.errors import UserError
from chronoscale.strategies.planning.builder import Builder, Columns
from chronoscale.strategies.schedule import Lane, Op, Schedule
from chronoscale.strategies.streams.feeding import StreamFeeding
from chronoscale.strategies.streams.kernels import kernels_of
from chronoscale.strategies.streams.models import FP32, shape_of
from chronoscale.strategies.streams.rows.phase import TIME, TRUTH, VALIDATE, state_bytes
from chronoscale.strategies.streams.spread.batches import BatchHandles, add_batches, link_batches
from chronoscale.strategies.streams.spread.phase import STEPS, WORDS, SpreadPhase
from chronoscale.strategies.streams.spread.sent_share import SentShare, sent_share
from chronoscale.strategies.streams.spread.sharing import Sharing
from chronoscale.strategies.workload import Workload


def plan_epoch(name: str, workload: Workload, ranks: int, sharing: Sharing) -> Schedule:
    """Plan one epoch on an event stream whose node memory is spread over ranks (MemShare, TGL on parts, MSPipe, DistTGL): every training
    batch once, in order, then every validation batch.

    name: the strategy's, for the schedule. sharing: how ranks sample and share node memory. Raises UserError for 0 ranks, a model without
    memory or one that was not counted, and a stream that cannot be partitioned.
    """
    if ranks < 1:
        raise UserError(f"a schedule needs at least one rank, got {ranks}")
    hyper = workload.hyper
    shape = shape_of(workload)
    data = workload.events
    if data.spreading is None:
        raise UserError(f"strategy '{name}' cuts the stream into parts, and its events are not at hand")
    sampling, spreading = sharing.sampling(hyper, shape, data), data.spreading(sharing.spread(hyper), ranks, hyper.variant)
    parts, members = spreading.parts, sharing.spread(hyper).members(ranks)
    own_nodes = data.num_nodes
    if parts is not None:
        own_nodes = int(np.bincount(parts.node[parts.node >= 0], minlength=members).max() + parts.shared.size)
    history = (2 * FP32 * shape.memory + 2 * TIME + TRUTH) * len(parts.shared) if parts is not None and sharing.synchronised != "all" else 0
    resident = 4 * (shape.parameters + sharing.smooth) * FP32
    if sharing.cached and parts is not None and ranks > 1:
        nodes, events = (min(hyper.events.sharing.remote_cache, ids) for ids in (data.num_nodes, data.events))
        resident += nodes * (state_bytes(shape) + FP32 * shape.features) + events * FP32 * shape.edge * bool(shape.layers)
    kernels = kernels_of(workload, ranks, StreamFeeding(merged=True))
    significant = members > 1 and sharing.shared and sharing.synchronised == "significant"
    iterations = BatchAssignment(range(data.training), ranks, hyper.batch_size, hyper.batches).iterations
    sent = sent_share(workload, iterations) if significant else SentShare(1.0, 1.0, 1.0)
    builder = Builder(name, ranks, resident, "spread", own_nodes * state_bytes(shape) + history, str(sharing), kernels)

    def phase(validates: bool, first: int) -> SpreadPhase:
        """Return the batches of training or of validation."""
        edges = bool(shape.edge and shape.layers)
        work = spreading.work(validates, hyper.batch_size, sampling, hyper.batches, hyper.events.every, edges)
        return SpreadPhase(workload, sampling, work, ranks, int(validates), first, sharing=sharing, sent=sent.middle)

    training = phase(False, 0)
    phases = [training, phase(True, training.iterations)] if hyper.validate else [training]
    handles = [add_batches(builder, part) for part in phases]
    link_batches(builder, BatchHandles(*(np.concatenate(parts) for parts in zip(*handles, strict=True))), phases[0])
    if hyper.validate and ranks > 1:
        unit = training.iterations + phases[1].iterations
        site: Columns = {
            "rank": np.arange(ranks),
            "order": STEPS * (unit + 1) if sharing.pipelined else unit,
            "iteration": training.iterations - 1,
            "unit": unit,
            "step": VALIDATE,
        }
        ready = np.concatenate([part.last for part in handles])
        scored: Columns = {"collective": WORDS * unit, "bytes": FP32 * data.validation * (shape.outputs or 2)}
        builder.add(Op.ALLREDUCE, Lane.COMM, site, scored, after=(ready.max(0),))
    return replace(builder.finish(), cached=0, note=str(sent))


def count_rows(workload: Workload, ranks: int, sharing: Sharing) -> int:
    """Count the rows that `plan_epoch` will plan where node memory is spread over ranks, without sampling.

    As if every rank had events in every iteration, of those that validate every one of the last group; plans too large for memory are
    refused by it. sharing: how ranks sample and share memory.
    """
    hyper = workload.hyper
    shape = shape_of(workload)
    data = workload.events
    limits, members = (hyper.batch_size, hyper.batches, hyper.events.every), sharing.spread(hyper).members(ranks)
    idle = (4 + 2 * (sharing.shared and sharing.synchronised != "never")) * (members > 1)  # of a rank without events: exchanges, writes
    each = idle + 6 + shape.layers + 3 - (members > 1)  # sampled to scored, and settled
    training = BatchAssignment(range(data.training), ranks, *limits).iterations * ranks * (each + 2 + (ranks > 1))
    if not hyper.validate:
        return training
    validating = BatchAssignment(range(data.validation), members, *limits).iterations * (members * each + (ranks - members) * idle)
    return training + validating + ranks * (ranks > 1)

"""Rows that compute a batch of events, however its features have come to the device."""

from __future__ import annotations

from typing import Any

import numpy as np

from chronoscale.strategies.planning.builder import Builder, Columns
from chronoscale.strategies.schedule import Ints, Lane, Op
from chronoscale.strategies.streams.models import FP32
from chronoscale.strategies.streams.rows.phase import TRAIN, VALIDATE, BasePhase
from chronoscale.strategies.streams.rows.work import class_work, embed_work, layer_work, score_work, update_work


def add_forward(builder: Builder, phase: BasePhase[Any], site: Columns, ready: Ints, held: Ints) -> tuple[Ints, tuple[Ints, Ints, Ints]]:
    """Add the rows that compute the forward pass of batches of events to a plan: layers, then scores of links or classes.

    phase: the batches of training or validation; site: the rows' columns rank, unit ...; ready: rows that the first layer waits for
    (handles: what `builder.add` returns, int64 [batches]); held: bytes that a batch has on the device, int64 [batches]. Returns the last
    row's handles, and three totals: flops, bytes that their gradient moves, and bytes saved for it; int64 [batches] each.
    """
    shape = phase.shape
    work = phase.work
    there = phase.work.events > 0
    kernels = builder.kernels
    flops, size = update_work(shape, work.nodes) if shape.memory else np.zeros((2, len(work)), np.int64)
    saved = size // 2 * (phase.step == TRAIN)  # what is written is kept, and read once more in the forward pass
    moved = kernels.bytes(gradient_law(Op.MEMORY_UPDATE), rows=work.nodes) if shape.memory else np.zeros(len(work), np.int64)
    total = [flops, moved, saved]
    for layer in range(shape.layers):
        levels = range(shape.layers - layer)
        parts = [
            layer_work(shape, layer, work.targets[:, at], phase.sampling.fanouts[at], work.sampled[:, at] if phase.edgewise else None)
            for at in levels
        ]
        flops, size = (np.asarray(sum(part[i] for part in parts), np.int64) for i in range(2))
        saved = size // 2 * (phase.step == TRAIN)
        targets = work.targets[:, : shape.layers - layer]
        slots = (targets * np.array(phase.sampling.fanouts[: shape.layers - layer], np.int64)).sum(1)
        sizes: Columns = {
            "nodes": work.targets[:, 1 : shape.layers - layer + 1].sum(1),
            "edges": slots,
            "rows": targets.sum(1),
            "layer": layer,
        }
        variables = {
            "upper": layer > 0,
            "later": phase.step != TRAIN,
            "filled": work.sampled[:, levels].sum(1),
            "width": shape.width(layer),
        }
        variables |= {name: sizes[name] for name in ("nodes", "edges", "rows")}
        moved = kernels.bytes(Op.AGGREGATE.name, **variables)
        costs: Columns = {"width": shape.width(layer), "flops": flops, "bytes": moved, "alloc": saved}
        builder.add(Op.AGGREGATE, Lane.COMPUTE, site, sizes, costs, where=there, after=(ready,) * (not layer and not shape.memory))
        total = [
            done + more for done, more in zip(total, (flops, kernels.bytes(gradient_law(Op.AGGREGATE), **variables), saved), strict=True)
        ]
    scored = class_work(shape, work.events) if shape.outputs else score_work(shape, work.roots - work.events, work.events)
    flops = embed_work(shape, work.roots)[0] + scored[0]
    saved = scored[1] // 2 * (phase.step == TRAIN and shape.pairwise)  # of other models it is next to nothing
    over: Columns = {"free": held}
    sizes = {"nodes": work.roots, "rows": work.roots, "width": shape.hidden, "flops": flops}
    last = builder.add(Op.FORWARD, Lane.COMPUTE, site, sizes, over if phase.step == VALIDATE else {"alloc": saved}, where=there)
    return last, (total[0] + flops, total[1] + kernels.bytes(gradient_law(Op.FORWARD), rows=work.roots), total[2] + saved)


def gradient_law(op: Op) -> str:
    """Return the name of the formula that counts the bytes which an operation's gradient pass moves, for plans on event streams."""
    return f"{op.name}_GRADIENT"


def add_backward(builder: Builder, phase: BasePhase[Any], site: Columns, total: tuple[Ints, Ints, Ints], held: Ints) -> Ints:
    """Add the rows of the backward pass of batches of events to a plan, and return their handles (int64 [batches], to wait for).

    phase: the batches of training; site: the rows' columns rank, unit ...; total: flops, bytes moved and bytes saved, as `add_forward`
    returns them; held: bytes that a batch has on the device, which are freed, int64 [batches].
    """
    work, (flops, moved, saved) = phase.work, total
    sizes: Columns = {"nodes": work.nodes, "edges": work.targets.sum(1), "rows": work.roots, "width": phase.shape.hidden}
    back: Columns = {"flops": 2 * flops, "bytes": moved, "free": held + saved}
    return builder.add(Op.BACKWARD, Lane.COMPUTE, site, sizes, back, where=work.events > 0)


def add_update(builder: Builder, phase: BasePhase[Any], site: Columns, backward: Ints, collective: Ints) -> tuple[Ints, Ints]:
    """Add the all-reduce of the gradients and the optimiser step to a plan on events, on every rank, with events or without.

    site: the rows' columns rank, unit ...; backward: handles of the backward pass (int64 [batches], what `builder.add` returns);
    collective: an id for each batch's all-reduce. Returns handles of the first of these rows, and of the last.
    """
    parameters, ready = phase.shape.parameters, backward
    if phase.ranks > 1:
        reduced: Columns = {"collective": collective, "bytes": parameters * FP32}
        ready = builder.add(Op.ALLREDUCE, Lane.COMM, site, reduced, after=(backward,))
    step_work: Columns = {"rows": parameters, "flops": 10 * parameters}
    return ready, builder.add(Op.OPTIMIZE, Lane.COMPUTE, site, step_work, after=(ready,))

"""One rank of several that train on a stream whose memory is spread over them, case after case: `main(folder)`.

Two epochs each, of batches that are as large together as one rank's of `stream_ranks.GLOBAL` events. Every rank leaves what it ends with.
"""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from rank_cases import serve_cases
from stream_case import choice, hyper, planned
from stream_ranks import GLOBAL

from chronoscale.real_exec.execution.context import open_context
from chronoscale.real_exec.execution.interpreter import execute
from chronoscale.real_exec.execution.lanes import CpuLanes, Threads, make_lanes
from chronoscale.real_exec.job import Item, Settings
from chronoscale.real_exec.streams.material import StreamMaterial
from chronoscale.real_exec.streams.spread.evaluation import evaluate
from chronoscale.real_exec.streams.spread.program import SpreadProgram
from chronoscale.strategies.schedule import Op
from chronoscale.strategies.streams.spread.phase import ROWS
from chronoscale.strategies.workload import EventHyper, SharingHyper

MODELS = (("tgn", 1), ("tgn", 2), ("jodie", 1), ("apan", 1))
POLICIES = ("shared-nodes", "metis", "distgl", "random", "restream")
NAMES = ("tgl-dist", "memshare-shared")
CACHED = {"tgl-dist-cached": "tgl-dist", "memshare-cached": "memshare"}  # what caches other ranks' rows, and what it has to equal
PIPELINED = (
    *("mspipe", "disttgl", "memshare", "memshare-cached", "memshare-stale", "memshare-recent", "memshare-local", "memshare-all"),
    "memshare-never",
    "memshare-replicas",
)
OTHERS = ("memshare-history", "memshare-decay", "memshare-negatives")


def sharing(**other):
    return EventHyper(sharing=SharingHyper(**{"shared": 0.25, "theta": 0.5, **other}))


def spread_program(folder, schedule, chosen, given, context, rate=0.05):
    """With plain gradient descent, as `stream_case.program`."""
    material = StreamMaterial.of(Item(schedule.name, "", str(folder), given), chosen, context)
    learner = material.learner(chosen, context, "smooth" in schedule.feeding.split())
    learner.optimizer = torch.optim.SGD(learner.model.parameters(), rate)
    return SpreadProgram(schedule, material, learner, given, context)


def assembled(made):
    """Tables of all nodes that the rank has, NaN where it has none."""
    here = made.memory_part.place >= 0
    for name, table in made.memory_part.state.tables().items():
        whole = np.full((here.size, *table.shape[1:]), np.nan)
        whole[here] = table.numpy()
        yield name, whole


def exchanged(made, schedule):
    """Of each unit of an epoch, int64 [units, 3], filled as it runs: bytes of rows that come and that go, of contributions that come."""
    counts, run, steps = np.zeros((int(schedule.unit.max()) + 1, 3), np.int64), made._run[Op.ALLTOALL], made.steps

    def counting_task(task):
        before = np.array([steps.fetched, 0, steps.sent_back])
        if task.layer == ROWS:
            wanted, edges = made._requests[task.unit], made.material.edge_features
            before[1] -= len(wanted.nodes) * made.memory_part.row + (0 if edges is None else len(wanted.edges) * edges[:1].nbytes)
        run(task)
        counts[task.unit] += [steps.fetched, 0, steps.sent_back] - before

    made._run = {**made._run, Op.ALLTOALL: counting_task}
    return counts


def compare_cached(made):
    """Have every row of other ranks that the program reads of its cache compared with what came for it last, of its node or its event;
    return how often each was read in training, int64 [3]: nodes' whose node has no event since, nodes' whose node has, events'."""
    steps, fetch, counts, last = made.steps, made.steps.fetch, np.zeros(3, np.int64), ({}, {})

    def comparing(batch, requests):
        fetch(batch, requests)
        if batch is None or requests.lookups is None:
            return
        parts = *batch.received[0], batch.received[1]
        tables = np.concatenate([part.double().numpy().reshape(len(part), math.prod(part.shape[1:])) for part in parts], 1), None
        if batch.edges is not None:
            tables = tables[0], batch.edges[batch.remote[1].own :].numpy()
        stream, first = batch.source.stream, int(batch.events[0])
        trains, start = first < made.data.training_events, first // GLOBAL * GLOBAL
        for kind, (remote, lookup, table) in enumerate(zip(batch.remote, requests.lookups, tables, strict=True)):
            for place, key in enumerate(remote.asked.tolist()):
                if not lookup.hit[place]:
                    last[kind][trains, key] = start, table[place].copy()
                    continue
                begin, row = last[kind][trains, key]
                np.testing.assert_array_equal(table[place], row)
                since = slice(begin, start)
                counts[2 if kind else int(((stream.src[since] == key) | (stream.dst[since] == key)).any())] += trains

    steps.fetch = comparing
    return counts


def train_and_collect(folder, case, context, lanes=None):
    name, model, layers, given = case
    given = replace(hyper(model, GLOBAL // context.ranks, events=given))
    chosen = choice(model, layers=layers)
    if context.rank:
        context.collective.barrier()  # the first one cuts the stream, as the harness does before ranks start
    schedule = planned(folder, chosen, given, name, ranks=context.ranks)
    if not context.rank:
        context.collective.barrier()
    made = spread_program(folder, schedule, chosen, given, context)
    bytes_of, reads = exchanged(made, schedule), compare_cached(made)
    passes = [execute(schedule, made, lanes or CpuLanes(False), "cpu")]
    first = {
        "exchanged": bytes_of.copy(),
        "exchanged reads": reads.copy(),
        **{f"first {k}": np.array(v) for k, v in passes[0].counts.items()},
    }
    passes.append(execute(schedule, made, lanes or CpuLanes(False), "cpu"))
    ends = {f"parameter {key}": value.detach().numpy() for key, value in made.learner.model.named_parameters()}
    scores = {**{f"score {k}": np.array(v) for k, v in passes[-1].scores.items()}}
    counts = {f"count {k}": np.array(v) for k, v in passes[-1].counts.items()}
    made.epoch = 1
    tables = dict(assembled(made))
    tested = {f"score test {k}": np.array(v) for k, v in evaluate(made).items()}
    return {"losses": np.concatenate([one.losses for one in passes]), **scores, **tested, **ends, **tables, **counts, **first}


def cases():
    """By label."""
    for model, layers in MODELS:
        for name in NAMES:
            yield f"{name},{model},{layers}", (name, model, layers, sharing())
        for policy in POLICIES[1:]:
            yield f"tgl-dist,{model},{layers},{policy}", ("tgl-dist", model, layers, sharing(policy=policy))
            yield f"memshare-shared,{model},{layers},{policy}", ("memshare-shared", model, layers, sharing(policy=policy))
    for name in (*PIPELINED, *OTHERS):
        for model in ("tgn", "apan"):
            yield f"{name},{model}", (name, model, 1, sharing())
    for model, layers in MODELS:
        yield f"tgl-dist-cached,{model},{layers}", ("tgl-dist-cached", model, layers, sharing())
    for name, model in (("tgl-dist-cached", "tgn"), ("tgl-dist-cached", "apan"), ("memshare-cached", "tgn")):
        yield f"{name},{model},1,little", (name, model, 1, sharing(remote_cache=3))
    yield "memshare-stale,tgn,2", ("memshare-stale", "tgn", 2, sharing(theta=0.1))
    yield "memshare-stale,tgn,1,little", ("memshare-stale", "tgn", 1, sharing(remote_cache=3, theta=0.1))
    yield "memshare,published", ("memshare", "tgn", 1, sharing(alpha=0.0))


def run(folder, rank, ranks, labels):
    """The cases of these labels on this rank; a file of what each gave."""
    given = dict(cases())
    with open_context(Settings(device="cpu")) as context:
        for label in labels:
            case = given[label]
            np.savez(folder / f"{label}-{ranks}-{rank}.npz", **train_and_collect(folder / "prepared", case, context))
            if case[0] in PIPELINED:
                beside = make_lanes(context.device, Threads(True, True))
                np.savez(folder / f"{label},beside-{ranks}-{rank}.npz", **train_and_collect(folder / "prepared", case, context, beside))


def main(folder: str) -> int:
    return serve_cases(Path(folder), run)

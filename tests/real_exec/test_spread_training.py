"""Training with memory spread over ranks: ranks against one rank with all of it, lanes that overlap against lanes in turn."""

import numpy as np
import pytest
from pairwise import cover, fast
from rank_cases import parameters, run_on_ranks
from spread_ranks import CACHED, MODELS, NAMES, PIPELINED, cases
from stream_case import choice, hyper, planned, prepared, unix_stream
from stream_ranks import GLOBAL
from stream_ranks import train_and_collect as train_on_one_rank

from chronoscale.batching.streams.description import stream_statistics
from chronoscale.batching.streams.prepared import PreparedStream
from chronoscale.real_exec.execution.context import Context
from chronoscale.strategies.schedule import Op
from chronoscale.strategies.streams.models import shape_for
from chronoscale.strategies.streams.rows.phase import TRAIN, VALIDATE
from chronoscale.strategies.streams.spread.phase import BACK, ROWS, SpreadPhase, contribution_bytes
from chronoscale.strategies.streams.spread.sharing import Sharing
from chronoscale.strategies.workload import Workload

CASES = dict(cases())
SPREAD = [label for label, (name, *_) in CASES.items() if name in NAMES]
OTHERS = [label for label in CASES if label not in SPREAD]
FAST = {  # every strategy, with either model in turn
    *(
        (SPREAD[i], 2)
        for i in cover([(name, (model, layers), given.sharing.policy) for name, model, layers, given in map(CASES.get, SPREAD)])
    ),
    *((label, 2) for i, label in enumerate(OTHERS) if CASES[label][0] not in CACHED and i % 2 == i // 2 % 2),
    *((label, 2) for label in ("tgl-dist-cached,tgn,1", "tgl-dist-cached,apan,1,little")),
    *((f"memshare,{model}", 2) for model in ("tgn", "apan")),
    ("tgl-dist,tgn,2", 4),
    ("memshare-stale,tgn,2", 2),
}


def uncached(label):
    """The case that fetches rows in every batch."""
    name, model, layers, _ = CASES[label]
    return f"{CACHED[name]},{model}" + f",{layers}" * (CACHED[name] in NAMES)


def runs(labels):
    """These cases on every number of ranks, those that are not fast marked so."""
    return fast([(label, count) for count in (2, 4) for label in labels], lambda _, run: run in FAST)


@pytest.fixture(scope="module")
def ranks(tmp_path_factory, request):
    """The folder of a stream, and what every rank ends with, by label of the case, number of ranks and rank: arrays by name."""
    folder = tmp_path_factory.mktemp("spread")
    prepared(folder, unix_stream(features=2))
    requested = [(call["label"], call["count"]) for call in parameters(request) if "label" in call]
    rivals = [(uncached(label), count) for label, count in requested if CASES[label][0] in CACHED]
    cases = dict.fromkeys([*requested, *rivals])
    run_on_ranks("spread_ranks", folder, {count: [label for label, on in cases if on == count] for count in (2, 4)})
    return folder, {tuple(path.stem.rsplit("-", 2)): dict(np.load(path)) for path in sorted(folder.glob("*-*-*.npz"))}


COMPARED = [(model, layers) for model, layers in MODELS if (model == "tgn") == (layers == 2)]


@pytest.fixture(scope="module")
def whole(ranks):
    """One rank that has everything."""
    return {(model, layers): train_on_one_rank(ranks[0] / "prepared", model, Context()) for model, layers in COMPARED}


@pytest.mark.parametrize(("label", "count"), runs(label for label in SPREAD if CASES[label][1:3] in COMPARED))
def test_ranks_with_parts_are_one_with_all(ranks, whole, label, count):
    """However the stream is cut, whatever is shared. Rounding may turn two neighbours of a ranking round."""
    first = whole[CASES[label][1:3]]
    for rank in range(count):
        other = ranks[1][label, str(count), str(rank)]
        for name, value in first.items():
            here = ~np.isnan(other[name]) if name in ("memory", "updated", "mail", "mailed", "sent") else np.ones(value.shape, bool)
            atol = 0.02 if name.startswith("score ") else 1e-4
            np.testing.assert_allclose(other[name][here], value[here], atol=atol, err_msg=f"{label}, {count} ranks, rank {rank}: {name}")


@pytest.mark.parametrize(("label", "count"), runs(label for label in OTHERS if CASES[label][0] in PIPELINED))
def test_lanes_that_overlap_change_no_bit(ranks, label, count):
    for rank in range(count):
        first, other = (ranks[1][f"{label}{way}", str(count), str(rank)] for way in ("", ",beside"))
        assert first.keys() == other.keys()
        assert all(np.array_equal(first[key], other[key], equal_nan=True) for key in first)


@pytest.mark.parametrize(("label", "count"), runs(label for label in CASES if CASES[label][0] in CACHED))
def test_rows_that_are_fetched_once_change_no_bit(ranks, label, count):
    """But fewer are fetched, also where there is room for three rows alone; APAN's mail changes nearly all of nine nodes in every batch."""
    for rank in range(count):
        cached, fetched = (ranks[1][key, str(count), str(rank)] for key in (label, uncached(label)))
        counts = {key for key in cached if "exchanged" in key or key.endswith("fetched_bytes")}
        assert cached.keys() == fetched.keys() and counts
        assert all(np.array_equal(cached[key], fetched[key], equal_nan=True) for key in cached.keys() - counts)
        assert 0 < cached["first fetched_bytes"] <= fetched["first fetched_bytes"] - (CASES[label][1] != "apan")


@pytest.mark.parametrize(("label", "count"), runs(label for label in CASES if "-cached" in label or "-stale" in label))
def test_rows_that_are_read_of_the_cache_are_those_that_came_last(ranks, label, count):
    """Which the ranks have compared; only `memshare-stale` reads rows of nodes that have had an event since.

    JODIE, which samples no neighbours, reads an event's features once.
    """
    fresh, stale, events = sum(ranks[1][label, str(count), str(rank)]["exchanged reads"] for rank in range(count))
    if CASES[label][1] != "apan":
        assert (fresh or "little" in label) and (events > 0) == (CASES[label][1] != "jodie") and (stale > 0) == ("-stale" in label)


@pytest.mark.parametrize(("label", "count"), runs(CASES))
def test_every_node_is_where_it_belongs(ranks, label, count):
    """Ranks together have all nodes, and each node once, or everywhere; groups of them once a group."""
    rows = sum(~np.isnan(ranks[1][label, str(count), str(rank)]["updated"]) for rank in range(count))
    once = {"disttgl": count, "memshare-replicas": 2}.get(CASES[label][0], 1)
    assert once in (found := set(rows.tolist())) and found <= {once, count}


def phases(folder, schedule, case, count):
    """Batches that are trained on, and those that validate, with what was counted of them."""
    _, model, layers, arguments = case
    arguments, data, sharing = (
        hyper(model, GLOBAL // count, events=arguments),
        stream_statistics(PreparedStream.load(folder)),
        Sharing.of(schedule),
    )
    shape = shape_for(choice(model, layers=layers), data, arguments)
    sampling = sharing.sampling(arguments, shape, data)
    for step in (TRAIN, VALIDATE):
        work = data.spreading(sharing.spread(arguments), count, arguments.variant).work(
            step == VALIDATE, arguments.batch_size, sampling, 0, 1, True
        )
        yield SpreadPhase(Workload("small", data, shape, arguments), sampling, work, count, step, 0, sharing=sharing)


@pytest.mark.parametrize(("label", "count"), runs(CASES))
def test_bytes_are_those_counted(ranks, label, count):
    """Of every batch of the first epoch, trained on or validating: rows that a rank gets and gives, contributions that it gets, and what
    all ranks say of shared nodes; the schedule has the larger of what comes and what goes."""
    case = name, model, layers, arguments = CASES[label]
    folder = ranks[0] / "prepared"
    schedule = planned(folder, choice(model, layers=layers), hyper(model, GLOBAL // count, events=arguments), name, ranks=count)
    results = [ranks[1][label, str(count), str(rank)] for rank in range(count)]
    sharing, begin, total, changes = Sharing.of(schedule), 0, np.zeros(2, np.int64), 0
    for phase in phases(folder, schedule, case, count):
        work, each = phase.work, contribution_bytes(phase.shape)
        arrived, go, back, sent = (
            (item * phase.exchanges).reshape(-1, count)
            for item in (
                phase.row() * work.asked_nodes + phase.edge() * work.asked_edges,
                phase.row() * work.served_nodes + phase.edge() * work.served_edges,
                each * work.come,
                each * work.sent,
            )
        )
        for rank in range(count):
            measured = results[rank]["exchanged"][begin : begin + phase.iterations]
            assert measured.tolist() == np.stack([arrived, go, back], axis=2)[:, rank].tolist(), f"rank {rank}"
            rows = (schedule.op == Op.ALLTOALL) & (schedule.rank == rank) & (schedule.step == phase.step)
            for layer, moved in ((ROWS, np.maximum(arrived, go)), (BACK, np.maximum(back, sent))):
                planned_bytes = schedule.bytes[rows & (schedule.layer == layer)]
                assert planned_bytes.tolist() == (moved[:, rank].tolist() if phase.exchanges else [])
        begin, total, changes = begin + phase.iterations, total + np.array([arrived.sum(), back.sum()]), changes + int(work.shared.sum())
    assert not results[0]["exchanged"][begin:].any()
    assert [results[0]["first fetched_bytes"], results[0]["first returned_bytes"]] == total.tolist()
    reported, spoken = (int(results[0][f"first shared_{what}"]) for what in ("changes", "spoken"))
    if not phase.exchanges or not sharing.shared or sharing.synchronised == "never":
        assert reported == spoken == 0
    elif sharing.synchronised == "all":
        assert reported == spoken == changes > 0
    else:  # APAN's mail alone changes no memory
        assert 0 <= spoken <= reported <= changes and (reported == changes or model == "apan")


def test_the_stream_is_as_large_as_it_is(ranks):
    assert stream_statistics(PreparedStream.load(ranks[0] / "prepared")).num_nodes == 9

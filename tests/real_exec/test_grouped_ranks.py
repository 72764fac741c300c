"""Groups of ranks that take turns in time (`memshare-replicas`), on virtual ranks, against strategies that they are made of."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from spread_ranks import assembled, sharing, spread_program, train_and_collect
from stream_case import choice, hyper, planned, prepared, stream

from chronoscale.real_exec.execution.context import Context, open_context
from chronoscale.real_exec.execution.interpreter import execute
from chronoscale.real_exec.execution.lanes import CpuLanes
from chronoscale.real_exec.execution.task import tasks_of
from chronoscale.real_exec.job import Settings
from chronoscale.real_exec.ranks.virtual import VirtualRank, run_virtual
from chronoscale.real_exec.streams.spread.memory_updates import PendingUpdate
from chronoscale.strategies.schedule import Op
from chronoscale.strategies.streams.spread.phase import SYNCHRONISED_ROWS
from chronoscale.strategies.workload import EventHyper

Arrays = dict[str, np.ndarray]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of 80 events 56 train: four iterations of two ranks with seven each."""
    made: Path = prepared(tmp_path_factory.mktemp("grouped"), stream(events=80, features=2))
    return made


def trained(folder: Path, name: str, ranks: int, model: str, given: EventHyper) -> list[Arrays]:
    """What every rank ends with after two epochs (`spread_ranks`)."""

    def work(virtual: VirtualRank) -> Arrays:
        with open_context(Settings(device="cpu"), virtual) as context:
            ends: Arrays = train_and_collect(folder, (name, model, 1, given), context)
            return ends

    return run_virtual(work, ranks, name)


@pytest.mark.parametrize("model", ["tgn", "apan"])
def test_one_group_is_memshare(folder: Path, model: str) -> None:
    """To the bit: losses, scores, weights, memory, and what was exchanged."""
    grouped, plain = (trained(folder, name, 2, model, sharing(replicas=1)) for name in ("memshare-replicas", "memshare"))
    for one, other in zip(grouped, plain, strict=True):
        assert one.keys() == other.keys()
        assert all(np.array_equal(one[key], other[key], equal_nan=True) for key in one)
        assert one["first fetched_bytes"] > 0


@pytest.mark.parametrize("model", ["tgn", "apan"])
def test_groups_of_one_rank_are_disttgl(folder: Path, model: str) -> None:
    """Where negatives are drawn from all destinations, as DistTGL's are (theta: 1), which has no weight of smoothing: to the bit, but for
    TGN's weights, as boundary decay multiplies attention by ones, and losses, which follow from these."""
    grouped, plain = (trained(folder, name, 2, model, sharing(replicas=2, theta=1.0)) for name in ("memshare-replicas", "disttgl"))
    for one, other in zip(grouped, plain, strict=True):
        assert {key for key in one.keys() - other.keys() if "smoothing" not in key} == set() and other.keys() <= one.keys()
        for key in other:
            apart = 1e-8 if key.startswith("parameter") else 2e-7 if key == "losses" else 0
            atol = apart if model == "tgn" else 0
            np.testing.assert_allclose(one[key], other[key], rtol=0, atol=atol, err_msg=key)
        assert not one["exchanged"].any()


@pytest.mark.parametrize("model", ["tgn", "apan"])
def test_groups_of_two_are_trainers_on_one_batch_of_disttgl(folder: Path, model: str) -> None:
    """DistTGL's several trainers on one batch (its i of i x j x k) are groups without shared nodes whose boundary decay leaves nothing out:
    losses, weights and memory are those of half as many ranks with batches twice as large."""
    settings = sharing(replicas=2, theta=1.0, shared=0.0, weight_cap=0.0, at_least_one=False)

    def work(virtual: VirtualRank, name: str, batch: int) -> Arrays:
        given = hyper(model, batch, validate=False, events=settings)
        schedule = planned(folder, choice(model), given, name, virtual.meeting.ranks)
        with open_context(Settings(device="cpu"), virtual) as context:
            made = spread_program(folder, schedule, choice(model), given, context)
            passes = [execute(schedule, made, CpuLanes(False), "cpu") for _ in range(2)]
            weights = {key: value.detach().numpy() for key, value in made.learner.model.named_parameters()}
            return {"losses": np.concatenate([one.losses for one in passes]), **weights, **dict(assembled(made))}

    two = run_virtual(partial(work, name="disttgl", batch=8), 2, "disttgl")
    four = run_virtual(partial(work, name="memshare-replicas", batch=4), 4, "groups")
    for rank, whole in enumerate(two):
        parts = four[2 * rank : 2 * rank + 2]
        for key in whole:
            together = np.where(np.isnan(parts[0][key]), parts[1][key], parts[0][key])  # of memory, each has its part
            np.testing.assert_allclose(together, whole[key], rtol=0, atol=1e-5, err_msg=key)


def remembered(folder: Path, name: str, ranks: int, epochs: int) -> list[Arrays]:
    """Memory of every rank after some epochs whose weights stay as they begin."""
    given = hyper("tgn", 7, validate=False, events=sharing(alpha=0.01))
    schedule = planned(folder, choice("tgn"), given, name, ranks)

    def work(virtual: VirtualRank) -> Arrays:
        with open_context(Settings(device="cpu"), virtual) as context:
            made = spread_program(folder, schedule, choice("tgn"), given, context, rate=0.0)
            for _ in range(epochs):
                execute(schedule, made, CpuLanes(False), "cpu")
            return dict(assembled(made))

    return run_virtual(work, ranks, name)


def test_memory_of_a_group_goes_on_through_the_spans(folder: Path) -> None:
    """Of two groups, one has both halves of the stream after two epochs, the other after three: then its memory is, to the bit, what
    memshare's two ranks have after one; till then it is not."""
    whole, two, three = remembered(folder, "memshare", 2, 1), *(remembered(folder, "memshare-replicas", 4, n) for n in (2, 3))
    for part in (0, 1):
        of_both, later = two[part], three[2 + part]
        assert all(np.array_equal(table, whole[part][name], equal_nan=True) for name, table in of_both.items())
        assert all(np.array_equal(table, whole[part][name], equal_nan=True) for name, table in later.items())
        assert not np.array_equal(two[2 + part]["memory"], whole[part]["memory"], equal_nan=True)


def test_a_group_tells_itself_alone(folder: Path) -> None:
    """Of every iteration, where all changes of shared nodes are sent: as many rows as are planned, and each group's own."""
    given = hyper("tgn", 7, events=sharing(sent=1.0))
    schedule = planned(folder, choice("tgn"), given, "memshare-replicas", 4)

    def work(virtual: VirtualRank) -> list[tuple[int, int]]:
        with open_context(Settings(device="cpu"), virtual) as context:
            made, counts = spread_program(folder, schedule, choice("tgn"), given, context), []
            made.history.has_changed = lambda nodes, *_: torch.ones(len(nodes), dtype=torch.bool)  # type: ignore[method-assign]
            gather = made.memory_updates.gather_shared

            def counting(update: PendingUpdate) -> None:
                assert update.shared_rows is not None
                own = len(update.shared_rows)
                gather(update)
                counts.append((own, len(update.shared_rows) - own))

            made.memory_updates.gather_shared = counting  # type: ignore[method-assign]
            execute(schedule, made, CpuLanes(False), "cpu")
            return counts

    counts = run_virtual(work, 4, "synchronising")
    for rank in range(4):
        assert [own for own, _ in counts[rank]] == [others for _, others in counts[rank ^ 1]]
        rows = (schedule.op == Op.ALLTOALL) & (schedule.layer == SYNCHRONISED_ROWS) & (schedule.rank == rank)
        assert [max(both) for both in counts[rank]] == schedule.rows[rows][np.argsort(schedule.unit[rows])].tolist()
    assert any(own for own, _ in counts[0])


@pytest.mark.parametrize("rank", range(4))
def test_groups_take_turns(folder: Path, rank: int) -> None:
    """In epoch e group g has span g + e of time, with the memory of the spans before; with the first span it begins anew."""
    given, count = hyper("tgn", events=sharing()), 4
    schedule = planned(folder, choice("tgn"), given, "memshare-replicas", count)
    built = spread_program(folder, schedule, choice("tgn"), given, Context(rank=rank))
    events, half = np.arange(built.data.training_events), built.data.training_events // 2
    for built.epoch in range(4):
        built.memory_part.state.memory.fill_(3)
        built.history.memory.fill_(3)
        built.begin()
        turn = (rank // 2 + built.epoch) % 2
        assert built.turn == 2 * turn + rank % 2 and built.tasks == tasks_of(schedule, built.turn)
        assert bool(built.memory_part.state.memory.any()) == bool(built.history.memory.any()) == (turn == 1)
        trains, validates = built.allotments
        own = np.concatenate([trains.rank_events(i, built.turn) for i in range(trains.iterations)])
        of_part = events[built.spreading.parts.event[: len(events)] == rank % 2]
        assert own.tolist() == of_part[(of_part >= half) == turn].tolist()
        checked = sum(len(validates.rank_events(i, built.turn)) for i in range(validates.iterations))
        split = built.data.split.validation
        assert checked == (np.count_nonzero(built.spreading.parts.event[split.start : split.stop] == rank % 2) if turn else 0)


def test_two_groups_of_two_train(folder: Path) -> None:
    """All ranks have one model, which memshare's two ranks do not; negatives, and what is fetched, are of the group's own parts."""
    four = trained(folder, "memshare-replicas", 4, "tgn", sharing())
    for rank in four[1:]:
        for key in four[0]:
            if key.startswith(("parameter", "score", "count", "first")) or key == "losses":
                np.testing.assert_array_equal(rank[key], four[0][key], err_msg=key)
    assert np.isfinite(four[0]["losses"]).all() and 0 < four[0]["score test ap"] <= 1
    assert four[0]["first fetched_bytes"] > 0 and four[0]["first shared_changes"] > 0
    for first in (0, 2):  # a group has all nodes
        assert (~np.isnan(four[first]["updated"]) | ~np.isnan(four[first + 1]["updated"])).all()
    assert four[0]["losses"].shape == trained(folder, "memshare", 4, "tgn", replace(sharing()))[0]["losses"].shape

"""64 virtual ranks: what they learn is what dense matrices, windows by hand and one rank with 64 times the batch say."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import stream_case
import torch
from dense_trainer import RATE, DenseTrainer, iterations_of
from window_oracle import WindowOracle

from chronoscale.batching.snapshots.chunks import Chunks, ExactChunking
from chronoscale.batching.snapshots.retention import Decay
from chronoscale.datasets.arrays import Float64
from chronoscale.datasets.generate.growth import GrowthGraph
from chronoscale.datasets.snapshots.sequence import SnapshotSequence
from chronoscale.datasets.snapshots.statistics import statistics_of
from chronoscale.real_exec.binding import bind_program
from chronoscale.real_exec.execution.context import Context, open_context
from chronoscale.real_exec.execution.interpreter import execute
from chronoscale.real_exec.execution.program import Program
from chronoscale.real_exec.job import Item, Settings
from chronoscale.real_exec.ranks.virtual import VirtualRank, run_virtual
from chronoscale.real_exec.snapshots.material import SnapshotMaterial
from chronoscale.real_exec.snapshots.model import SnapshotModel
from chronoscale.real_exec.snapshots.program import SnapshotProgram
from chronoscale.real_exec.snapshots.windows.program import WindowProgram
from chronoscale.real_exec.training.learner import Learner
from chronoscale.simulator import presets
from chronoscale.strategies.costs import DatasheetCosts
from chronoscale.strategies.registry import strategy
from chronoscale.strategies.schedule import Schedule
from chronoscale.strategies.snapshots.models import model_shape
from chronoscale.strategies.workload import Hyper, ModelChoice, Recency, Workload

RANKS, INPUTS, SEED, EPOCHS = 64, 6, 5, 2
COSTS = DatasheetCosts(presets.cluster("h200").device)


def epochs(schedule: Schedule, make: Callable[[Context], Program]) -> Float64:
    """Losses of all epochs, one after another, on as many virtual ranks as the schedule is for; they agree to the bit."""

    def work(virtual: VirtualRank) -> list[float]:
        with open_context(Settings(device="cpu", threads=torch.get_num_threads()), virtual) as context:
            program = make(context)
            passes = [execute(schedule, program, context.lanes(schedule), "cpu") for _ in range(EPOCHS)]
            assert not any(len(each.trace) for each in passes)
            return [loss for each in passes for loss in each.losses.tolist()]

    first, *others = run_virtual(work, schedule.ranks, "many")
    assert all(losses == first for losses in others)
    return np.array(first)


def learner(model: SnapshotModel, context: Context) -> Learner[SnapshotModel]:
    """With plain gradient descent: Adam would hide a gradient that counts twice."""
    own = Learner(model, context)
    own.optimizer = torch.optim.SGD(model.parameters(), RATE)
    return own


def sequence(nodes: int, snapshots: int) -> SnapshotSequence:
    return GrowthGraph.rmat(nodes, 3 * nodes, snapshots, 0.1, 1).sequence().without_self_edges()


@pytest.mark.parametrize(("name", "layers"), [("psg", 1), pytest.param("real-g+", 1, marks=pytest.mark.slow)])
def test_groups_on_many_ranks_are_dense_matrices(name: str, layers: int) -> None:
    graphs, shape, hyper = sequence(32, 150), model_shape("t-gcn", INPUTS, 8, layers), Hyper(group_size=3)
    schedule = strategy(name).plan(Workload("w", statistics_of(graphs), shape, hyper), RANKS, COSTS)
    material = SnapshotMaterial(graphs, INPUTS)
    losses = epochs(
        schedule, lambda context: SnapshotProgram(schedule, material, learner(SnapshotModel(shape, SEED), context), hyper, context)
    )
    oracle = DenseTrainer(graphs, material.features(0), SnapshotModel(shape, SEED), hyper)
    steps = iterations_of(schedule)
    assert max(map(len, steps)) >= RANKS // 2
    np.testing.assert_allclose(losses, oracle.losses([*steps, *steps]), rtol=1e-4)


@pytest.mark.slow
def test_windows_on_many_ranks_are_windows_by_hand() -> None:
    graphs, shape = sequence(160, 10), model_shape("t-gcn", INPUTS, 8, 2)
    hyper = Hyper(recency=Recency(Decay(2, 2, 0.5), 2 * RANKS), seed=3)
    chunks = Chunks(np.random.default_rng(0).permutation(np.arange(160) % (2 * RANKS)).astype(np.int32), 2 * RANKS)
    work = Workload("w", statistics_of(graphs), shape, hyper, chunking=ExactChunking(graphs, chunks))
    schedule, material = strategy("flaredtdg").plan(work, RANKS, COSTS), SnapshotMaterial(graphs, INPUTS)
    losses = epochs(
        schedule, lambda context: WindowProgram(schedule, material, chunks, learner(SnapshotModel(shape, SEED), context), hyper, context)
    )
    oracle = WindowOracle(graphs, material.features(0), chunks, SnapshotModel(shape, SEED), hyper, 1, False, True)
    np.testing.assert_allclose(losses, np.concatenate([oracle.epoch(number) for number in range(EPOCHS)]), rtol=1e-4)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return stream_case.prepared(tmp_path_factory.mktemp("stream"), stream_case.stream(nodes=200, events=700))


def trained(folder: Path, name: str, ranks: int, batch: int) -> Float64:
    """Losses of a strategy on events, on virtual ranks."""
    choice, hyper = stream_case.choice("tgn"), stream_case.hyper("tgn", batch)
    schedule = stream_case.planned(folder, choice, hyper, name, ranks)
    return epochs(schedule, lambda context: bound(folder, schedule, choice, hyper, context))


def bound(folder: Path, schedule: Schedule, choice: ModelChoice, hyper: Hyper, context: Context) -> Program:
    return bind_program(Item(schedule.name, "", str(folder), hyper), schedule, choice, context)


@pytest.mark.parametrize("name", ["tgl", *(pytest.param(name, marks=pytest.mark.slow) for name in ("tgl-dist", "memshare-shared"))])
def test_events_on_many_ranks_are_one_rank_with_their_batches(prepared: Path, name: str) -> None:
    """The same negatives and neighbours, whichever rank has an event, and wherever its nodes' memory lies."""
    losses = trained(prepared, name, RANKS, 2)
    np.testing.assert_allclose(losses, trained(prepared, "tgl", 1, 2 * RANKS), rtol=1e-4)


@pytest.mark.slow
def test_memory_in_many_parts_trains_the_same_again(prepared: Path) -> None:
    """What MemShare leaves out depends on its parts, so that no other strategy has its losses; which rank runs when does not matter."""
    losses = trained(prepared, "memshare", RANKS, 2)
    assert np.isfinite(losses).all() and losses.tolist() == trained(prepared, "memshare", RANKS, 2).tolist()

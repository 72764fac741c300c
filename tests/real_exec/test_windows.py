"""Sliding windows executed on 1, 2 and 4 ranks reach the losses and weights of an independent trainer, whatever overlaps and shrinks."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from dense_trainer import apart, weights
from window_cases import ASKED, CASES, CLASSES, DECAY, EPOCHS, INPUTS, SEED, Case, plan, run
from window_oracle import WindowOracle

from chronoscale.datasets import store
from chronoscale.datasets.generate.growth import GrowthGraph
from chronoscale.datasets.snapshots.chunks import Chunks, chunked
from chronoscale.datasets.snapshots.retention import Decay
from chronoscale.datasets.snapshots.survival import Epoch
from chronoscale.real_exec.snapshots.material import Material
from chronoscale.real_exec.snapshots.model import SnapshotModel

HERE = Path(__file__).parents[1]
RUNS = [(case, ranks) for case in CASES for ranks in case.ranks]
LENGTH = 16


def wanted(items):
    """Runs that this session's tests of this file ask for by name: all, where one of them compares several."""
    calls = [getattr(item, "callspec", None) for item in items if item.path == Path(__file__)]
    asked = [call and (call.params.get("case"), call.params.get("ranks")) for call in calls]
    return asked if all(one in RUNS for one in asked) else RUNS


@pytest.fixture(scope="module")
def folder(tmp_path_factory, request):
    """A sequence, its chunks, and what the cases that this session asks for gave on each of their ranks."""
    runs = wanted(request.session.items)
    folder = tmp_path_factory.mktemp("windows")
    sequence = GrowthGraph.rmat(60, 200, LENGTH, 0.1, 1).sequence().without_self_edges()
    classes = np.random.default_rng(0).permutation(np.arange(60) % (CLASSES + 1)) - 1
    sequence = replace(sequence, classes=classes.astype(np.int32))
    store.save(folder / "growth", sequence)
    for count in {case.chunks for case in CASES}:
        np.save(folder / f"chunks-{count}.npy", chunked(sequence, count).assignment)
    for case, ranks in runs:
        plan(case, folder, ranks)
    labels = {ranks: [case.label for case, on in runs if on == ranks] for ranks in (4, 2, 1)}
    (folder / ASKED).write_text(json.dumps([(ranks, names) for ranks, names in labels.items() if names and ranks > 1]))
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    command = [sys.executable, str(HERE / "window_cases.py"), str(folder)]
    most = max((ranks for ranks, names in labels.items() if names and ranks > 1), default=0)
    alive = [subprocess.Popen([*command, str(rank)], env=environment, stderr=subprocess.PIPE, text=True) for rank in range(most)]
    run(folder, 0, 1, labels[1])
    errors = [process.communicate()[1] for process in alive]
    assert not any(process.returncode for process in alive), errors[0][-3000:]
    return folder


@cache
def found(folder, label, ranks, rank=0):
    """Losses of all epochs one after another, and weights after them."""
    losses = json.loads((folder / f"found-{ranks}-{rank}.json").read_text())[label]["losses"]
    assert len(losses) == EPOCHS
    return np.concatenate(losses), np.load(folder / f"weights-{ranks}-{rank}.npz")[label]


@cache
def oracle(folder, shape, hyper, chunks, ranks):
    """Losses and weights of an independent trainer; strategies that keep the same share them. ranks: of the published loss."""
    sequence = store.load(folder / "growth")
    features, cut = Material(sequence, INPUTS).features(0), Chunks(np.load(folder / f"chunks-{chunks}.npy"), chunks)
    published = hyper.variant == "as-published"
    trainer = WindowOracle(sequence, features, cut, SnapshotModel(shape, SEED), hyper, ranks, published)
    losses = np.concatenate([trainer.epoch(number) for number in range(EPOCHS)])
    return losses, weights(trainer.model)


@pytest.mark.parametrize(("case", "ranks"), RUNS, ids=lambda value: getattr(value, "label", value))
def test_losses_and_weights_are_the_oracles(folder, case, ranks):
    published = case.variant == "as-published"
    expected, trained = oracle(folder, case.shape, case.trains, case.chunks, ranks if published else 1)
    window = case.trains.recency.decay.window
    assert len(expected) == EPOCHS * (LENGTH - case.horizon - 2 * (window - 1))
    for rank in range(ranks):
        losses, own = found(folder, case.label, ranks, rank)
        np.testing.assert_allclose(losses, expected, rtol=1e-4)
        assert apart(own, trained, SnapshotModel(case.shape, SEED)) < 3e-3


def of(strategy, model="t-gcn", layers=2, **asked):
    """The label of a case."""
    (case,) = (one for one in CASES if one == replace(Case(strategy, model, layers, **asked), ranks=one.ranks))
    return case.label


def test_epochs_differ_in_split_and_in_what_is_kept():
    """So that the second is none that was planned."""
    first, second = (Epoch(3, number) for number in range(EPOCHS))
    assert first.steps(LENGTH - 1, DECAY.window) != second.steps(LENGTH - 1, DECAY.window)
    assert (first.depth(16, DECAY, 1) != second.depth(16, DECAY, 1)).any()


@pytest.mark.parametrize("case", [case for case in CASES if case.variant == "exact"], ids=lambda case: case.label)
def test_ranks_agree(folder, case):
    alone, _ = found(folder, case.label, 1)
    for ranks in case.ranks[1:]:
        for rank in range(ranks):
            np.testing.assert_allclose(found(folder, case.label, ranks, rank)[0], alone, rtol=1e-5)


@pytest.mark.parametrize("model", ["t-gcn", "mpnn-lstm", "evolvegcn-h"])
@pytest.mark.parametrize("ranks", [1, 2])
def test_what_overlaps_changes_nothing(folder, model, ranks):
    """Nor does building blocks anew; orders of rows change the order in which gradients are added up, and so the last digit."""
    losses, trained = found(folder, of("flaredtdg", model), ranks)
    for other in ("flaredtdg-turns", "flaredtdg-no-overlap", "flaredtdg-remap"):
        np.testing.assert_allclose(found(folder, of(other, model), ranks)[0], losses, rtol=2e-6)
        np.testing.assert_allclose(found(folder, of(other, model), ranks)[1], trained, atol=1e-5)


@pytest.mark.parametrize("model", ["t-gcn", "mpnn-lstm", "evolvegcn-h"])
@pytest.mark.parametrize("ranks", [1, 2])
def test_without_decay_it_is_full_history(folder, model, ranks):
    whole = found(folder, of("full-history", model), ranks)[0]
    np.testing.assert_allclose(found(folder, of("flaredtdg", model, decay=Decay(2, 3, 1.0)), ranks)[0], whole, rtol=1e-5)


def test_the_published_loss_is_too_small_by_the_number_of_ranks(folder):
    """A mean over ranks of shares that already add up to one; shown where all is kept and all is predicted in either variant."""
    whole = Decay(2, 3, 1.0)
    exact = found(folder, of("flaredtdg", "evolvegcn-h", decay=whole), 1)[0][0]
    for ranks in (1, 2, 4):
        published = found(folder, of("flaredtdg", "evolvegcn-h", decay=whole, variant="as-published"), ranks)[0][0]
        assert published * ranks == pytest.approx(exact, rel=1e-5)


def test_bytes_cross_only_between_ranks_and_above_the_first_layer(folder):
    """Input features of remote rows come with the snapshot; candidates of the summary are gathered in every layer."""
    for case, ranks in RUNS:
        planned = sum(json.loads((folder / f"found-{ranks}-{rank}.json").read_text())[case.label]["planned"] for rank in range(ranks))
        assert (planned == 0) == (ranks == 1 or (case.layers == 1 and case.model != "evolvegcn-h")), (case.label, ranks)

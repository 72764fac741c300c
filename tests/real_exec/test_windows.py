"""Sliding windows executed on 1, 2 and 4 ranks reach the losses and weights of an independent trainer, whatever overlaps and shrinks."""

import json
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from dense_trainer import apart, weights
from pairwise import cover, fast
from rank_cases import parameters, run_on_ranks
from window_cases import CASES, CLASSES, DECAY, EPOCHS, INPUTS, SEED, STRATEGIES, Case, plan, run
from window_oracle import WindowOracle

from chronoscale.batching.snapshots.chunks import Chunks
from chronoscale.batching.snapshots.links import LinkPairs
from chronoscale.batching.snapshots.retention import Decay
from chronoscale.batching.snapshots.survival import EpochDraws
from chronoscale.datasets import store
from chronoscale.datasets.generate.growth import GrowthGraph
from chronoscale.real_exec.snapshots.material import SnapshotMaterial
from chronoscale.real_exec.snapshots.model import SnapshotModel

LENGTH = 13
WHOLE = Decay(2, 3, 1.0)


def of(strategy, model="t-gcn", layers=2, **hyper):
    """The case of these settings."""
    (case,) = (each for each in CASES if each == replace(Case(strategy, model, layers, **hyper), ranks=each.ranks))
    return case


def label(value):
    """Return a case's name, None for what pytest names by itself."""
    return getattr(value, "label", None)


def witnesses(case, ranks):
    """Whether a case is the one that notices some fault, or is compared with others in the fast tier."""
    plain = case.strategy == "flaredtdg" and case.task == "degrees" and case.decay == DECAY and case.variant == "exact"
    return plain and (case.model, case.layers, ranks) in {("evolvegcn-o", 2, 1), ("t-gcn", 1, 1), ("t-gcn", 2, 1), ("t-gcn", 2, 4)}


EVERY = [(case, ranks) for case in CASES for ranks in case.ranks]
MODELLED = [(case.strategy, case.model, case.layers, case.task, ranks) for case, ranks in EVERY]
RETAINED = [(case.strategy, case.decay, case.variant, case.horizon) for case, _ in EVERY]
COVER = set(cover(RETAINED, cover(MODELLED, [i for i, run in enumerate(EVERY) if witnesses(*run)])))
RUNS = fast(EVERY, lambda number, _: number in COVER)


def runs_asked(request):
    """Runs that this session's tests of this file compare."""
    for call in parameters(request):
        cases = call.get("cases", [call["case"]] if "case" in call else [])
        yield from ((case, ranks) for case in cases for ranks in (call["ranks"] if isinstance(call["ranks"], tuple) else (call["ranks"],)))


@pytest.fixture(scope="module")
def folder(tmp_path_factory, request):
    """A sequence, its chunks, and what the cases that this session asks for gave on each of their ranks."""
    folder = tmp_path_factory.mktemp("windows")
    sequence = GrowthGraph.rmat(60, 200, LENGTH, 0.1, 1).sequence().without_self_edges()
    classes = np.random.default_rng(0).permutation(np.arange(60) % (CLASSES + 1)) - 1
    sequence = replace(sequence, classes=classes.astype(np.int32))
    store.save(folder / "growth", sequence)
    for count in {case.chunks for case in CASES}:
        np.save(folder / f"chunks-{count}.npy", np.random.default_rng(count).permutation(np.arange(60) % count).astype(np.int32))
    labels = {ranks: [] for ranks in (1, 2, 4)}
    for case, ranks in dict.fromkeys(runs_asked(request)):
        plan(case, folder, ranks)
        labels[ranks].append(case.label)
    run(folder, 0, 1, labels.pop(1))
    run_on_ranks("window_cases", folder, labels)
    return folder


@cache
def load_results(folder, label, ranks, rank=0):
    """Losses of all epochs one after another, and weights after them."""
    losses = json.loads((folder / f"found-{ranks}-{rank}.json").read_text())[label]["losses"]
    assert len(losses) == EPOCHS
    return np.concatenate(losses), np.load(folder / f"weights-{ranks}-{rank}.npz")[label]


@cache
def oracle(folder, shape, hyper, chunks, ranks, inherits=True):
    """Losses and weights of an independent trainer; strategies that keep the same share them. ranks: of the published loss."""
    sequence = store.load(folder / "growth")
    features, cut = SnapshotMaterial(sequence, INPUTS).features(0), Chunks(np.load(folder / f"chunks-{chunks}.npy"), chunks)
    published = hyper.variant == "as-published"
    pairs = LinkPairs(sequence, hyper.held, hyper.links, hyper.seed).training if hyper.task == "links" else None
    trainer = WindowOracle(sequence, features, cut, SnapshotModel(shape, SEED), hyper, ranks, published, inherits, pairs)
    losses = np.concatenate([trainer.epoch(number) for number in range(EPOCHS)])
    return losses, weights(trainer.model)


@pytest.mark.sample(18)
@pytest.mark.parametrize(("case", "ranks"), RUNS, ids=label)
def test_losses_and_weights_are_the_oracles(folder, case, ranks):
    published = case.variant == "as-published"
    inherits = STRATEGIES[case.strategy].inherits
    expected, trained = oracle(folder, case.shape, case.trains, case.chunks, ranks if published else 1, inherits)
    window = case.trains.recency.decay.window
    assert len(expected) == EPOCHS * (LENGTH - case.horizon - (1 + case.apart) * (window - 1))
    for rank in range(ranks):
        losses, own = load_results(folder, case.label, ranks, rank)
        np.testing.assert_allclose(losses, expected, rtol=1e-4)
        assert apart(own, trained, SnapshotModel(case.shape, SEED)) < 3e-3


def test_epochs_differ_in_split_and_in_retained_chunks():
    """So that the second is none that was planned."""
    first, second = (EpochDraws(3, number) for number in range(EPOCHS))
    assert first.steps(LENGTH - 1, DECAY.window) != second.steps(LENGTH - 1, DECAY.window)
    assert (first.depth(16, DECAY, 1) != second.depth(16, DECAY, 1)).any()


COMPARED = [(case, case.ranks) for case in CASES if case.variant == "exact"]


@pytest.mark.parametrize(("case", "ranks"), fast(COMPARED, lambda _, run: run[0] == of("flaredtdg")), ids=label)
def test_ranks_agree(folder, case, ranks):
    single, _ = load_results(folder, case.label, 1)
    for count in ranks[1:]:
        for rank in range(count):
            np.testing.assert_allclose(load_results(folder, case.label, count, rank)[0], single, rtol=1e-5)


OVERLAPS = ("flaredtdg", "flaredtdg-turns", "flaredtdg-no-overlap", "flaredtdg-remap")
ALIKE = [(tuple(of(name, model) for name in OVERLAPS), ranks) for model in ("t-gcn", "mpnn-lstm", "evolvegcn-h") for ranks in (1, 2)]


@pytest.mark.parametrize(("cases", "ranks"), fast(ALIKE, lambda _, run: run[0][0].model == "t-gcn" and run[1] == 1))
def test_what_overlaps_changes_nothing(folder, cases, ranks):
    """Nor does building blocks anew; orders of rows change the order in which gradients are added up, and so the last digit."""
    losses, trained = load_results(folder, cases[0].label, ranks)
    for other in cases[1:]:
        np.testing.assert_allclose(load_results(folder, other.label, ranks)[0], losses, rtol=2e-6)
        np.testing.assert_allclose(load_results(folder, other.label, ranks)[1], trained, atol=1e-5)


UNDECAYED = [
    ((of("full-history", model), of("flaredtdg", model, decay=WHOLE)), ranks)
    for model in ("t-gcn", "mpnn-lstm", "evolvegcn-h")
    for ranks in (1, 2)
]


@pytest.mark.parametrize(("cases", "ranks"), fast(UNDECAYED, lambda _, run: run[0][0].model == "t-gcn" and run[1] == 1))
def test_without_decay_it_is_full_history(folder, cases, ranks):
    whole, decayed = (load_results(folder, case.label, ranks)[0] for case in cases)
    np.testing.assert_allclose(decayed, whole, rtol=1e-5)


LOSSES = tuple(of("flaredtdg", "evolvegcn-h", decay=WHOLE, variant=variant) for variant in ("exact", "as-published"))


@pytest.mark.parametrize(("cases", "ranks"), fast([(LOSSES, (1, 2)), (LOSSES, (1, 4))], lambda number, _: number == 0))
def test_the_published_loss_is_too_small_by_the_number_of_ranks(folder, cases, ranks):
    """A mean over ranks of shares that already add up to one; shown where all is kept and all is predicted in either variant."""
    exact, published = cases
    whole = load_results(folder, exact.label, 1)[0][0]
    for count in ranks:
        assert load_results(folder, published.label, count)[0][0] * count == pytest.approx(whole, rel=1e-5)


@pytest.mark.parametrize(("case", "ranks"), RUNS, ids=label)
def test_bytes_cross_only_between_ranks_and_above_the_first_layer(folder, case, ranks):
    """Input features of remote rows come with the snapshot; candidates of the summary are gathered in every layer,
    readouts for links above the last."""
    planned = sum(json.loads((folder / f"found-{ranks}-{rank}.json").read_text())[case.label]["planned"] for rank in range(ranks))
    assert (planned == 0) == (ranks == 1 or (case.layers == 1 and case.model != "evolvegcn-h" and case.task != "links"))

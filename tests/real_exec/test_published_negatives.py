"""Events ranked against published negatives: test and validation, by the formula of TGB's public evaluator from logits, event by event."""

import json
import pickle
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from stream_case import choice, hyper, planned, prepared, stream
from tgb_files import evaluator_mrr, generate

from chronoscale.batching.streams.prepared import PreparedStream
from chronoscale.datasets.streams.protocol import PublishedNegatives
from chronoscale.errors import UserError
from chronoscale.real_exec.job import Item, Job, Settings
from chronoscale.real_exec.streams import evaluation
from chronoscale.real_exec.streams.plans import TRAINED, EventPlans
from chronoscale.real_exec.streams.predictions import Predictions
from chronoscale.real_exec.training import epoch_loop
from chronoscale.real_exec.training.training_end import remove_end
from chronoscale.strategies.workload import EventHyper

EVENTS = stream(seed=3, nodes=16, events=130)


def columns(part):
    return [np.asarray(column[part.start : part.stop]).astype(np.int64) for column in (EVENTS.src, EVENTS.dst, EVENTS.t)]


@pytest.fixture
def folders(tmp_path):
    """One stream prepared twice: with published negatives of both periods, and without; and the rows of each period."""
    (tmp_path / "drawn").mkdir()
    drawn = prepared(tmp_path / "drawn", EVENTS)
    split, files, rows = PreparedStream.load(drawn).split, {}, {}
    src, dst, t = columns(range(len(EVENTS)))
    trained = np.arange(t.size) < split.train_end
    for period, part in (("test", split.test), ("validation", split.validation)):
        mask = np.isin(np.arange(t.size), part)
        rows[period] = generate(np.random.default_rng(part.start), src, dst, t, trained, mask, 14)
        files[period] = str(tmp_path / f"{period}.pkl")
        Path(files[period]).write_bytes(pickle.dumps(rows[period]))
    (tmp_path / "published").mkdir()
    return prepared(tmp_path / "published", EVENTS, published=PublishedNegatives(**files)), drawn, rows


def trained(folder, model, repeats=2, **other):
    """The job's folder after training in this process."""
    arguments, chosen = hyper(model, **other), choice(model)
    out = folder.parent / "out"
    shutil.rmtree(out, ignore_errors=True)
    (out / "epochs").mkdir(parents=True)
    planned(folder, chosen, arguments).save(folder.parent / "schedule.parquet")
    item = Item("tgn", str(folder.parent / "schedule.parquet"), str(folder), arguments)
    job = Job("training", (item,), str(out), chosen, repeats, settings=Settings(device="cpu", learning_rate=0.02))
    epoch_loop.train(job)
    return out, job


def left(out, *names):
    return [json.loads((out / f"{name}.json").read_text()) for name in names]


@pytest.mark.parametrize(("model", "validates"), [("tgn", True), ("tgn", False), ("apan", True), ("tgat", False)])
def test_both_periods_have_the_evaluator_s_mrr(folders, monkeypatch, model, validates):
    """In chunks of events, ties among scores included; all else is as without published negatives."""
    folder, drawn, rows = folders
    tables, links = [], Predictions.links

    def rounded(self, data, there):
        """Scores of few different values, so that some are equal."""
        if there.shape[1] > 1:
            self._logits = (self._logits * 4).round() / 4
            tables.append((self._part, self._logits.numpy().copy()))
        return links(self, data, there)

    monkeypatch.setattr(evaluation, "ROOTS", 40)
    before, _ = trained(drawn, model, validate=validates)
    plain = left(before, "test", "epochs/000001")
    monkeypatch.setattr(Predictions, "links", rounded)
    out, _ = trained(folder, model, validate=validates)
    record, test, epoch = left(out, "evaluation", "test", "epochs/000001")
    split, tied = PreparedStream.load(folder).split, 0
    for (part, logits), period, scores in zip(tables, ("validation", "test"), (record["validation"], test), strict=True):
        assert part == (split.test if period == "test" else split.validation)
        negatives = [rows[period][key] for key in zip(*columns(part), strict=True)]
        others = [line[2 : 2 + len(row)].tolist() for line, row in zip(logits, negatives, strict=True)]
        tied += sum(own in row for own, row in zip(logits[:, 0].tolist(), others, strict=True))
        assert scores["mrr"] == pytest.approx(evaluator_mrr(logits[:, 0].tolist(), others), rel=1e-6)
    assert tied > 5 and len({*map(len, negatives)}) > 1
    assert epoch["losses"] == plain[1]["losses"] and epoch["scores"] == plain[1]["scores"]
    assert record["validation_s"] > 0 and record["test_s"] > 0


@pytest.mark.parametrize(("model", "sampling"), [("tgn", "recent"), ("apan", "recent"), ("tgat", "uniform")])
def test_memory_is_what_training_left_and_then_what_the_validation_did(folders, model, sampling):
    """By AP, whose negatives are no others: of the validation that of the tested epoch, of the test that without published negatives."""
    folder, drawn, _ = folders
    plain, out = (trained(one, model, 3, events=EventHyper(policy=sampling))[0].rename(one.parent / "kept") for one in (drawn, folder))
    record, test, end = left(out, "evaluation", "test", "ended")
    tested = left(out, f"epochs/{end['best']:06d}")[0]["scores"]
    assert {key: record["validation"][key] for key in tested} == pytest.approx(tested, abs=1e-12)
    before, none = left(plain, "test", "evaluation")
    for key in ("ap", "auc"):
        assert test[key] == pytest.approx(before[key], abs=1e-12)
    assert test["mrr"] != before["mrr"] and none["validation"] == {}


def test_a_test_is_as_without_published_negatives_where_epochs_end_early(folders):
    """Epochs of one batch validate one: memory then misses what lies between, and the test goes on from there."""
    folder, drawn, _ = folders
    plain, out = (trained(one, "tgn", batches=1)[0].rename(one.parent / "kept") for one in (drawn, folder))
    for key in ("ap", "auc"):
        assert left(out, "test")[0][key] == pytest.approx(left(plain, "test")[0][key], abs=1e-12)


def test_what_was_tested_is_tested_again_alike(folders):
    """A training of two epochs that goes on to three, and one that was cut off before its test, from the files that are left."""
    folder = folders[0]
    whole, _ = trained(folder, "tgn", repeats=3)
    expected = left(whole, "test", "evaluation")
    out, job = trained(folder, "tgn", repeats=2)
    remove_end(out)
    assert not [*out.glob("*.json")]
    for repeats in (3, 3):
        epoch_loop.train(replace(job, repeats=repeats))
        test, record = left(out, "test", "evaluation")
        assert (test, record["validation"]) == (expected[0], expected[1]["validation"])


@pytest.fixture
def copies(monkeypatch):
    """What each rank has copied of node memory when its epochs are over: rank -> names of tables."""
    tables, end = {}, EventPlans.end

    def noted(plans):
        tables[plans._context.rank] = sorted(plans._program.trained_state)
        end(plans)

    monkeypatch.setattr(EventPlans, "end", noted)
    return tables


TABLES = ["mail", "mailed", "memory", "sent", "updated"]


@pytest.mark.parametrize(
    ("published", "model", "validates", "copied"),
    [(True, "tgn", True, TABLES), (True, "tgn", False, []), (True, "tgat", True, []), (False, "tgn", True, [])],
)
def test_memory_is_copied_where_it_is_gone_back_to_and_nowhere_else(folders, copies, published, model, validates, copied):
    """Neither in memory nor in a file; and a file that lacks it is refused."""
    out, job = trained(folders[not published], model, validate=validates)
    assert copies == {0: copied}
    for name, key in (("best.pt", "state"), ("checkpoint.pt", "kept")):
        state = torch.load(out / name, weights_only=True)[key]
        assert sorted(state) == sorted([*TABLES, *(f"{TRAINED}{table}" for table in copied)])
        assert all(table.device.type == "cpu" for table in state.values())
    if copied:
        saved = torch.load(out / "checkpoint.pt", weights_only=True)
        del saved["kept"][f"{TRAINED}mail"]
        torch.save(saved, out / "checkpoint.pt")
        with pytest.raises(UserError, match=rf"checkpoint\.pt: not a readable checkpoint of this model \(KeyError: '{TRAINED}mail'\)"):
            epoch_loop.train(job)


def test_one_batch_and_many_virtual_ranks_rank_alike(folders, copies):
    """Two virtual ranks with batches of half the size; they are not timed."""
    one, _ = trained(folders[0], "tgn", batch_size=8)
    expected = left(one, "test", "evaluation")
    arguments, chosen = hyper("tgn", 4), choice("tgn")
    planned(folders[0], chosen, arguments, ranks=2).save(folders[0].parent / "two.parquet")
    shutil.rmtree(one)
    (one / "epochs").mkdir(parents=True)
    item = Item("tgn", str(folders[0].parent / "two.parquet"), str(folders[0]), arguments)
    settings = Settings(device="cpu", learning_rate=0.02, virtual=2)
    epoch_loop.train_here(Job("training", (item,), str(one), chosen, 2, settings=settings))
    test, record = left(one, "test", "evaluation")
    assert test == pytest.approx(expected[0], rel=1e-4) and record["validation"] == pytest.approx(expected[1]["validation"], rel=1e-4)
    assert (record["validation_s"], record["test_s"]) == (0, 0)
    assert copies == {0: TABLES, 1: []}  # all ranks go back to what rank 0 has written

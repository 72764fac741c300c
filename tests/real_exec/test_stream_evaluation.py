"""What training on events is judged by, against scores by definition of the oracle's logits; which epoch is kept; when training ends."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from slow_scores import area, precision, reciprocal
from stream_case import choice, hyper, planned, prepared, program, stream
from stream_oracle import StreamOracle, perceptron

from chronoscale.datasets.streams.draws import derive_key
from chronoscale.errors import UserError
from chronoscale.real_exec.execution.context import Context
from chronoscale.real_exec.execution.interpreter import execute
from chronoscale.real_exec.execution.lanes import CpuLanes
from chronoscale.real_exec.job import Item, Job, Settings
from chronoscale.real_exec.streams.evaluation import evaluate
from chronoscale.real_exec.streams.plans import EventPlans
from chronoscale.real_exec.training import epoch_loop
from chronoscale.real_exec.training.best_epoch import BEST, best_epoch
from chronoscale.real_exec.training.epoch_record import epoch_records
from chronoscale.strategies.schedule import Schedule
from chronoscale.strategies.workload import EventHyper


class Judged:
    """A program and an oracle that begin alike, on one stored stream with hidden nodes."""

    def __init__(self, folder, model):
        self.given, chosen = hyper(model, 9), choice(model)
        self.schedule = planned(folder, chosen, self.given, "tgl-unique")
        self.made = program(folder, self.schedule, chosen, self.given)
        self.data, built = self.made.data, self.made
        self.oracle = StreamOracle(
            built.learner.model,
            *self.columns(self.data.training),
            self.data.whole.stream.num_nodes,
            lambda parameters: torch.optim.SGD(parameters, 0.05),
            list(self.given.fanout),
            edge=np.array(self.data.training.stream.features),
            features=built.material.node_features,
            duration=self.given.events.duration,
        )

    @staticmethod
    def columns(source):
        return [np.array(column) for column in (source.stream.src, source.stream.dst, source.stream.t)]

    def sees(self, source):
        """The oracle goes on with these events, its memory as it is."""
        src, dst, t = self.columns(source)
        self.oracle.src, self.oracle.dst, self.oracle.t = src.tolist(), dst.tolist(), [float(x) for x in t]
        if self.oracle.edge is not None:
            self.oracle.edge = torch.from_numpy(np.array(source.stream.features)).double()

    def epoch(self, number):
        """Losses of the program and of the oracle, and the scores that validate."""
        done = execute(self.schedule, self.made, CpuLanes(False), "cpu")
        self.sees(self.data.training)
        self.oracle.reset()
        self.oracle.updated = dict.fromkeys(range(self.oracle.nodes), float(self.data.whole.stream.t[0]))
        built, deal = self.made, self.made.deals[0]
        spans = [(whole.start, whole.stop) for whole in map(deal.all_events, range(deal.iterations))]
        losses = self.oracle.train(spans, self.data.negatives_of_training(range(self.data.training_events), number, built.seed)[:, 0])
        self.sees(self.data.whole)
        return done, losses

    def scores(self, part, others):
        """Of events `part` told from others [n, k], the oracle's memory going on."""
        rows = []
        for first in range(part.start, part.stop, self.given.batch_size):
            last = min(first + self.given.batch_size, part.stop)
            logits = self.oracle.logits(first, last, np.maximum(others[first - part.start : last - part.start], 0))
            self.oracle.write(first, last)
            rows += logits.detach().tolist()
        src, dst, result = self.oracle.src, self.oracle.dst, {}
        new = [bool(self.data.new[src[e]] or self.data.new[dst[e]]) for e in part]
        assert any(new) and not all(new)
        for ending in ("", "_new"):
            chosen = [k for k in range(len(part)) if (new[k] or not ending) and others[k, 0] >= 0]
            positive, first = [rows[k][0] for k in chosen], [rows[k][1] for k in chosen]
            result |= {f"ap{ending}": precision(positive, first), f"auc{ending}": area(positive, first)}
            many = [[x for x, other in zip(rows[k][2:], others[k, 1:], strict=True) if other >= 0] for k in chosen]
            if any(many):
                some = [(each, row) for each, row in zip(positive, many, strict=True) if row]
                result[f"mrr{ending}"] = reciprocal(*zip(*some, strict=True))
        return result


@pytest.mark.parametrize("model", ["tgn", "tgat", "apan"])
def test_scores_are_those_of_the_oracles_logits(tmp_path, model):
    """Two epochs, each with an empty memory, the second's negatives others, those of the evaluation the same; then the test events."""
    judged = Judged(prepared(tmp_path, stream(seed=3, nodes=16, events=130), hidden=0.15, ranked=14, seed=2), model)
    data, fixed = judged.data, judged.data.negatives("validation").dst
    for number in range(2):
        done, losses = judged.epoch(number)
        np.testing.assert_allclose(done.losses, losses, rtol=1e-4)
        assert done.scores == pytest.approx(judged.scores(data.split.validation, fixed), abs=1e-9)
    others = np.concatenate([data.negatives("test").dst, data.negatives("ranked").dst], axis=1)
    assert (others[:, 1:] < 0).any()  # fewer than were asked for
    expected = judged.scores(data.split.test, others)
    assert set(expected) == {name + ending for name in ("ap", "auc", "mrr") for ending in ("", "_new")}
    assert evaluate(judged.made) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("model", ["tgn", "apan", "tgat"])
def test_tests_go_on_from_behind_the_events_that_validate(tmp_path, model):
    """Also where epochs end before them."""
    folder, result = prepared(tmp_path, stream(seed=3, nodes=16, events=130)), []
    for validates in (True, False):
        job = job_of(tmp_path, model, validate=validates)
        epoch_loop.train(job)
        result.append(json.loads((Path(job.out) / "test.json").read_text()))
        shutil.rmtree(job.out)
    assert result[0] == pytest.approx(result[1]) and set(result[0]) == {"ap", "auc", "mrr"} and folder.exists()


def test_roots_in_parts_score_alike(tmp_path, monkeypatch):
    judged = Judged(prepared(tmp_path, stream(seed=3, nodes=16, events=130), hidden=0.15), "tgn")
    judged.epoch(0)
    tables = {name: table.clone() for name, table in judged.made.state.tables().items()}
    whole = evaluate(judged.made)
    judged.made.state.restore(tables)
    monkeypatch.setattr("chronoscale.real_exec.streams.evaluation.ROOTS", 11)
    assert evaluate(judged.made) == pytest.approx(whole, abs=1e-6)


@pytest.mark.parametrize("model", ["tgn", "dysat"])
def test_labels_are_scored_event_by_event(tmp_path, model):
    """Every event in a batch of its own; memory is written where the program writes it."""
    folder, arguments, chosen = prepared(tmp_path, stream(labels=True), task="node"), hyper(model), choice(model)
    built = program(folder, planned(folder, chosen, arguments), chosen, arguments)
    execute(planned(folder, chosen, arguments), built, CpuLanes(False), "cpu")
    logits, steps = [], built.steps
    forward = steps.forward

    def one_by_one(batch):
        for e in batch.events:
            single = steps.sample(batch.source, range(e, e + 1), np.empty((1, 0), np.int32), batch.events.start, 0)
            logits.append(forward(single)[0].tolist())
        return forward(batch)

    steps.forward = one_by_one
    result, labels = evaluate(built), built.data.whole.stream.labels[built.data.split.test.start :].tolist()
    gaps = [(each - zero, label) for (zero, each), label in zip(logits, labels, strict=True)]
    assert result["accuracy"] == pytest.approx(np.mean([(gap > 0) == label for gap, label in gaps]))
    assert result["auc"] == pytest.approx(area(*([gap for gap, label in gaps if label == kind] for kind in (1, 0))))


@pytest.mark.parametrize("model", ["tgn", "tgat", "dysat"])
def test_labels_are_told_by_sources(tmp_path, model):
    """By the oracle's embeddings of them, whether destinations are roots, too, or not."""
    judged = Judged(prepared(tmp_path, stream(seed=3, labels=True), task="node"), model)
    steps, oracle, part = judged.made.steps, judged.oracle, judged.data.split.validation
    batch = steps.sample(judged.data.whole, part, np.empty((len(part), 0), np.int32), part.start, 0)
    assert len(batch.times) == len(part) * (1 + bool(judged.made.material.shape.memory))
    judged.sees(judged.data.whole)
    oracle.fresh = oracle.memory
    sources = [oracle.embedding(oracle.src[e], oracle.t[e], part.start) for e in part]
    expected = torch.stack([perceptron(oracle.p, "classes.inner", "classes.outer", source) for source in sources])
    torch.testing.assert_close(steps.forward(batch).double(), expected, rtol=1e-4, atol=1e-5)


def job_of(folder, model="tgn", repeats=1, patience=0, **other):
    """Of a stored stream, to be trained in this process."""
    chosen, arguments = choice(model), hyper(model, **other)
    if not (folder / "prepared").exists():
        prepared(folder, stream())
    planned(folder / "prepared", chosen, arguments).save(folder / "schedule.parquet")
    out = folder / "out"
    (out / "epochs").mkdir(parents=True, exist_ok=True)
    item = Item("tgn", str(folder / "schedule.parquet"), str(folder / "prepared"), arguments)
    return Job("training", (item,), str(out), chosen, repeats, settings=Settings(device="cpu", learning_rate=0.02, patience=patience))


def plans_of(job):
    return EventPlans(job, Schedule.load(Path(job.items[0].schedule)), Context(job.settings))


def test_the_best_epoch_is_the_first_of_its_score():
    assert best_epoch([{"ap": 0.5}, {"ap": 0.7}, {"ap": 0.7}, {"ap": 0.6}]) == 1
    assert best_epoch([{"auc": 0.9, "ap": 0.5}, {"auc": 0.1, "ap": 0.6}]) == 1  # AP comes first
    assert best_epoch([{"accuracy": 0.5}, {"accuracy": 0.4}]) == 0
    assert best_epoch([{}, {}, {}]) == 2  # nothing validates


def test_the_best_epoch_is_kept_and_tested(tmp_path):
    """Model and memory as that epoch left them, though others followed."""
    job = job_of(tmp_path)
    plans, scores, states = plans_of(job), [], []
    for value in (0.4, 0.8, 0.6):
        plan = plans.at(len(scores))
        execute(plan.schedule, plan.program, CpuLanes(False), "cpu")
        scores.append({"ap": value})
        assert not plans.after_epoch(scores)
        tables = {name: table.clone() for name, table in plans.extra_state().items()}
        states.append((tables, {name: value.clone() for name, value in plans.learner.model.state_dict().items()}))
    assert not torch.equal(states[1][0]["memory"], states[2][0]["memory"])
    plans._program.state.restore(states[1][0])
    plans.learner.model.load_state_dict(states[1][1])
    expected = evaluate(plans._program)
    plans._program.state.restore(states[2][0])
    plans.learner.model.load_state_dict(states[2][1])
    plans.end()
    assert json.loads((tmp_path / "out" / "test.json").read_text()) == pytest.approx(expected)
    assert all(torch.equal(value, states[1][1][name]) for name, value in plans.learner.model.state_dict().items())


@pytest.mark.parametrize(("patience", "ends"), [(0, 6), (1, 3), (2, 4), (3, 6)])
def test_training_ends_when_nothing_gets_better(tmp_path, patience, ends):
    plans, values, seen = plans_of(job_of(tmp_path, patience=patience)), (0.4, 0.6, 0.6, 0.5, 0.7, 0.2), []
    for value in values:
        seen.append({"ap": value})
        if plans.after_epoch(seen):
            break
    assert len(seen) == ends


@pytest.mark.sample(1)
@pytest.mark.parametrize("model", ["tgn", "tgat"])
def test_training_goes_on_where_it_was_cut_off(tmp_path, model):
    results = []
    for name, parts in (("whole", (4,)), ("cut", (1, 2, 4))):
        (tmp_path / name).mkdir()
        for repeats in parts:
            epoch_loop.train(job_of(tmp_path / name, model, repeats))
        out = tmp_path / name / "out"
        best = torch.load(out / BEST, weights_only=True)
        results.append(([(each.losses, each.scores) for each in epoch_records(out)], best, json.loads((out / "test.json").read_text())))
    (losses, best, tested), (others, other, again) = results
    assert len(losses) == 4 and losses == others and tested == again and best["epoch"] == other["epoch"]
    assert best["epoch"] == best_epoch([scores for _, scores in losses])
    for part in ("model", "state"):
        assert all(torch.equal(value, other[part][name]) for name, value in best[part].items())


def test_a_damaged_best_epoch_is_one_line(tmp_path):
    plans = plans_of(job_of(tmp_path))
    with pytest.raises(UserError, match=r"best\.pt: no such file, a best epoch of this model is expected"):
        plans.end()
    (tmp_path / "out" / BEST).write_bytes(b"PK")
    with pytest.raises(UserError, match=r"best\.pt: not a readable best epoch of this model"):
        plans.end()


def test_draws_of_an_epoch_are_its_own(tmp_path):
    """Neighbours are drawn anew in each epoch, and for what is evaluated never."""
    folder, chosen = prepared(tmp_path, stream(seed=3, events=200)), choice("tgat")
    arguments = hyper("tgat", events=EventHyper(policy="uniform"))
    built, seen = program(folder, planned(folder, chosen, arguments), chosen, arguments), []
    sample = built.steps.sample

    def noted(source, part, others, before, seed):
        batch = sample(source, part, others, before, seed)
        seen.append((part.start, seed, others.tolist(), batch.neighbourhood.edges.tolist()))
        return batch

    built.steps.sample = noted
    epochs = []
    for _ in range(2):
        execute(planned(folder, chosen, arguments), built, CpuLanes(False), "cpu")
        epochs.append(seen[:])
        seen.clear()
    trained = built.deals[0].iterations
    assert {seed for _, seed, *_ in epochs[0][:trained]} == {derive_key(0, 0)} != {seed for _, seed, *_ in epochs[1][:trained]}
    assert [each[2] for each in epochs[0][:trained]] != [each[2] for each in epochs[1][:trained]]
    assert [each[3] for each in epochs[0][:trained]] != [each[3] for each in epochs[1][:trained]]
    assert epochs[0][trained:] == epochs[1][trained:]

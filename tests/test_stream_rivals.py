"""Rivals of the trainer of event streams: asked the same, told what to install, and none reads what it is to predict."""

from __future__ import annotations

import copy
import sys
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import forked
import numpy as np
import pytest
import torch

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))

from core.case import Setting  # noqa: E402
from rivals import naive  # noqa: E402
from rivals.protocol import Protocol, Questions  # noqa: E402
from subjects import stream_rivals  # noqa: E402

from chronoscale.datasets.streams import negatives, ranking, splits  # noqa: E402
from chronoscale.datasets.streams.events import EventStream  # noqa: E402
from chronoscale.errors import UserError  # noqa: E402

BATCH, RANKED = 20, 5


def drawn(events: int = 500, nodes: int = 25, seed: int = 0) -> EventStream:
    rng = np.random.default_rng(seed)
    src, dst = (rng.integers(0, nodes, events).astype(np.int32) for _ in range(2))
    return EventStream(nodes, src, dst, 1_000_000 + np.sort(rng.integers(0, 2 * events, events)))


@pytest.fixture
def protocol() -> Protocol:
    return Protocol.of(drawn(), BATCH, RANKED)


@pytest.fixture
def pyg():
    pytest.importorskip("torch_geometric")
    return import_module("rivals.pyg_tgn")


def test_questions_are_the_events_with_the_fixed_negatives(protocol):
    stream, split = protocol.stream, splits.split_by_time(protocol.stream)
    assert protocol.trained.tolist() == list(split.train)
    assert protocol.validation.candidates.shape == (len(split.validation), 2)  # no ranking: validation's seconds are those of AP
    test = protocol.test
    assert test.part == split.test and test.candidates.shape == (len(split.test), 2 + RANKED)
    for row, event in enumerate(split.test):
        assert (test.src[row], test.candidates[row, 0]) == (stream.src[event], stream.dst[event])
        assert test.known[row] <= event < test.known[row] + BATCH and (test.known[row] - split.validation_end) % BATCH == 0
        assert test.new[row] == (not {stream.src[event], stream.dst[event]} <= {*stream.src[split.train], *stream.dst[split.train]})
    single, mixed = (
        negatives.evaluation_negatives(stream, split.train_end, split.test, *arguments).dst
        for arguments in ((1, "random"), (RANKED, "mixed"))
    )
    assert np.array_equal(test.candidates[:, 1:2], single) and np.array_equal(test.candidates[:, 2:], mixed)


def test_hidden_nodes_have_no_event_to_train_on_and_are_no_negatives():
    protocol = Protocol.of(drawn(), BATCH, 0, hidden=0.2)
    stream = protocol.stream
    hidden = splits.hide_nodes(stream, splits.split_by_time(stream), 0.2).hidden
    assert hidden.sum() == 5 and len(protocol.trained) < splits.split_by_time(stream).train_end
    assert not hidden[stream.src[protocol.trained]].any() and not hidden[stream.dst[protocol.trained]].any()
    assert not hidden[protocol.among].any()


def test_candidates_that_are_not_there_do_not_count():
    candidates = np.array([[1, 2, 3, -1], [4, 5, -1, -1]], np.int32)
    questions = Questions(range(2), np.array([0, 0], np.int32), candidates, np.array([0, 0]), np.array([False, True]))
    scores = np.array([[0.5, 0.1, 0.7, 9.0], [0.3, 0.4, 9.0, 9.0]], np.float32)
    figures = questions.figures(scores)
    assert figures.mrr == 0.5 and figures.events == 2  # the second event has none to rank among
    assert figures.ap == ranking.average_precision(scores[:, 0], scores[:, 1:2])
    new_figures = questions.figures(scores, questions.new)
    assert (new_figures.ap, new_figures.auc, new_figures.events) == (0.5, 0.0, 1) and np.isnan(new_figures.mrr)
    assert questions.figures(scores, np.zeros(2, np.bool_)).events == 0


@pytest.mark.parametrize("half_life", [3.0, 50.0])
def test_naive_rivals_by_brute_force(protocol, half_life):
    stream, questions = protocol.stream, protocol.test
    seen, popular = naive.edgebank(stream)(questions), naive.popularity(stream, half_life)(questions)
    together = naive.both(stream, half_life)(questions)
    for row, known in enumerate(questions.known.tolist()):
        for column, node in enumerate(questions.candidates[row].tolist()):
            if node < 0:
                continue
            met = bool(((stream.src[:known] == questions.src[row]) & (stream.dst[:known] == node)).any())
            weight = sum(0.5 ** ((known - event) / half_life) for event in np.flatnonzero(stream.dst[:known] == node))
            assert seen[row, column] == met
            assert popular[row, column] == pytest.approx(weight, rel=1e-5)
            assert together[row, column] == pytest.approx(met + weight / (1 + weight), rel=1e-5)


def test_the_half_life_is_the_one_that_validates_best(protocol):
    half_life, answers = naive.chosen(protocol, naive.popularity)
    tried = {each: naive.tested(protocol, naive.popularity(protocol.stream, each))[0] for each in naive.HALF_LIVES}
    assert tried[half_life] == max(tried.values()) == naive.tested(protocol, answers)[0]


@pytest.mark.slow
def test_without_the_package_one_line_says_what_to_install():
    folder = ROOT / "benchmarks"
    lines = ["import runpy, sys", "sys.modules['torch_geometric'] = None", f"sys.argv = [{str(folder)!r}, 'stream_rivals', 'rivals=pyg']"]
    ended = forked.run(["-c", "\n".join([*lines, f"runpy.run_path({str(folder)!r}, run_name='__main__')"])])
    assert ended.returncode == 2
    assert ended.stderr.startswith("benchmarks: ") and ended.stderr.count("\n") == 1
    assert "pip install torch_geometric" in ended.stderr


def test_naive_rivals_need_no_package():
    passes = stream_rivals.without_training("hubs-500-25", BATCH, Setting(1, 1, Path()))
    assert list(passes) == ["edgebank", "popularity", "both"]
    assert all(0 < only["test AP"] <= 1 and only["test MRR"] > 0 for (only,) in passes.values())


@pytest.mark.slow
def test_the_package_trains_beside_ours(pyg, tmp_path):
    passes = stream_rivals.networks("hubs-900-25", ("tgn", "pyg"), 40, 1, 1e-3, Setting(1, 1, tmp_path))
    assert all(only["seconds"] > 0 and 0 < only["test AP"] <= 1 and only["best epoch"] == 1 for (only,) in passes.values())


def test_no_score_depends_on_its_batch_or_on_what_comes_later(pyg, protocol):
    torch.manual_seed(0)
    model = pyg.TGN(pyg.Events(protocol), protocol.stream.num_nodes, 0.1, 1.0)
    pyg.trained(model, torch.optim.Adam(model.parameters(), 1e-2), protocol, seed=0, epoch=0)
    start, other, batch = len(protocol.trained), copy.deepcopy(model), 2 * BATCH
    other.events.dst[start + batch :] = 3
    other.events.t[start + batch :] += 777
    scores, others = (pyg.answered(each, protocol.validation, start, BATCH) for each in (model, other))
    assert np.array_equal(scores[: batch + BATCH], others[: batch + BATCH])
    assert not np.array_equal(scores[batch + BATCH :], others[batch + BATCH :])  # the events after them do read those


def test_the_best_epoch_is_tested_in_the_state_that_it_left(pyg):
    options = {"batch_size": BATCH, "learning_rate": 0.03, "seed": 4, "threads": 1, "ranked": RANKED}
    run = pyg.run(drawn(), epochs=4, **options)
    assert run.best == int(np.argmax([epoch.validation_ap for epoch in run.epochs]))
    assert run.best < 3, "choose another seed: the last epoch is the best, and nothing has to be kept"
    again = pyg.run(drawn(), epochs=run.best + 1, **options)
    assert (again.test, again.new) == (run.test, run.new)
    assert again.epochs[-1].validation_ap == run.epochs[run.best].validation_ap


def test_a_node_without_messages_gets_none(pyg):
    message, index, t = torch.randn(5, 3), torch.tensor([2, 2, 0, 2, 0]), torch.tensor([1, 5, 7, 5, 2])
    expected = torch.stack([message[2], torch.zeros(3), message[3], torch.zeros(3)])
    assert torch.equal(pyg.Last()(message, index, t, 4), expected)  # without torch_scatter LastAggregator gives 1 and 3 message[3]


def test_the_unit_of_time_is_what_is_encoded(pyg):
    encoded = pyg.Paced(4, 60.0)
    assert torch.equal(encoded(torch.tensor([120.0])), torch.cos(encoded.lin(torch.tensor([[2.0]]))))


def test_times_that_are_not_whole_are_refused(pyg):
    stream = drawn()
    with pytest.raises(UserError, match=r"whole numbers.*float64"):
        pyg.Events(Protocol.of(replace(stream, t=stream.t.astype(np.float64)), BATCH, 0))

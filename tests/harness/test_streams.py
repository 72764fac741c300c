"""The command line on streams of events: good runs, what is told of them, mistakes in one line, lost ranks."""

import json
import os
import re
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from command_line import command, killed_at, one_line
from stream_experiments import EVENTS, MODEL, SMALL, left, written

from chronoscale.errors import ChronoscaleWarning
from chronoscale.harness.keys.experiment_files import check, load
from chronoscale.harness.publish.inventory import missing
from chronoscale.harness.runs.run_folder import Run
from chronoscale.harness.runs.start import load_experiment
from chronoscale.harness.workflows.streams.data import workload
from chronoscale.real_exec.training.epoch_record import epoch_records
from chronoscale.reports.breakdown import PARTS
from chronoscale.strategies.schedule import Op

STREAM = (
    "is a stream of events: tgn, tgat, dysat, jodie, apan, graphmixer, dygformer train on it as it is, models on snapshots where it is cut"
)


@pytest.fixture
def experiment(tmp_path, monkeypatch):
    """A folder to work in, with streams, and a function that writes experiment files."""
    monkeypatch.chdir(tmp_path)
    return written(tmp_path)


def test_the_loop_from_file_to_report(experiment, inline, capsys):
    """Profiled, executed, replayed, simulated, shown."""
    file = experiment(strategies=["tgl", "tgl-unique"], gpus=[1, 16])
    command("validate", file, "--json")
    rows = json.loads(capsys.readouterr().out)
    ops = {"SAMPLE", "GATHER", "H2D", "D2H", "MEMORY_READ", "MEMORY_UPDATE", "MEMORY_WRITE", "AGGREGATE", "FORWARD", "BACKWARD", "OPTIMIZE"}
    assert {row["op"] for row in rows} == {*ops, "ITERATION", "TOTAL"}
    assert {row["strategy"] for row in rows} == {"tgl", "tgl-unique"}
    command("simulate", file)
    assert "5 of 16 ranks under tgl," in " ".join(capsys.readouterr().err.split())  # 11 batches
    command("report", "runs/small-validate-1", "runs/small-simulate-1", "--out", "page")
    text = Path("page/report.md").read_text()
    assert "### Parts of the epoch" in text and Path("page/tables/executed-breakdown.csv").exists()
    capsys.readouterr()
    command("trace", "runs/small-validate-1", "--out", "traces", "--json")
    assert len(json.loads(capsys.readouterr().out)) == 2


def test_a_bench_tells_the_parts_of_an_epoch(experiment, inline, capsys):
    command("bench", experiment(strategies=["sequential", "tgl-unique"]), "--json")
    rows = json.loads(capsys.readouterr().out)
    assert [row["strategy"] for row in rows] == ["sequential", "tgl-unique"]
    for row in rows:
        parts = row["breakdown"]
        assert list(parts) == ["sample", "gather", "transfer", "memory", "layers", "backward", "optimiser"]
        assert all(part["share"] == pytest.approx(part["seconds"] / row["epoch_s"], rel=0.5) for part in parts.values())
        assert 0.5 < sum(part["share"] for part in parts.values()) < 1.5


def test_a_dry_run_counts_the_events_that_train(experiment, capsys):
    command("simulate", experiment(gpus=[1, 4]), "--dry-run", "--json")
    assert {row["events"] for row in json.loads(capsys.readouterr().out)} == {210}


def test_parts_of_an_epoch_hold_every_operation():
    assert sorted(op for ops in PARTS.values() for op in ops) == sorted(Op)


def test_training_ends_early_with_the_best_epoch(experiment, inline, capsys):
    """Scores that do not change: the first epoch stays the best, and patience ends the run; nothing is missing then."""
    training = {**SMALL["training"], "learning_rate": 1e-30, "patience": 2}
    command("train", experiment(epochs=9, training=training))
    output = capsys.readouterr()
    err = " ".join(output.err.split())
    assert "test period, with the model of epoch 0, the best of 0..2" in output.out and "parts of the epoch" in output.out
    assert re.search(r"backward +optimiser", output.out) and "trained 3 epochs on 1 rank" in output.out
    assert "Training ended after 3 of 9 epochs: the 2 epochs after epoch 0 have no better AP (training.patience)." in err
    assert "Test period, with the model of epoch 0, the best of 0..2: AP" in err
    run = Run(Path("runs/small-train-1"))
    assert missing(run, load_experiment(run)) == []
    command("report", run.folder, "--out", "page")
    text = Path("page/report.md").read_text()
    assert "not there" not in text and "Training ended after 3 of 9 epochs" in text and "| tested_epoch | predictor |" in text
    assert json.loads((run.folder / "train" / "ended.json").read_text()) == {"epochs": 3, "best": 0}
    (run.folder / "train" / "epochs" / "000001.json").unlink()
    assert "1 of 3 epochs, the first of them 1" in missing(run, load_experiment(run))[0]


def test_a_split_in_the_file_is_not_dropped_silently(tmp_path, monkeypatch):
    """TGL's `ext_roll`: a warning names it, and the shares that take it; with these there is none."""
    monkeypatch.chdir(tmp_path)
    rolls = np.repeat([0, 1, 2], [60, 20, 20])
    rows = "".join(f"{i},{i % 7},{7 + i % 5},{i},{roll}\n" for i, roll in enumerate(rolls))
    Path("edges.csv").write_text(f",src,dst,time,ext_roll\n{rows}")
    given = {**SMALL, "dataset": {"path": "edges.csv"}}
    message = (
        r"split by time, \[0\.7, 0\.15\], and not by the file's ext_roll: 60 to train, .* training\.split: \[0\.6, 0\.2\] has its shares"
    )
    with pytest.warns(ChronoscaleWarning, match=message):
        assert workload(check(given, "x")).events.training == 70
    assert workload(check({**given, "training": {**SMALL["training"], "split": [0.6, 0.2]}}, "x")).events.training == 60


def test_the_best_epoch_is_the_one_that_is_tested(experiment, inline, capsys):
    """By the records: its weights lie in best.pt, also where later epochs were worse; a run that ends with it is tested alike."""
    training = {**SMALL["training"], "learning_rate": 0.03}
    command("train", experiment(epochs=6, training=training), "--json")
    (row,) = json.loads(capsys.readouterr().out)
    folder = Path("runs/small-train-1/train")
    scores = [record.scores["ap"] for record in epoch_records(folder)]
    best = scores.index(max(scores))
    assert len(set(scores)) == 6 and torch.load(folder / "best.pt", weights_only=True)["epoch"] == best < 5
    assert row["best_ap"] == max(scores) and [line["predictor"] for line in row["test"]][:2] == ["tgn", "EdgeBank"]
    assert set(row["breakdown"]) <= set(PARTS) and row["breakdown"]["backward"]["share"] > 0
    command("train", experiment("again", epochs=best + 1, training=training))
    assert (folder / "test.json").read_text() == Path("runs/again-train-1/train/test.json").read_text()


def test_a_lost_run_ends_as_one_that_was_not(experiment, lose, capsys):
    """Gone in the middle; taken up again, every bit is that of a run that nothing happened to."""
    file, whole = (experiment(stem, epochs=5, model={**MODEL, "dropout": 0.2}) for stem in ("lost", "whole"))
    lose(2)
    command("train", file, expect=1)
    assert "2 of 5 epochs are kept, the same command goes on after them" in one_line(capsys)
    command("train", file)
    assert "taking up runs/lost-train-1" in capsys.readouterr().err
    command("train", whole)
    assert left(Path("runs/lost-train-1/train")) == left(Path("runs/whole-train-1/train"))


@pytest.mark.slow
def test_a_killed_run_ends_as_one_that_was_not(experiment, capsys):
    """Two ranks and their command, killed in the middle of an epoch."""
    file, whole = (experiment(stem, ranks=[2], epochs=12, model={**MODEL, "dropout": 0.2}) for stem in ("killed", "whole"))
    folder = Path("runs/killed-train-1/train")
    killed_at(lambda: len(epoch_records(folder)) >= 3, "train", file)
    assert 3 <= len(epoch_records(folder)) < 12
    command("train", file)
    assert "taking up runs/killed-train-1" in capsys.readouterr().err
    command("train", whole)
    assert left(folder) == left(Path("runs/whole-train-1/train"))


@pytest.mark.parametrize("training", [{}, {"patience": 1, "learning_rate": 1e-30}], ids=["to the last epoch", "ended early"])
@pytest.mark.parametrize("also", [(), ("ended.json",)], ids=["in its test", "before it"])
def test_a_run_that_was_lost_after_its_last_epoch_is_tested(experiment, inline, capsys, training, also):
    """Taken up, it trains no more: test and best epoch are what they were."""
    file = experiment(epochs=3, training={**SMALL["training"], **training})
    command("train", file)
    run = Run(Path("runs/small-train-1"))
    folder, status = run.folder / "train", run.folder / "status.json"
    sound, checkpoint = left(folder), (folder / "checkpoint.pt").read_bytes()
    for name in ("test.json", "naive.json", *also):
        (folder / name).unlink()
    status.write_text(status.read_text().replace("complete", "running"))
    (run.folder / ".lock").unlink()  # which this process holds to its end
    command("train", file)
    assert "taking up" in capsys.readouterr().err
    assert left(folder) == sound and (folder / "checkpoint.pt").read_bytes() == checkpoint


@pytest.mark.slow
def test_more_ranks_than_events_train_all_the_same(experiment, capsys):
    """One batch holds all events: the second rank has none, and says so; losses are those of one rank."""
    losses = []
    for ranks in (1, 2):
        command("train", experiment(f"r{ranks}", ranks=[ranks], epochs=2, training={"batch_size": 10 * EVENTS, "fanout": [3]}))
        losses.append([record.losses for record in epoch_records(Path(f"runs/r{ranks}-train-1/train"))])
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-5)
    assert "more ranks than work: 1 of 2 ranks under tgl-unique train nothing" in " ".join(capsys.readouterr().err.split())


def test_labels_of_sources_are_learnt(experiment, inline, capsys):
    """Features of earlier events tell them: right, where the most frequent one is not.

    With the default clock the first epoch ranks them right, and so is the best, before it says which is which.
    """
    training = {**SMALL["training"], "task": "node", "learning_rate": 0.02}
    command("train", experiment(epochs=12, training=training, model={**MODEL, "clock": "linear"}), "--json")
    model, naive, latest = json.loads(capsys.readouterr().out)[0]["test"]
    assert naive["predictor"] == "most frequent label" and naive["accuracy"] < 0.7 and naive["auc"] == 0.5
    assert latest["predictor"] == "latest label of the node"
    assert model["accuracy"] > 0.9 and model["auc"] > 0.95


CONFIGURATION = {
    "sampling": {"layer": 1, "neighbor": [4], "strategy": "uniform", "prop_time": False, "history": 1, "duration": 0, "num_thread": 32},
    "memory": {
        "type": "node", "dim_time": 6, "deliver_to": "self", "mail_combine": "last", "memory_update": "gru", "mailbox_size": 1,
        "combine_node_feature": True, "dim_out": 10,
    },
    "gnn": {"arch": "transformer_attention", "layer": 1, "att_head": 2, "dim_time": 6, "dim_out": 10},
    "train": {"epoch": 7, "batch_size": 60, "lr": 0.002, "dropout": 0.2, "att_dropout": 0.2},
}  # fmt: skip


def configuration(path: Path, **changes: object) -> None:
    """A file of TGL's, with changes to its section `train`."""
    contents = {**CONFIGURATION, "train": {**CONFIGURATION["train"], **changes}}
    path.parent.mkdir(exist_ok=True)
    path.write_text(yaml.safe_dump({section: [entries] for section, entries in contents.items()}))


def test_a_configuration_of_tgl_stands_in_for_keys_that_are_not_there(tmp_path):
    """Relative to the experiment's file, whose own keys win; what is not followed is told."""
    configuration(tmp_path / "config" / "TGN.yml")
    file = tmp_path / "mine.yaml"
    own = {"dataset": "uci_messages", "tgl": "config/TGN.yml", "model": {"hidden": 12}, "training": {"batch_size": 30}}
    file.write_text(yaml.safe_dump(own))
    with pytest.warns(match="tgl: sampling.num_thread: 32 has no bearing on what is trained"):
        experiment = load(file, {"epochs": 3})
    assert (experiment.model.name, experiment.model.hidden, experiment.model.time, experiment.model.dropout, experiment.epochs) == (
        "tgn",
        12,
        6,
        0.2,
        3,
    )
    given = experiment.training
    assert (given.batch_size, given.learning_rate, given.fanout, given.sampling) == (30, 0.002, (4,), "uniform")
    file.write_text(yaml.safe_dump({**own, "model": "jodie"}))  # a name alone
    with pytest.warns(match="tgl"):
        assert load(file).model.name == "jodie"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tgl": "config/none.yml"}, r"tgl: \S+config/none.yml: no such configuration of TGL"),
        ({"tgl": "config/TGN.yml"}, r"tgl: \S+config/TGN.yml: train: batch_size: expected more than 0 \(got 0\)"),
        ({"tgl": 3, "model": "tgn"}, r"tgl: expected text \(got 3\)"),
        ({"tgl": "config/TGN.yml", "model": "t-gcn"}, "tgl: for streams alone, and model 't-gcn' trains on snapshots"),
    ],
)
def test_a_configuration_that_cannot_be_read(tmp_path, capsys, changes, message):
    configuration(tmp_path / "config" / "TGN.yml", batch_size=0)
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump({"dataset": "uci_messages", **changes}))
    command("simulate", tmp_path / "mine.yaml", expect=2)
    assert re.search(message, one_line(capsys))


def of(**training: object) -> dict[str, object]:
    return {"training": {**SMALL["training"], **training}}


def model(**changes: object) -> dict[str, object]:
    return {"model": {**MODEL, **changes}}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"dataset": {"path": "short"}}, "a split needs events in every part, got 2 to train, 0 to validate, 1 to test"),
        ({"dataset": "gdelt"}, "dataset 'gdelt': a paper prints its counts, and its events are not at hand"),
        ({"dataset": "growth_small"}, "dataset 'growth_small' is not a stream of events, and model 'tgn' trains on streams"),
        ({"dataset": {"path": "plain"}, **of(task="node")}, "dataset 'plain' has no labels of events, which node classification needs"),
        ({"dataset": {"path": "below"}, **of(task="node")}, "dataset 'below': label -1 of event"),
        (of(fanout=[]), "training.fanout: model 'tgn' samples neighbours, and needs a number of them"),
        (of(fanout=[0]), "training.fanout.0: expected more than 0 (got 0)"),
        (of(fanout=[3, 3]), "training.fanout: 2 numbers, and 1 layer of the model to sample for"),
        (of(windows=3), "training.windows: 3 of them need a length, training.duration"),
        (of(duration=5), "training.duration: windows of 5 need a number of them above 1, training.windows"),
        (of(windows=3, duration=5), "model 'tgn' has no windows; leave training.windows and training.duration out"),
        (model(name="dysat"), "model 'dysat' attends over windows of time: training.windows says how many, training.duration how long"),
        (model(layers=3), "model 'tgn' has 1 or 2 layers over sampled neighbours, got layers: 3"),
        (model(name="jodie", layers=2), "model 'jodie' aggregates no neighbours and has no layers, got layers: 2"),
        (model(heads=3), "model 'tgn': hidden must be a multiple of heads, got 8 and 3"),
        (model(hidden=1.0), "model.hidden: expected a whole number (got 1.0)"),
        (model(clock="slow"), "model.clock: expected 'gaps', 'linear', 'log' or 'both' (got 'slow')"),
        ({"strategies": ["psg"]}, "strategies: 'psg' is for snapshots, model 'tgn' trains on streams; valid: sequential, tgl, tgl-unique"),
        ({"strategies": ["pgt"]}, "strategies: 'pgt' is for signals, model 'tgn' trains on streams; valid: sequential, tgl, tgl-unique"),
        ({"groups": 3}, "groups: for snapshots alone, and model 'tgn' trains on streams"),
        (of(window=3), "training.window: for signals alone, and model 'tgn' trains on streams"),
        (of(sampling="any"), "training.sampling: expected 'recent' or 'uniform' (got 'any')"),
        (of(split=[0.5]), "training.split.1: required, and not there"),
        (of(split=[0.5, 0.6]), "training.split: expected two shares above 0 with a sum below 1, got [0.5, 0.6]"),
        (
            of(patience=2, validation=False),
            "training.patience: it waits for a better score of the validation, and training.validation leaves that out",
        ),
        (of(cache_ratio=1.5), "training.cache_ratio: expected at most 1 (got 1.5)"),
        (of(cache_ratio=-0.1), "training.cache_ratio: expected at least 0 (got -0.1)"),
        (of(presample=0), "training.presample: expected more than 0 (got 0)"),
        ({"bus": "fast"}, "bus: expected bytes or a size such as 2GB, 512MB or 1.5GiB, got 'fast'"),
        ({"network": "10Gbps"}, "network: expected bytes or a size such as 2GB, 512MB or 1.5GiB, got '10Gbps'"),
        ({"network": 0}, "network: expected bytes or a size such as 2GB, 512MB or 1.5GiB, got 0"),
        ({"network_latency": -1e-6}, "network_latency: expected at least 0 (got -1e-06)"),
        ({"network_latency": 61}, "network_latency: expected at most 60 (got 61)"),
        ({"netwrok": "1GB"}, "unknown key 'netwrok'; did you mean 'network'?"),
        (of(hidden_nodes=0.99), "hiding 17 nodes leaves no event to train on; hide fewer"),
        (
            {"model": "t-gcn", "training": {}, "strategies": ["psg"]},
            STREAM,
        ),
        (
            {"model": "dcrnn", "training": {}, "strategies": ["pgt"]},
            STREAM,
        ),
    ],
)
@pytest.mark.parametrize("order", ["train", "simulate"])
def test_mistakes_are_one_line_and_exit_2(experiment, inline, capsys, changes, message, order):
    command(order, experiment(**changes), expect=2)
    assert message in one_line(capsys)


def test_defaults_are_those_of_streams():
    experiment = check({"dataset": "uci_messages", "model": "tgat"}, "x")
    assert (experiment.training.learning_rate, experiment.training.batch_size, experiment.training.fanout) == (1e-4, 200, (10,))
    assert (experiment.model.hidden, experiment.model.clock, experiment.strategies[-1], experiment.cluster) == (
        100,
        "gaps",
        "tgl-unique",
        "h200",
    )


@pytest.mark.parametrize("name", ["tgat", "dysat", "jodie", "apan", "graphmixer", "dygformer"])
def test_every_model_trains(experiment, inline, capsys, name):
    windows = {"windows": 2, "duration": 300} if name == "dysat" else {}
    command("train", experiment(epochs=1, model={**MODEL, "name": name}, **of(**windows)), "--json")
    (row,) = json.loads(capsys.readouterr().out)
    assert 0 < row["last_ap"] <= 1 and row["test"][0]["predictor"] == name


@pytest.mark.parametrize("names", [("tgl", "fast"), pytest.param(("tgl", "etc", "taser", "simple", "fast"), marks=pytest.mark.slow)])
def test_fast_beside_its_rivals(experiment, inline, capsys, names):
    """Executed, simulated; what differs is what is sent, and the losses are the same."""
    file = experiment(strategies=names, gpus=[1, 4], **of(cache_ratio=0.3, presample=3))
    command("bench", file, "--json")
    rows = json.loads(capsys.readouterr().out)
    assert [row["strategy"] for row in rows] == [*names] and len({row["ap"] for row in rows}) == 1
    losses = [np.load(f"runs/small-bench-1/ranks-1/{name}-losses.npy") for name in names]
    assert all((one == losses[0]).all() for one in losses)
    command("simulate", file, "--json")
    points = json.loads(capsys.readouterr().out)
    assert {(row["strategy"], row["ranks"]) for row in points} == {(name, gpus) for name in names for gpus in (1, 4)}
    command("report", "runs/small-bench-1", "runs/small-simulate-1", "--out", "page")
    assert all(name in Path("page/report.md").read_text() for name in names)


@pytest.mark.parametrize("order", ["train", "bench"])
def test_a_cache_that_does_not_fit_is_refused_with_its_key(experiment, inline, capsys, order):
    changes = {"strategies": ["fast"], "memory": "8000kB", "model": {"name": "tgat", "hidden": 8, "time": 4, "inputs": 2000}}
    command(order, experiment(**changes, **of(cache_ratio=0.9)), expect=2)
    assert re.search(r"out of memory: rank 0 needs .*, 0\.1 MB of it for features \(training\.cache_ratio\), ", one_line(capsys))


@pytest.mark.parametrize("order", ["train", "bench"])
def test_a_topology_that_does_not_parse_is_one_line(experiment, inline, capsys, order):
    Path("cpus").write_text("# CPU,Core,Socket,Node,L1d:L1i:L2:L3\n0,0,0,0,0:0:0:0\n1,one,0,0,1:1:1:0\n")
    command(order, experiment(strategies=["fast"], threads=2, topology="cpus"), expect=2)
    line = one_line(capsys)
    assert "cpus" in line and "line 3" in line


def test_a_machine_without_siblings_says_so(experiment, inline, capsys):
    own = sorted(os.sched_getaffinity(0))
    rows = [f"{cpu},{at},0,0,{at}:{at}:{at}:0" for at, cpu in enumerate(own)]
    Path("cpus").write_text("\n".join(["# CPU,Core,Socket,Node,L1d:L1i:L2:L3", *rows]) + "\n")
    sentence = "fast: sampling threads are not bound: no two of "
    for threads, count in ((2, 1), (1, 0)):  # with one there is nothing to bind
        command("train", experiment(f"t{threads}", strategies=["fast"], threads=threads, topology="cpus", epochs=1))
        assert " ".join(capsys.readouterr().err.split()).count(sentence) == count

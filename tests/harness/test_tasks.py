"""Tasks on snapshots under the commands: what is refused, how many groups train, what is told of scores, training by one schedule."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from command_line import command, killed_at, one_line

from chronoscale.datasets import store
from chronoscale.harness.keys.experiment import Experiment
from chronoscale.harness.keys.experiment_files import check
from chronoscale.harness.keys.snapshots import SnapshotTraining
from chronoscale.harness.workflows.snapshots.data import load_snapshots, workload
from chronoscale.real_exec.training.epoch_record import EpochRecord, epoch_records
from chronoscale.strategies.snapshots.tasks import TASKS

DEGREES = {"task": "degrees", "validation": 0.2, "test": 0.2}  # of 12 snapshots: 2 and 2


def experiment_of(**changes: object) -> Experiment:
    return check({"dataset": {"path": "graphs"}, "model": {"name": "t-gcn", "hidden": 8}, "strategies": ["psg"], **changes}, "test")


def test_the_key_knows_all_tasks():
    assert list(SnapshotTraining.model_fields["task"].annotation.__args__) == list(TASKS)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"training": {"task": "degree"}}, "training.task: expected 'in-degree', 'degrees', 'classes' or 'links' (got 'degree')"),
        ({"training": {"task": "links", "ranked": 0}}, "training.ranked: expected more than 0 (got 0)"),
        ({"training": {"test": -0.1}}, "training.test: expected at least 0"),
        ({"training": {"validation": 1.0}}, "training.validation: expected "),
        ({"training": {"validation": 0.5, "test": 0.5}}, "training.validation, training.test: expected shares of the snapshots with a sum"),
        ({"training": {"test": 0.01}}, "training.test: a share of 0.01 of 12 snapshots is none of them"),
        ({"training": {"test": 0.7}}, "training.validation, training.test: they leave 4 of the 12 snapshots of 'graphs' to train on"),
        (
            {"training": {"task": "degrees", "test": 0.2, "held_nodes": True}},
            "training.held_nodes: holds out classes of nodes, and training.task is 'degrees'; use task: classes",
        ),
        ({"training": {"task": "classes"}}, "training.task: 'classes' predicts classes of nodes, dataset 'graphs' has none"),
        (
            {"training": {"task": "degrees"}, "model": {"name": "t-gcn", "inputs": 5}},
            "model.inputs: training.task: 'degrees' reads 2 numbers a node, got 5",
        ),
        ({"training": DEGREES, "groups": 9}, "groups: 9 need 21 snapshots, dataset 'graphs' has 12, enough for 3 groups"),
    ],
)
def test_mistakes(experiment, capsys, changes, message):
    changes = {"groups": None, "model": {"name": "t-gcn"}, **changes}
    command("bench", experiment(strategies=["psg"], **changes), expect=2)
    assert message in one_line(capsys)


def test_what_reuses_snapshots_trains_on_features_that_change(experiment, inline, capsys):
    """As psg does on the same groups a step."""
    training = {**DEGREES, "groups_per_rank": 2}
    command(
        "bench", experiment(strategies=["psg", "real-reuse"], training=training, model={"name": "t-gcn"}, groups=None, ranks=[1]), "--json"
    )
    rows = {row["strategy"]: row for row in json.loads(capsys.readouterr().out)}
    assert rows["psg"]["mse"] == pytest.approx(rows["real-reuse"]["mse"], rel=1e-4)


def test_a_task_that_makes_its_features_gives_their_width(experiment):
    experiment()
    settings = experiment_of(training=DEGREES)
    assert settings.model.inputs == 2 and workload(settings).model.outputs == 2
    again = check({**settings.model_dump(mode="json")}, "resolved")  # as a run keeps it
    assert again == settings
    assert experiment_of().model.inputs == 64 and workload(experiment_of()).model.outputs == 1


@pytest.mark.parametrize("groups", [1, 2, 3])
def test_groups_are_as_many_as_asked(experiment, groups):
    experiment()
    settings = experiment_of(training=DEGREES, groups=groups)
    assert workload(settings).groups == groups
    length = len(load_snapshots(settings))
    parts = settings.hyper.held.split(length)
    assert len(parts.training) == 4 + groups and parts.validation and parts.test


def trained(experiment, name, **changes):
    """The folder of two epochs with a strategy on one rank."""
    return experiment(strategies=[name], ranks=[1], epochs=2, device="cpu", groups=None, **changes)


@pytest.mark.usefixtures("inline")
@pytest.mark.parametrize("name", ["esdg", "distdgl"])
def test_a_strategy_that_spreads_groups_is_trained(experiment, capsys, name):
    """One stage; scores in the table, in JSON, in words, in files, beside naive ones."""
    command("train", trained(experiment, name, training=DEGREES, model={"name": "t-gcn", "hidden": 4}), "--json")
    output = capsys.readouterr()
    (row,) = json.loads(output.out)
    folder = Path("runs/small-train-1/train")
    errors = [record.scores["mse"] for record in epoch_records(folder)]
    assert (row["stage"], row["strategy"], row["epochs"]) == ("training", name, [0, 1])
    assert (row["best_mse"], row["last_mse"]) == (min(errors), errors[-1])
    test, naive = (json.loads((folder / file).read_text()) for file in ("test.json", "naive.json"))
    assert [list(one.values()) for one in row["test"]] == [["t-gcn", test["mse"]], *([name, one["mse"]] for name, one in naive.items())]
    assert list(naive) == ["last value", "training mean", "linear trend", "mean so far", "exponential smoothing"]
    snapshots = store.load("runs/small-train-1/data/snapshots")
    degrees = np.log1p([[s.in_degree(), s.out_degree()] for s in snapshots])
    assert naive["last value"]["mse"] == pytest.approx(((degrees[10:] - degrees[9:11]) ** 2).mean(), rel=1e-5)
    assert f"the best of 0..1: MSE {test['mse']:.4g}" in " ".join(output.err.split())
    command("report", "runs/small-train-1", "--out", "report")
    assert "MSE" in Path("report/report.md").read_text()


@pytest.mark.usefixtures("inline")
@pytest.mark.parametrize("name", ["psg", "esdg", "flaredtdg"])
def test_links_are_trained(experiment, capsys, name):
    """By REAL's stages or by one schedule: AP, AUC and MRR of every epoch, of the test, and of naive rivals."""
    links = {"task": "links", "validation": 0.2, "test": 0.2, "ranked": 7, "full": 1, "decayed": 2}
    command("train", trained(experiment, name, training=links, model={"name": "t-gcn", "hidden": 4}), "--json")
    output = capsys.readouterr()
    folder = Path("runs/small-train-1/train")
    epochs = [record.scores for record in epoch_records(folder)]
    assert [list(scores) for scores in epochs] == [["ap", "auc", "mrr"]] * 2
    test, naive = (json.loads((folder / file).read_text()) for file in ("test.json", "naive.json"))
    rows = {row["what"] if "what" in row else next(iter(row.values())): row for row in json.loads(output.out)[-1]["test"]}
    assert list(naive)[:2] == ["edges of the last snapshot", "EdgeBank"] and len(naive) == 8 and set(naive) < set(rows)
    for scores in (test, *naive.values()):
        assert list(scores) == ["ap", "auc", "mrr"] and all(0 < value <= 1 for value in scores.values())
    best = max(range(2), key=lambda epoch: epochs[epoch]["ap"])
    assert f"AP {test['ap']:.4g}" in " ".join(output.err.split()) and json.loads((folder / "ended.json").read_text())["best"] == best


def test_what_does_not_gather_nodes_refuses_links(experiment, capsys):
    command("simulate", experiment(strategies=["dynahb"], training={"task": "links"}, groups=None), expect=2)
    line = one_line(capsys)
    assert "strategies: 'dynahb' does not gather the nodes of a snapshot, and training.task: 'links' needs both ends" in line
    valid = line.partition("valid: ")[2].split(", ")
    assert {"psg", "esdg", "distdgl", "real-g+", "flaredtdg"} < set(valid) and not {"dynagraph", "dynahb", "dgc"} & set(valid)


@pytest.mark.usefixtures("inline")
def test_a_bench_shows_the_test(experiment, capsys):
    made = {
        "dataset": "communities_small",
        "training": {"task": "classes", "test": 0.2},
        "model": {"name": "t-gcn", "hidden": 4, "inputs": 16},
    }
    file = experiment(strategies=["psg", "esdg", "distdgl"], ranks=[1], repeats=2, device="cpu", groups=2, **made)
    command("bench", file, "--json")
    rows = json.loads(capsys.readouterr().out)
    (first, *others) = [row["accuracy"] for row in rows]
    assert 0 < first < 1 and others == pytest.approx([first] * 2, abs=2e-3)


def test_classes_of_a_dataset_are_printed(experiment, capsys):
    command("data", "info", "communities_small", "--json")
    facts = {row["what"]: row["value"] for row in json.loads(capsys.readouterr().out)}
    assert (facts["classes"], facts["labelled nodes"]) == (8, 480)


def test_a_lost_training_by_one_schedule_goes_on(experiment, lose, capsys):
    """The same command goes on after the epochs that are kept, and ends at the weights of a run that nothing happened to."""
    made = {"training": DEGREES, "model": {"name": "t-gcn", "hidden": 4}, "groups": None}
    file, whole = (experiment(stem, strategies=["esdg"], ranks=[1], epochs=5, device="cpu", **made) for stem in ("lost", "whole"))
    lose(2)
    command("train", file, expect=1)
    assert "rank 0 of 'train' was lost (SIGKILL); 2 of 5 epochs are kept, the same command goes on after them" in one_line(capsys)
    before = epoch_records(Path("runs/lost-train-1/train"))
    command("train", file)
    assert "taking up runs/lost-train-1" in capsys.readouterr().err
    command("train", whole)
    goes_on_as_if_nothing_happened("lost", before)


@pytest.mark.slow
def test_a_killed_training_by_one_schedule_resumes(experiment, capsys):
    """Two ranks and their command, killed; the same command goes on and ends at the weights of a run that nothing happened to."""
    made = {"training": DEGREES, "model": {"name": "t-gcn", "hidden": 4}, "groups": None}
    file, whole = (experiment(stem, strategies=["esdg"], ranks=[2], epochs=60, device="cpu", **made) for stem in ("killed", "whole"))
    folder = Path("runs/killed-train-1/train")
    killed_at(lambda: len(list(folder.glob("epochs/*.json"))) >= 3, "train", file)
    before = epoch_records(folder)
    assert 3 <= len(before) < 60
    command("train", file)
    assert "taking up runs/killed-train-1" in capsys.readouterr().err
    command("train", whole)
    goes_on_as_if_nothing_happened("killed", before)


def goes_on_as_if_nothing_happened(name: str, before: list[EpochRecord]) -> None:
    """The run of that name against the one named whole: what was trained was not trained anew, but for an epoch without a checkpoint."""
    folder, whole = (Path(f"runs/{stem}-train-1/train") for stem in (name, "whole"))
    after, sound = epoch_records(folder), epoch_records(whole)
    assert len(after) == len(sound) and [r.start_ns for r in after[: len(before) - 1]] == [r.start_ns for r in before[:-1]]
    np.testing.assert_allclose([r.losses for r in after], [r.losses for r in sound], rtol=1e-5)
    assert json.loads((folder / "test.json").read_text()) == pytest.approx(json.loads((whole / "test.json").read_text()), rel=1e-5)
    one, other = (torch.load(train / "checkpoint.pt", weights_only=True)["model"] for train in (folder, whole))
    for name_, value in one.items():
        torch.testing.assert_close(value, other[name_])

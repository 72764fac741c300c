"""Live evaluation: test snapshots that are trained on once they are scored, against dense matrices and against what was not known then."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from command_line import command, one_line
from dense_trainer import DenseTrainer

from chronoscale.batching.snapshots.held_out import HeldOut
from chronoscale.datasets.generate.communities import CommunityGraph
from chronoscale.datasets.snapshots.sequence import SnapshotSequence
from chronoscale.errors import UserError
from chronoscale.real_exec.communication.collective import SingleRankCollective
from chronoscale.real_exec.execution.context import Context
from chronoscale.real_exec.job import Settings
from chronoscale.real_exec.snapshots.evaluation import GroupEvaluation, RunningEvaluation
from chronoscale.real_exec.snapshots.live_evaluation import LiveEvaluation
from chronoscale.real_exec.snapshots.material import SnapshotMaterial
from chronoscale.real_exec.snapshots.model import SnapshotModel
from chronoscale.strategies.snapshots.models import MODELS, model_shape
from chronoscale.strategies.workload import Hyper

GRAPHS = CommunityGraph(nodes=40, edges=160, snapshots=14, classes=3, features=5, seed=2).sequence()
HELD = HeldOut(0.2, 0.3, live=3)  # of 14 snapshots the last 4 test
PART = HELD.split(14).test
RATE = 0.02
CONTEXT = Context(Settings(learning_rate=RATE, device="cpu"))


def made(model: str, horizon: int = 1, task: str = "degrees") -> tuple[SnapshotModel, Hyper]:
    shape = model_shape(model, 2 if task == "degrees" else 5, 8, 2, 16 if task == "links" else 2)
    return SnapshotModel(shape, 4), Hyper(3, horizon=horizon, task=task, held=HELD)


def live(
    net: SnapshotModel, hyper: Hyper, running: bool, sequence: SnapshotSequence = GRAPHS, part: range = PART, context: Context = CONTEXT
) -> Mapping[str, float]:
    material = SnapshotMaterial(sequence, net.shape.inputs, weighted=net.shape.spatial == "gcn", task=hyper.task, hyper=hyper)
    return LiveEvaluation(material, hyper, context, running).scores(net, part)


@pytest.mark.parametrize("horizon", [1, 2])
@pytest.mark.parametrize("model", MODELS)
def test_groups_are_scored_and_trained_on_as_dense_matrices_are(model: str, horizon: int) -> None:
    """A snapshot is trained on before the first prediction that is made when it is known, not earlier. The model is as before."""
    net, hyper = made(model, horizon)
    oracle = DenseTrainer(GRAPHS, torch.zeros(40, 5), net, hyper)
    optimizer = torch.optim.Adam(oracle.model.parameters(), RATE)

    def predicted(goal: int) -> torch.Tensor:
        last = goal - horizon
        return oracle.model.readout(oracle.outputs(range(last - 2, last + 1))[-1])

    errors = []
    for goal in PART:
        if goal - horizon in PART:
            for _ in range(3):
                optimizer.zero_grad()
                oracle.error(predicted(goal - horizon), goal - horizon).backward()
                optimizer.step()
        with torch.no_grad():
            errors.append(float(oracle.error(predicted(goal), goal)))
    before = copy.deepcopy(net.state_dict())
    assert live(net, hyper, running=False) == {"mse": pytest.approx(np.mean(errors), rel=1e-4)}
    assert all(torch.equal(value, before[key]) for key, value in net.state_dict().items()) and net.training


@pytest.mark.parametrize("running", [False, True])
@pytest.mark.parametrize("task", ["degrees", "links"])
def test_nothing_is_known_before_its_time(task: str, running: bool) -> None:
    """Other snapshots from some time on change no score before; the first prediction is that without training, the second is not."""
    net, hyper = made("t-gcn", task=task)
    changed = [
        snapshot if t < PART.start + 2 else other for t, (snapshot, other) in enumerate(zip(GRAPHS, reversed(list(GRAPHS)), strict=True))
    ]
    other = replace(SnapshotSequence.from_snapshots(changed), features=GRAPHS.features, classes=GRAPHS.classes)
    until = range(PART.start, PART.start + 2)
    assert live(net, hyper, running, GRAPHS, until) == live(net, hyper, running, other, until)
    assert live(net, hyper, running, GRAPHS, PART) != live(net, hyper, running, other, PART)
    material = SnapshotMaterial(GRAPHS, net.shape.inputs, weighted=True, task=task, hyper=hyper)
    plain = (RunningEvaluation if running else GroupEvaluation)(material, hyper, CONTEXT)
    first = range(PART.start, PART.start + 1)
    assert live(net, hyper, running, part=first) == pytest.approx(plain.scores(net, first))
    assert live(net, hyper, running, part=until) != pytest.approx(plain.scores(net, until), rel=1e-4)


class Second(SingleRankCollective):
    """The second of two ranks, which adds nothing."""

    ranks = 2

    def all_reduce(self, values: torch.Tensor) -> None:
        assert not values.any()


def test_one_rank_does_it() -> None:
    net, hyper = made("t-gcn")
    live(net, hyper, running=True, context=replace(CONTEXT, rank=1, collective=Second()))


def test_a_training_is_tested_live(inline, experiment, capsys) -> None:
    """Validation is as without; the test is another, and the setting says so."""
    keys = {"strategies": ["esdg"], "ranks": [1], "epochs": 2, "device": "cpu", "groups": None}
    shares = {"task": "degrees", "validation": 0.2, "test": 0.3}
    scores = {}
    for steps in (0, 2):
        command("train", experiment(**keys, training={**shares, "live": steps}, model={"name": "t-gcn", "hidden": 4}), "--json")
        (row,) = json.loads(capsys.readouterr().out)
        test = json.loads(Path(f"runs/small-train-{1 + steps // 2}/train/test.json").read_text())
        scores[steps] = row["best_mse"], test["mse"]
    assert scores[0][0] == scores[2][0] and scores[0][1] != scores[2][1]
    for steps in (0, 2):  # at the rate of the last epoch, which is next to nothing
        slow = {**shares, "live": steps, "milestones": [1], "milestone_factor": 1e-12}
        command("train", experiment(f"slow-{steps}", **keys, training=slow, model={"name": "t-gcn", "hidden": 4}))
        scores[steps] = json.loads(Path(f"runs/slow-{steps}-train-1/train/test.json").read_text())["mse"]
    assert scores[0] == pytest.approx(scores[2], rel=1e-6)
    command("train", experiment(**keys, training={"live": 1}), expect=2)
    assert "training.live: steps on test snapshots, and nothing tests; set training.test" in one_line(capsys)
    with pytest.raises(UserError, match="nothing tests"):
        HeldOut(0.2, 0.0, live=1)

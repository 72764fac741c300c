"""Soundness: the first number of training that is not finite ends it, on all ranks, and is named."""

from pathlib import Path

import pytest
import torch
from notation import write
from torch import nn

from chronoscale.datasets import store
from chronoscale.datasets.generate.growth import GrowthGraph
from chronoscale.datasets.snapshots.statistics import statistics_of
from chronoscale.errors import NotFiniteError
from chronoscale.real_exec.execution.context import Context
from chronoscale.real_exec.execution.interpreter import execute
from chronoscale.real_exec.execution.lanes import CpuLanes
from chronoscale.real_exec.execution.nonfinite import NonFiniteValue
from chronoscale.real_exec.execution.passes import Pass
from chronoscale.real_exec.execution.program import EpochResult
from chronoscale.real_exec.job import Item, Job, Settings
from chronoscale.real_exec.measurement.collectives import CollectiveProgram
from chronoscale.real_exec.ranks.launch import launch
from chronoscale.real_exec.snapshots.material import SnapshotMaterial
from chronoscale.real_exec.training.learner import Learner
from chronoscale.real_exec.worker import run_job
from chronoscale.strategies.costs import UNUSED
from chronoscale.strategies.planning.builder import Builder
from chronoscale.strategies.registry import strategy
from chronoscale.strategies.snapshots.models import model_shape
from chronoscale.strategies.workload import Hyper, ModelChoice, Workload

GRAPHS = GrowthGraph.rmat(32, 120, 12, 0.1, 1).sequence().without_self_edges()
WORK = Workload("w", statistics_of(GRAPHS), model_shape("t-gcn", 4, 4), Hyper())


def job(folder: Path, name: str = "psg", ranks: int = 1, module: str = "", **settings: object) -> Job:
    store.save(folder / "data", GRAPHS)
    strategy(name).plan(WORK, ranks, UNUSED).save(folder / "schedule.parquet")
    item = Item(name, str(folder / "schedule.parquet"), str(folder / "data"), Hyper())
    modules = ()
    if module:
        (folder / "fault.py").write_text(module)
        modules = (str(folder / "fault.py"),)
    choice = ModelChoice("t-gcn", 4, 1, 4)
    return Job("job", (item,), str(folder), choice, 1, settings=Settings(device="cpu", **settings), modules=modules)


def test_a_rate_that_is_too_large_ends_training_at_its_step(tmp_path: Path) -> None:
    """Nothing of the pass is kept; the second step sees what the first one made of the parameters."""
    message = r"^strategy 'psg', rank 0, iteration 1, pass 0: the loss is not finite; a smaller training.learning_rate may help$"
    with pytest.raises(NotFiniteError, match=message):
        run_job(job(tmp_path, learning_rate=1e30))


def test_an_input_comes_before_the_loss_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SnapshotMaterial, "target", lambda self, snapshot: torch.full((32, 1), torch.inf if snapshot == 5 else 0.0))
    with pytest.raises(NotFiniteError, match="rank 0, iteration 1, pass 0: an input is not finite"):
        run_job(job(tmp_path))


FAULT = """
import torch
from chronoscale.real_exec.snapshots.model import SnapshotModel
sound, steps = SnapshotModel.loss, []

def loss(self, output, target, aim, place=None):
    steps.append(None)
    there = torch.distributed.get_rank() == 1 and len(steps) == 3
    return {put}

SnapshotModel.loss = loss
"""


@pytest.mark.parametrize(
    ("put", "message"),
    [
        ("sound(self, output, target, aim) * (float('nan') if there else 1)", "rank 1, iteration 2, pass 0: the loss is not finite"),
        (  # sqrt has no slope at zero
            "sound(self, output, target, aim) + ((self.readout.weight * 0).sum().abs().sqrt() if there else 0)",
            "rank 1, iteration 2, pass 0: the gradient of readout.weight is not finite",
        ),
        ("sound(self, output, target, aim) + (float('inf') if there else 0)", "rank 1, iteration 2, pass 0: the loss is not finite"),
    ],
)
def test_the_rank_that_was_first_is_named_and_all_end(tmp_path: Path, put: str, message: str) -> None:
    """Two processes; one number of rank 1 alone goes wrong, in its third step. An infinite loss may leave its gradients finite."""
    with pytest.raises(NotFiniteError, match=f"strategy 'psg', {message}"):
        launch(job(tmp_path, ranks=2, module=FAULT.format(put=put)), 2, tmp_path)
    assert not list(tmp_path.glob("*-losses.npy"))


def learner(later: bool) -> Learner[nn.Module]:
    result = Learner[nn.Module](nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1)), Context(), 2)
    result.later = later
    return result


@pytest.mark.parametrize("later", [False, True])
def test_a_gradient_is_named(later: bool) -> None:
    """At once, or, as on a GPU, when the pass has ended: the first step that was wrong, whatever came after it."""
    first = learner(later)
    first.step(0)
    first.gradients[6] = torch.nan  # the second layer's first weight
    with pytest.raises(NonFiniteValue, match=r"the gradient of 1\.weight") as result:
        first.step(1)
        first.gradients[0] = torch.inf
        first.step(2)
        first.check()
    assert result.value.iteration == 1 and result.value.own


def test_a_parameter_is_looked_at_after_the_last_step() -> None:
    first = learner(False)
    first.step(0)
    first.check()
    with torch.no_grad():
        next(first.model.parameters())[0, 0] = torch.inf
    with pytest.raises(NonFiniteValue, match=r"parameter 0\.weight after the last step"):
        first.check()


def test_on_a_gpu_nothing_is_read_before_the_pass_has_ended() -> None:
    first = learner(True)
    first.gradients[0] = torch.nan
    first.step(0)
    with pytest.raises(NonFiniteValue):
        first.check()


class Ended(CollectiveProgram):
    """A pass without rows that has come to this."""

    def __init__(self, result: EpochResult, wrong: NonFiniteValue | None = None) -> None:
        super().__init__(Builder("p", 1).finish(), Context())
        self.result, self.wrong = result, wrong

    def check(self) -> None:
        if self.wrong is not None:
            raise self.wrong

    def finish(self) -> EpochResult:
        return self.result


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_pass_is_looked_at_when_it_has_ended(bad: float) -> None:
    """Parameters, losses whose gradients were finite, and scores, of which some may be undefined: there may be nothing to take them of."""
    schedule = write("o: OPTIMIZE@COMPUTE\np: OPTIMIZE@COMPUTE iteration=1").schedule

    def run(result: EpochResult, wrong: NonFiniteValue | None = None) -> Pass:
        return execute(schedule, Ended(result, wrong), CpuLanes(False), "cpu", "pass 3")

    for result, wrong, message in (
        (EpochResult({0: 1.0}), NonFiniteValue(None, "parameter w after the last step"), "parameter w after the last step"),
        (EpochResult({0: 1.0, 1: bad}), None, "iteration 1, pass 3: the loss"),
        (EpochResult({0: 1.0}, {"mae": 1.0, "rmse": bad, "mape": 0.1}), None, "pass 3: the validation RMSE"),
        (EpochResult({0: 1.0}, {"ap": 0.5, "mrr": bad}), None, "pass 3: the validation MRR"),
    ):
        with pytest.raises(NotFiniteError, match=f"{message}.* not finite"):
            run(result, wrong)
    for scores in ({"mae": 1.0, "rmse": 2.0, "mape": bad}, {"ap": 0.5, "ap_new": bad}):  # a share of zero is none
        done = run(EpochResult({0: 1.0, 1: 2.0}, scores))
        assert done.losses.tolist() == [1.0, 2.0] and done.scores == scores
    with pytest.raises(ValueError, match="'precision' is no score; there are mae, rmse,"):
        EpochResult({}, {"precision": 1.0})

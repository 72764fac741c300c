"""What executes a schedule is found by its kind; gradients lie in one buffer; jobs come back from their files as they were."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

from chronoscale.errors import UserError
from chronoscale.real_exec.binding import KINDS, bind_program, run_preparation
from chronoscale.real_exec.execution.context import Context
from chronoscale.real_exec.execution.interpreter import execute
from chronoscale.real_exec.execution.lanes import CpuLanes
from chronoscale.real_exec.job import Item, Job, Settings
from chronoscale.real_exec.measurement.collectives import MESSAGES, all_reduces
from chronoscale.real_exec.training.epoch_loop import train
from chronoscale.real_exec.training.learner import Learner
from chronoscale.strategies.workload import Hyper, ModelChoice

ITEM, MODEL = Item("x", "", "", Hyper()), ModelChoice("wd-gcn")


def test_every_kind_has_a_program_and_another_is_refused() -> None:
    assert set(KINDS) == {
        "collectives",
        "groups",
        "snapshots",
        "parts",
        "blocks",
        "sampled",
        "hybrid",
        "windows",
        "preparation",
        "events",
        "spread",
    }
    with pytest.raises(UserError, match="is of kind 'modelled', which this version cannot execute"):
        bind_program(ITEM, replace(all_reduces(1), kind="modelled"), MODEL, Context())
    for kind, message in (("parts", "names no partition"), ("preparation", "names no preparation")):
        with pytest.raises(UserError, match=message):
            bind_program(ITEM, replace(all_reduces(1), kind=kind), MODEL, Context())


def test_collectives_alone_train_nothing() -> None:
    schedule = all_reduces(1)
    done = execute(schedule, bind_program(ITEM, schedule, MODEL, Context()), CpuLanes(False), "cpu")
    assert len(done.trace) == len(MESSAGES) and not done.losses.any()
    assert run_preparation(ITEM, MODEL, Context()) == []


def test_a_kind_that_is_not_trained_epoch_after_epoch(tmp_path: Path) -> None:
    all_reduces(1).save(tmp_path / "schedule.parquet")
    item = replace(ITEM, schedule=str(tmp_path / "schedule.parquet"))
    with pytest.raises(UserError, match="of kind 'collectives', which is not trained epoch after epoch"):
        train(Job("x", (item,), str(tmp_path), MODEL, 1))


def test_a_context_shares_what_was_made_and_admits_its_own_number_of_ranks() -> None:
    context = Context()
    assert context.share("key", lambda: [1]) is context.share("key", lambda: [2])
    with pytest.raises(UserError, match="is for 2 ranks, 1 are running"):
        context.require_ranks(all_reduces(2))


def test_gradients_and_sums_are_one_buffer() -> None:
    class Doubling:
        ranks = 2

        def all_reduce(self, values: torch.Tensor) -> None:
            values *= 2

        def barrier(self) -> None:
            pass

    learner = Learner(nn.Linear(3, 2), Context(Settings(learning_rate=0.5), collective=Doubling()), sums=2)
    learner.model(torch.ones(1, 3)).sum().backward()
    learner.sums.copy_(torch.tensor([3.0, 4.0]))
    learner.all_reduce()
    assert learner.gradients.tolist() == [2.0] * 8 and learner.sums.tolist() == [6.0, 8.0]
    before = [parameter.detach().clone() for parameter in learner.model.parameters()]
    learner.step(0)
    assert all(torch.allclose(old - new, torch.tensor(0.5)) for old, new in zip(before, learner.model.parameters(), strict=True))
    assert not learner.gradients.any() and not learner.sums.any()
    learner.model(torch.ones(1, 3)).sum().backward()
    assert learner.gradients.tolist() == [1.0] * 8, "parameters keep their views"


def test_a_job_comes_back_from_its_file(tmp_path: Path) -> None:
    item = Item("x", "s", "d", Hyper(fanout=(3, 2)), "p", "q")
    job = Job("x", (item,), "o", ModelChoice("dcrnn", 3, hops=1), 4, 1, Settings(2, 0.1, 7, "cpu", True))
    job.save(tmp_path / "job.json")
    assert Job.load(tmp_path / "job.json") == job

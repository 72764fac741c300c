"""What tests of commands share."""

import pytest
from one_rank import here

from chronoscale.harness import execution, profiles
from chronoscale.harness.signals import training as signals
from chronoscale.harness.streams import training as streams
from chronoscale.real_exec.job import Job
from chronoscale.real_exec.training import train


@pytest.fixture
def inline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs and training of one rank run in this process."""
    for module in (execution, profiles):
        monkeypatch.setattr(module, "launch", here)
    for family in (signals, streams):
        monkeypatch.setattr(family, "start", lambda entry, path, ranks, threads: path)
        monkeypatch.setattr(family, "wait", lambda path, name: train(Job.load(path)))

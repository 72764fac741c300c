"""What tests of commands share."""

import pytest
from one_rank import here

from chronoscale.harness import calibration, epochs, execution
from chronoscale.real_exec.job import Job
from chronoscale.real_exec.training import train


@pytest.fixture
def inline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs and training of one rank run in this process."""
    for module in (execution, calibration):
        monkeypatch.setattr(module, "launch", here)
    monkeypatch.setattr(epochs, "start", lambda entry, path, ranks, threads: path)
    monkeypatch.setattr(epochs, "wait", lambda path, name, patience: train(Job.load(path)))

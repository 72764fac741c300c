"""What tests of commands share."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
import torch
from one_rank import here

from chronoscale.errors import MachineError
from chronoscale.harness import calibration, epochs, execution
from chronoscale.harness.snapshots import control_plane
from chronoscale.real_exec import checkpoint, training
from chronoscale.real_exec.checkpoint import EpochRecord
from chronoscale.real_exec.job import Job
from chronoscale.real_exec.learner import Learner


@pytest.fixture
def inline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs and training of one rank run in this process."""
    for module in (execution, calibration):
        monkeypatch.setattr(module, "launch", here)
    for module in (epochs, control_plane):
        monkeypatch.setattr(module, "start", lambda entry, path, ranks, threads: path)
        monkeypatch.setattr(module, "wait", lambda path, name, *_: training.train(Job.load(path)))


@pytest.fixture
def lose(inline: None, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """A function: training in this process is lost once so many epochs are kept, while it writes the next one's checkpoint."""

    def after(epochs: int) -> None:
        def keep(folder: Path, record: EpochRecord, learner: Learner, kept: Mapping[str, torch.Tensor]) -> None:
            if record.epoch == epochs:
                monkeypatch.setattr(training, "keep", checkpoint.keep)
                (folder / ".checkpoint.pt").write_bytes(b"half")
                (folder.parent / ".lock").unlink()  # a process that is killed holds it no longer
                raise MachineError("rank 0 of 'train' was lost (SIGKILL)")
            checkpoint.keep(folder, record, learner, kept)

        monkeypatch.setattr(training, "keep", keep)

    return after

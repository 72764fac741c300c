"""Epochs of a training, each kept as it ends."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from chronoscale.errors import MachineError
from chronoscale.real_exec.job import Job
from chronoscale.real_exec.ranks.launch import launch
from chronoscale.real_exec.training.epoch_loop import ENTRY
from chronoscale.real_exec.training.epoch_record import epoch_records


@contextmanager
def telling_what_is_kept(job: Job) -> Iterator[None]:
    """Have a MachineError of the ranks that train a job say how many of its epochs are saved."""
    try:
        yield
    except MachineError as error:
        complete = len(epoch_records(Path(job.out)))
        raise MachineError(f"{error}; {complete} of {job.repeats} epochs are kept, the same command goes on after them") from None


def run_epochs(job: Job, ranks: int) -> None:
    """Start ranks that train one item of a job for `chronoscale train`, after the last whole epoch in its folder, and wait for them; one
    process, where they are virtual.

    The job's repeats are the number of epochs. Raises MachineError when a rank is lost, and says how many epochs are saved.
    """
    folder = Path(job.out)
    (folder / "epochs").mkdir(parents=True, exist_ok=True)
    with telling_what_is_kept(job):
        launch(job, 1 if job.settings.virtual else ranks, folder, entry=ENTRY)

"""What tests of commands share."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO

import pytest
import torch
from command_line import command
from matplotlib.figure import Figure
from matplotlib.text import Text
from one_rank import inline_ranks

from chronoscale.errors import MachineError
from chronoscale.real_exec.training import checkpoint, epoch_loop
from chronoscale.real_exec.training.epoch_record import EpochRecord
from chronoscale.real_exec.training.learner import Learner


@pytest.fixture(autouse=True)
def sketched(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures are painted but not rendered, which would be half of a report's time; tests/reports renders them, and slow tests here."""

    def savefig(figure: Figure, file: IO[str] | IO[bytes], *, format: str, **_: object) -> None:
        words = " ".join(text.get_text() for text in figure.findobj(Text))
        file.write(f"<svg>{words}</svg>" if format == "svg" else b"")  # type: ignore[arg-type]

    if request.node.get_closest_marker("slow") is None:
        monkeypatch.setattr(Figure, "savefig", savefig)


@pytest.fixture
def inline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs and training of one rank run in this process."""
    inline_ranks(monkeypatch)


@pytest.fixture
def lose(inline: None, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """A function: training in this process is lost once so many epochs are kept, while it writes the next one's checkpoint."""

    def after(epochs: int) -> None:
        def keep(folder: Path, record: EpochRecord, learner: Learner, state: Mapping[str, torch.Tensor]) -> None:
            if record.epoch == epochs:
                monkeypatch.setattr(epoch_loop, "save_epoch", checkpoint.save_epoch)
                (folder / ".checkpoint.pt").write_bytes(b"half")
                next(
                    lock for parent in folder.parents if (lock := parent / ".lock").exists()
                ).unlink()  # a process that is killed holds it no longer
                raise MachineError("rank 0 of 'train' was lost (SIGKILL)")
            checkpoint.save_epoch(folder, record, learner, state)

        monkeypatch.setattr(epoch_loop, "save_epoch", keep)

    return after


@pytest.fixture
def advised(experiment, capsys):
    """Return the output of `advise --json` for an experiment."""

    def ask(*arguments: object, stem: str = "small", expect: int = 0, **changes: object) -> dict:
        file = experiment(stem, **{"strategies": ["psg", "real-g+"], "gpus": [1, 4], **changes})
        capsys.readouterr()
        command("advise", file, "--json", *arguments, expect=expect)
        return json.loads(capsys.readouterr().out) if not expect else {}

    return ask

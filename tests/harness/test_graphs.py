"""`launch: graph` as its user meets it: refused on a CPU; on a GPU, which is pretended, what ran as graphs, and what did not and why."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from command_line import command, one_line
from emulation import compiler, library
from pretended import pretended

from chronoscale.harness import calibration, machine
from chronoscale.strategies.schedule import Op
from chronoscale.strategies.trace import Trace

SNAPSHOTS = """
dataset: growth_small
model: {name: wd-gcn, hidden: 8}
training: {stride: 2, group_size: 3}
groups: 4
strategies: [psg, flaredtdg]
ranks: [1]
repeats: 2
profile_epochs: 0.1
launch: graph
"""


@pytest.fixture
def gpu(inline: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """One GPU, ranks in this process."""
    monkeypatch.setattr(machine, "gpus", lambda: 1)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _=None: (8 << 30, 8 << 30))
    monkeypatch.setattr(calibration, "launch_ns", lambda _: 5_000)
    with pretended(library()) as findings:
        yield
    assert not findings, str(findings)


def written(folder: Path, text: str) -> Path:
    path = folder / "graphs.yaml"
    path.write_text(text)
    return path


@pytest.mark.parametrize("name", ["bench", "validate", "profile"])
def test_without_a_gpu_it_is_refused_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    command(name, written(tmp_path, SNAPSHOTS), "--runs", tmp_path / "runs", expect=2)
    assert one_line(capsys).startswith("error: launch: graph is of a GPU, and this would run on the CPU")


@pytest.mark.skipif(compiler() is None, reason="the kernels are emulated, which needs a C++ compiler")
def test_it_is_validated_by_iterations(gpu: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command("validate", written(tmp_path, SNAPSHOTS), "--runs", tmp_path / "runs")
    assert 0

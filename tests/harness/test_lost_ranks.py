"""Each way to lose or hang a rank, seen by who typed a command: one line within its limit, nothing left, and training that goes on."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest
from command_line import command, one_line
from rank_families import Write, families_in

from chronoscale.real_exec.ranks import rank_group as handle
from chronoscale.real_exec.training.epoch_record import epoch_records

WAYS = {
    "SIGKILL": r"rank 1 of 'train' was lost \(SIGKILL\) at row \d+ \(\w+\), train: epoch 2 of 3; 1 of 3 epochs are kept, .*",
    "SIGSEGV": r"rank 1 of 'train' was lost \(SIGSEGV\) at row \d+ \(\w+\), train: epoch 2 of 3; 1 of 3 epochs are kept, .*",
    "SIGSTOP": r"'train' was ended: rank 1 has not moved for \d s, it is stopped, at row \d+ \(\w+\), train: epoch 2 of 3; "
    r"rank 0 waits .*, train: epoch 2 of 3; 1 of 3 epochs are kept, .*",
    "memory": r"rank 1 of 'train' is out of memory: .*; 1 of 3 epochs are kept, .*",
    "raise": r"rank 1 of 'train' failed: ValueError: odd \(at row \d+ \(\w+\), train: epoch 2 of 3\); its traceback: .*; 1 of 3 epochs .*",
    "leave out": r"'train' was ended: ranks have waited for each other for \d s; rank 0 waits at row .*; rank 1 waits at row \d+ "
    r"\((ALLREDUCE|ALLGATHER|ALLTOALL)\), train: epoch 2 of 3; 1 of 3 epochs are kept, .*",
}


LIMIT_S = 15.0  # from the loss of a rank to the end of the command, where a rank hangs after two; also on a loaded machine
WHOLE = dict[tuple[str, int], list[tuple[float, ...]]]()  # losses of trainings that lose no rank, by family and seed


@pytest.fixture
def experiment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    return families_in(tmp_path)


def losses(run: str) -> list[tuple[float, ...]]:
    return [record.losses for record in epoch_records(Path(run) / "train")]


def left() -> list[object]:
    """Processes of the servers of this one, which have a session each, and what lies where they make their folders, but for tracebacks and
    torch's own cache."""
    servers, results = {server.pid for server in handle._servers.values()}, list[object]()
    for pid in set(psutil.pids()) - servers:
        with suppress(OSError):
            if os.getsid(pid) in servers:
                results.append(psutil.Process(pid))
    return results + [
        path for path in Path(tempfile.gettempdir()).iterdir() if not path.name.startswith(("chronoscale-traceback-", "torchinductor_"))
    ]


def lose(experiment: Write, capsys: pytest.CaptureFixture[str], family: str, way: str) -> None:
    path, number = experiment(family), len(list(Path("runs").glob("*-train-*"))) + 1
    Path("how").write_text(way)
    command("train", path, "--seed", number, expect=1)
    took = time.monotonic() - float(Path("lost").read_text())
    line = one_line(capsys)
    assert not Path("how").exists() and not left()
    assert took < LIMIT_S, f"told {took:.1f} s after the loss"
    assert re.fullmatch(f"error: {WAYS[way]}", line), line
    (Path("runs") / f"{family}-train-{number}" / ".lock").unlink()  # a command that has ended holds it no longer; this process goes on
    command("train", path, "--seed", number)
    capsys.readouterr()
    lost = losses(f"runs/{family}-train-{number}")
    if (family, number) not in WHOLE:
        command("train", path, "--seed", number, "--runs", f"whole-{number}")
        WHOLE[family, number] = losses(f"whole-{number}/{family}-train-1")
    assert len(lost) == 3 and lost == WHOLE[family, number]


@pytest.mark.sample(3)
@pytest.mark.parametrize("way", WAYS)
def test_a_rank_that_is_lost_ends_training_which_goes_on(experiment, capsys, way: str) -> None:
    family = ("snapshots", "streams")[list(WAYS).index(way) % 2]
    lose(experiment, capsys, family, way)


@contextmanager
def loaded() -> Iterator[None]:
    """Two processes for every processor, that never rest."""
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2 * (os.cpu_count() or 1))]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


@pytest.mark.slow
@pytest.mark.parametrize("family", ["snapshots", "streams"])
@pytest.mark.parametrize("way", WAYS)
def test_each_way_twenty_times_on_a_loaded_machine(experiment, capsys, family: str, way: str) -> None:
    with loaded():
        for _ in range(20):
            lose(experiment, capsys, family, way)

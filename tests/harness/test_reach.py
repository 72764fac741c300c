"""Commands on two ranks, from outside: nothing of theirs listens but on loopback, and Ctrl-C ends them in one line."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from subprocess import DEVNULL, PIPE

import forked
import psutil
import pytest
import yaml
from command_line import command
from rank_families import FAMILIES, Write, families_in

from chronoscale.real_exec.ranks.supervision import Watch


@pytest.fixture
def experiment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    monkeypatch.chdir(tmp_path)
    return families_in(tmp_path)


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Addresses that this process and its children, ranks included, listen on, whenever somebody looks at how ranks are."""
    reached = set[str]()
    look: Callable[..., str] = Watch.look

    def listening(watch: Watch, ended: dict[int, int]) -> str:
        for process in (psutil.Process(), *psutil.Process().children(recursive=True)):
            try:
                reached.update(one.laddr.ip for one in process.net_connections("tcp") if one.status == psutil.CONN_LISTEN)
            except psutil.Error:
                continue  # it has ended
        return look(watch, ended)

    monkeypatch.setattr(Watch, "look", listening)
    monkeypatch.setattr("chronoscale.real_exec.ranks.launch.LOOK_S", 0.01)
    return reached


@pytest.mark.parametrize(
    ("what", "family", "changes"),
    [
        ("bench", "snapshots", {"strategies": ["psg", "esdg"]}),
        ("train", "streams", {}),
        ("bench", "signals", {}),
        pytest.param("bench", "signals", {"strategies": ["ddp"]}, marks=pytest.mark.slow),  # Dask's workers start by and by
    ],
)
def test_what_listens_is_on_loopback(experiment: Write, heard: set[str], what: str, family: str, changes: dict[str, object]) -> None:
    path = experiment(family)
    path.write_text(yaml.safe_dump({**yaml.safe_load(path.read_text()), **changes}))
    command(what, path)
    assert heard and heard <= {"127.0.0.1", "::1"}


@pytest.mark.slow  # two servers; tests/real_exec/test_launch.py interrupts in the fast tier
@pytest.mark.parametrize("family", FAMILIES)
def test_ctrl_c_ends_a_command_and_its_ranks(experiment: Write, tmp_path: Path, family: str) -> None:
    """In the second epoch, while one rank sleeps and the other waits for it."""
    Path("how").write_text("leave out")
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    path = experiment(family)
    path.write_text(path.read_text().replace('"hang_after": 2', '"hang_after": 100'))
    child = forked.Child(["-m", "chronoscale", "train", path], stdout=DEVNULL, stderr=PIPE, env={**os.environ, "TMPDIR": str(temporary)})
    while Path("how").exists():
        assert child.poll() is None
    family_of_processes = psutil.Process(child.pid).children(recursive=True)
    assert len(family_of_processes) >= 3  # a server and two ranks
    os.killpg(child.pid, signal.SIGINT)
    _, errors = child.communicate()
    lines = [line for line in errors.splitlines() if not line.startswith("warning:")]
    assert child.returncode == 130 and len(lines) == 1 and lines[0].startswith("interrupted"), errors
    assert not psutil.wait_procs(family_of_processes, timeout=5)[1]
    assert not [path for path in temporary.iterdir() if not path.name.startswith("torchinductor")]  # torch's own cache stays

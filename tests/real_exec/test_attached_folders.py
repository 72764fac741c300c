"""Folders of attached processes: none is left where SIGTERM ends one, as scancel and torchrun do."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from attached_cases import free_port, job_of

from chronoscale.real_exec.ranks.attached import Attachment
from chronoscale.real_exec.ranks.attached_folders import PREFIX, remove_folder
from chronoscale.real_exec.ranks.rank_end import AttachedEnd
from chronoscale.real_exec.ranks.starter import Starter

# Two folders, a file in one; Ctrl-C has a handler, and then the first thread waits in C for what never comes (a lock that it has itself).
WAITS = """
import ctypes, signal
from chronoscale.real_exec.ranks.attached_folders import make_folder, remove_at_sigterm
{ignored}
remove_at_sigterm()
signal.signal(signal.SIGINT, lambda *_: None)
make_folder()
(make_folder() / "file").touch()
lock, libc = ctypes.create_string_buffer(64), ctypes.CDLL(None)
libc.pthread_mutex_lock(lock)
print("waits", flush=True)
libc.pthread_mutex_lock(lock)
"""


@contextmanager
def waiting(folder: Path, ignored: str = "") -> Iterator[subprocess.Popen[str]]:
    """A process that waits, its temporary files in `folder`."""
    words, environment = [sys.executable, "-c", WAITS.format(ignored=ignored)], {**os.environ, "TMPDIR": str(folder)}
    with subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == "waits\n"
            assert len(list(folder.glob(f"{PREFIX}*"))) == 2
            yield process
        finally:
            process.kill()


def test_sigterm_leaves_no_folder(tmp_path: Path) -> None:
    """Also where the first thread hears of nothing, and another signal has come before."""
    with waiting(tmp_path) as process:
        process.send_signal(signal.SIGINT)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.1)
        process.terminate()
        assert process.wait(10) == 143
    assert not list(tmp_path.iterdir())


def test_sigterm_that_is_ignored_stays_so(tmp_path: Path) -> None:
    with waiting(tmp_path, "signal.signal(signal.SIGTERM, signal.SIG_IGN)") as process:
        process.terminate()
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.1)
    assert len(list(tmp_path.iterdir())) == 2


def test_a_folder_that_is_written_to_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rank lives a little longer than the process that has it."""
    (folder := tmp_path / "folder").mkdir()
    rmtree, tries = shutil.rmtree, list[Path]()

    def slow(path: Path, ignore_errors: bool) -> None:
        tries.append(path)
        if len(tries) > 2:
            rmtree(path)

    monkeypatch.setattr("shutil.rmtree", slow)
    remove_folder(folder)
    assert not folder.exists() and len(tries) == 3


@pytest.mark.slow
def test_a_process_of_a_launcher_that_is_terminated_leaves_nothing(tmp_path: Path) -> None:
    """While it executes its rank of a job: neither the job's folder nor the rank's, only the contents that it keeps."""
    (temporary := tmp_path / "tmp").mkdir()
    launcher = {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1", "TORCHELASTIC_RUN_ID": "run"}
    launcher |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    starter = Starter.of({**launcher, "RANK": "0"})
    assert starter is not None
    words = [sys.executable, "-m", "chronoscale", "bench", "x"]
    second = subprocess.Popen(words, env={**os.environ, **launcher, "TMPDIR": str(temporary)})

    def terminate(*given: object) -> AttachedEnd:
        until = time.monotonic() + 60
        while not list(temporary.glob("chronoscale-ranks-*")) and time.monotonic() < until:
            time.sleep(0.01)
        assert len(list(temporary.glob(f"{PREFIX}*"))) == 1
        second.terminate()
        assert second.wait(10) == 143
        return AttachedEnd()

    try:
        first = Attachment(starter, {})
        first.launch("chronoscale.real_exec.worker", job_of(tmp_path), 2, tmp_path / "x", terminate, lambda: True)
    finally:
        second.kill()
    first._over.set()
    kept, until = f"chronoscale-contents-{os.getuid()}", time.monotonic() + 10
    while (left := [path.name for path in temporary.glob("chronoscale-*")]) != [kept] and time.monotonic() < until:
        time.sleep(0.01)
    assert left == [kept]

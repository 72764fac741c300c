"""tests/forked.py: a child of the warm process is one that `python` would have started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from subprocess import PIPE

import forked
import psutil
import pytest


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "code", "out", "err"),
    [
        (["-c", "import sys; print(sys.argv)", "a b"], 0, "['-c', 'a b']\n", ""),
        (["-c", "raise SystemExit('no')"], 1, "", "no\n"),
        (["-c", "raise SystemExit(7)"], 7, "", ""),
        (["-c", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"], -signal.SIGKILL, "", ""),
        (["-c", "import atexit; atexit.register(print, 'last'); print('first')"], 0, "first\nlast\n", ""),
        (["-m", "none.there"], 1, "", "No module named"),
    ],
)
def test_it_ends_as_python_would(arguments: list[str], code: int, out: str, err: str) -> None:
    done = forked.run(arguments)
    assert (done.returncode, done.stdout) == (code, out) and err in done.stderr
    plain = subprocess.run([sys.executable, "-S", *arguments], capture_output=True, text=True)
    assert (plain.returncode, plain.stdout) == (code, out)


def test_it_has_the_callers_folder_and_variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = "import os, torch; print(os.getcwd(), os.environ.get('SAID'), torch.get_num_threads())"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SAID", "so")
    assert forked.run(["-c", code]).stdout.split() == [str(tmp_path), "so", "1"]
    assert forked.run(["-c", code], cwd="/", env={"OMP_NUM_THREADS": "2"}).stdout.split() == ["/", "None", "2"]


def test_a_file_runs_as_the_program(tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text("WORD = 'beside'\n")
    (tmp_path / "program.py").write_text("import sys, beside\nif __name__ == '__main__':\n    print(beside.WORD, sys.argv[1])\n")
    assert forked.run([tmp_path / "program.py", 3]).stdout == "beside 3\n"


def test_an_interrupt_reaches_only_its_group() -> None:
    child = forked.Child(["-c", "import time; print('on', flush=True); time.sleep(60)"], stdout=PIPE, stderr=PIPE)
    assert child.stdout is not None and child.stdout.readline() == "on\n"
    assert child.poll() is None
    os.killpg(child.pid, signal.SIGINT)
    assert "KeyboardInterrupt" in child.communicate()[1]
    assert child.returncode == -signal.SIGINT


def test_its_time_is_counted() -> None:
    before = forked.spent_s()
    child = forked.Child(["-c", "import time\nwhile time.process_time() < 0.3: pass"])
    assert child.wait() == 0
    assert child.cpu_s >= 0.2 and forked.spent_s() == before + child.cpu_s


def test_none_outlives_its_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forked, "PACKAGE", "json")  # a server of its own, soon there
    monkeypatch.setattr(forked, "_server", None)
    lasting = forked.Child(["-c", "import time; print('on', flush=True); time.sleep(60)"], stdout=PIPE)
    assert lasting.stdout is not None and lasting.stdout.readline() == "on\n"
    process = psutil.Process(lasting.pid)
    assert process.parent() != psutil.Process()
    forked.close()
    assert not process.is_running()

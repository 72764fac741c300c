"""Ctrl-C, as a terminal sends it to all processes of a command: one line, exit code 130, and nothing is left."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import yaml

from chronoscale import interruption

MAIN = "from chronoscale.__main__ import main; main()"
DATA = {"dataset": {"name": "growth_small"}, "model": {"name": "wd-gcn", "hidden": 4}, "strategies": ["psg", "real-g+", "esdg"]}


class Command:
    """A command line in a session of its own. Its stdout is a file, its stderr a pipe."""

    def __init__(self, folder: Path, *words: str, before: str = "") -> None:
        self.temporary = folder / "tmp"
        self.temporary.mkdir(exist_ok=True)
        code = f"exec(compile({before!r}, 'before.py', 'exec'))\n{MAIN}"  # code of no file has Ctrl-C wait
        self.process = subprocess.Popen(
            [sys.executable, "-c", code, *words],
            cwd=folder,
            env={**os.environ, "TMPDIR": str(self.temporary), "OMP_NUM_THREADS": "1"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def others(self) -> list[str]:
        """Command lines of the other processes of its session."""
        processes = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                state, _, _, session = (folder / "stat").read_text().rpartition(")")[2].split()[:4]
                if int(session) == self.process.pid and state != "Z" and int(folder.name) != self.process.pid:
                    processes.append((folder / "cmdline").read_text())
            except OSError:
                continue  # it has ended
        return processes

    def interrupt(self) -> None:
        os.killpg(self.process.pid, signal.SIGINT)

    def last_line(self) -> str:
        """The only line of a command that was interrupted. What is left of it after 5 s is an error."""
        try:
            _, errors = self.process.communicate(timeout=120)
        finally:
            if self.process.poll() is None:
                os.killpg(self.process.pid, signal.SIGKILL)
        lines = [line for line in errors.splitlines() if not line.startswith("warning:")]
        assert (self.process.returncode, len(lines)) == (interruption.CODE, 1), errors
        ends = time.monotonic() + 5
        while (left := [*self.others(), *self.temporary.iterdir()]) and time.monotonic() < ends:
            time.sleep(0.01)  # what has seen the command end is ending
        assert not left
        return lines[0]


def waits_at(event: str) -> str:
    """Code before a command: it stops itself once, where `event`, an expression of an audit event's `name` and `what`, is first true."""
    return f"""
import os, signal, sys
done = []
def hook(name, what):
    if not done and {event}:
        done.append(1)
        os.kill(os.getpid(), signal.SIGSTOP)
sys.addaudithook(hook)
"""


def stopped(command: Command) -> None:
    """Wait until a command has stopped itself."""
    assert os.WIFSTOPPED(os.waitpid(command.process.pid, os.WUNTRACED)[1])


def go_on(command: Command) -> None:
    """The signal first, so that it is there when the command goes on."""
    command.interrupt()
    os.killpg(command.process.pid, signal.SIGCONT)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "small.yaml"
    path.write_text(yaml.safe_dump({**DATA, "gpus": [1, 2, 4]}))
    return str(path)


@pytest.mark.parametrize("module", ["typer", "chronoscale.harness.cli.output", "numpy", "chronoscale.harness.keys.reference"])
def test_while_modules_are_imported(tmp_path, module):
    command = Command(tmp_path, "keys", before=waits_at(f"name == 'import' and what[0] == {module!r}"))
    stopped(command)
    go_on(command)
    assert command.last_line() == "interrupted"


def test_while_a_table_is_read(tmp_path):
    """pandas is imported with the file open."""
    (tmp_path / "events.txt").write_text("0 1 5\n1 2 6\n")
    command = Command(tmp_path, "data", "info", "events.txt", before=waits_at("name == 'import' and what[0] == 'pandas'"))
    stopped(command)
    go_on(command)
    assert command.last_line() == "interrupted"


def test_while_a_dataset_is_written(tmp_path):
    command = Command(tmp_path, "data", "make", "growth_small", "made", before=waits_at("name == 'open' and 'src.npy' in str(what[0])"))
    stopped(command)
    go_on(command)
    assert command.last_line() in ("interrupted", "interrupted while writing made; nothing was kept")
    assert [path.name for path in tmp_path.iterdir()] == ["tmp"]


def test_while_a_plugin_runs(tmp_path):
    """Which need not be as quick as an import."""
    (tmp_path / "slow.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)\nwhile True:\n    pass\n")
    (tmp_path / "slow.yaml").write_text(yaml.safe_dump({**DATA, "modules": ["slow.py"]}))
    command = Command(tmp_path, "bench", "slow.yaml", "--dry-run")
    stopped(command)
    go_on(command)
    assert command.last_line() == "interrupted"


STARTS = """
import os, signal, time
from multiprocessing import util
spawn, count = util.spawnv_passfds, []
def line(process):
    with open(f"/proc/{process}/cmdline") as file:
        return file.read()
def counted(path, args, passfds):
    process = spawn(path, args, passfds)
    while line(process) in ("", line("self")):
        time.sleep(0.001)  # spawning returns before the process has become its program
    count.append(process)
    if len(count) == 3:  # the tracker of what is shared, and two that simulate
        os.kill(os.getpid(), signal.SIGSTOP)
    return process
util.spawnv_passfds = counted
"""
SWEEP = """
import sys
from importlib import import_module
from sweep_cases import square
from chronoscale.harness.sweep.sweep import sweep
from chronoscale.harness.cli.output import stage
def app(prog_name):
    with stage("simulating", resumes=True):
        sweep(square, {1: 1, 2: 2}, lambda number, found: None, workers=2)
import_module("chronoscale.harness.cli.main").app = app
"""


def started(command: Command) -> None:
    """Interrupt a command whose processes have been started, and are importing what they run."""
    stopped(command)
    assert sum("spawn_main" in line for line in command.others()) == 2
    go_on(command)
    assert command.last_line() == "interrupted while simulating; the same command takes it up again"


def test_while_processes_start(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]))
    started(Command(tmp_path, before=STARTS + SWEEP))


@pytest.mark.slow
def test_while_processes_start_that_simulate(tmp_path, file):
    started(Command(tmp_path, "advise", file, "--workers", "2", before=STARTS))


def test_it_is_heard_once(monkeypatch):
    """The second does not keep the first from closing what is open; nor is it lost where nobody hears of exceptions."""
    monkeypatch.setattr(interruption, "WRITTEN", "none")  # processes that share tests run them in code of no file
    closed = []
    with pytest.raises(KeyboardInterrupt), interruption.handled():
        try:
            signal.raise_signal(signal.SIGINT)
        finally:
            signal.raise_signal(signal.SIGINT)
            closed.append(1)
    assert closed == [1] and interruption.came()

    class Silent:
        def __del__(self) -> None:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt), interruption.handled():
        Silent()
        threading.Event().wait(60)


def test_what_waited_is_heard_at_once(monkeypatch):
    """Another thread may take the signal while this one does not."""
    monkeypatch.setattr(interruption, "WRITTEN", "none")
    went_on = []
    with pytest.raises(KeyboardInterrupt), interruption.handled():
        with interruption.masked():
            interruption._count(signal.SIGINT, None)
            went_on.append("within")
        went_on.append("after")
    assert went_on == ["within"]


def test_what_it_was_before_it_is_after():
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGALRM), sys.unraisablehook
    with interruption.handled():
        assert signal.getsignal(signal.SIGINT) is not before[0]
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGALRM), sys.unraisablehook) == before
    with interruption.masked():
        assert signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, ())
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())


COUNTED = """
import atexit, os, signal, sys
moments = [0]
def hook(name, what):
    heard = signal.getsignal(signal.SIGINT) is not signal.default_int_handler  # before that it is Python that starts
    if heard and name in ("import", "open", "subprocess.Popen", "compile"):
        moments[0] += 1
        if moments[0] == {stop}:
            os.kill(os.getpid(), signal.SIGSTOP)
sys.addaudithook(hook)
atexit.register(lambda: open("moments", "w").write(str(moments[0])))
"""
COMMANDS = [("keys",), ("simulate", "small.yaml"), ("simulate", "small.yaml", "--dry-run"), ("advise", "small.yaml", "--workers", "2")]


@pytest.mark.slow
@pytest.mark.parametrize("words", COMMANDS)
def test_at_any_moment(tmp_path, file, words):
    """Wherever a module is imported, a file opened or a process started: 40 of these moments, spread over all."""
    assert Command(tmp_path, *words, before=COUNTED.format(stop=0)).process.wait(600) == 0
    count, heard = int((tmp_path / "moments").read_text()), 0
    for moment in range(1, count - count // 40, count // 40):
        folder = tmp_path / str(moment)
        folder.mkdir()
        (folder / "small.yaml").write_text(Path(file).read_text())
        command = Command(folder, *words, before=COUNTED.format(stop=moment))
        if os.WIFSTOPPED(os.waitpid(command.process.pid, os.WUNTRACED)[1]):  # a run may open fewer files than the one before
            go_on(command)
            assert command.last_line().startswith("interrupted")
            heard += 1
    assert heard > 30

"""Python's command line in children forked from one warm process, for what a test needs a process of its own for.

A server, started at first use, imports torch and the whole package once (some 5 s of CPU), runs nothing else, and forks a child a request
(0.1 s). Give it what would stand after `python`:

    done = forked.run(["-m", "chronoscale", "bench", file])                 # as subprocess.run(…, capture_output=True, text=True)
    done = forked.run(["-c", "from spread_ranks import main; main()", 2])   # a function: modules of tests/ can be imported
    child = forked.Child(["-m", "chronoscale", "train", file], stderr=PIPE) # as subprocess.Popen(…, text=True)
    os.killpg(child.pid, signal.SIGINT)                                     # a session and group of its own, signals as in a new process

A child has the caller's folder and variables (or `cwd` and `env`), and one thread unless OMP_NUM_THREADS asks for more. What a library
reads as it is loaded (MALLOC_*, OMP_*, CUDA_*) is as the server had it, and modules are there already: a test of those needs `subprocess`.
The server runs no OpenMP region (a fork after one hangs in the next) and ends with the process that started it, as do its children.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import json
import os
import pkgutil
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from subprocess import DEVNULL, PIPE
from types import ModuleType
from typing import IO, NoReturn

THREADS = "OMP_NUM_THREADS"
PACKAGE = "chronoscale"
_server: tuple[int, subprocess.Popen[bytes], socket.socket] | None = None
_spent = 0.0


def spent_s() -> float:
    """Return the CPU seconds of all children that have ended, with what they waited for."""
    return _spent


def _connection() -> socket.socket:
    """Return this process's connection to its server, which is started at first use."""
    global _server
    if _server is None or _server[0] != os.getpid():
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        environment = {**os.environ, THREADS: "1", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        process = subprocess.Popen([sys.executable, __file__, PACKAGE, str(theirs.fileno())], env=environment, pass_fds=[theirs.fileno()])
        theirs.close()
        _server = os.getpid(), process, ours
    return _server[2]


@atexit.register
def close() -> None:
    """End the server and its children, if one was started; the next request starts another."""
    global _server, _spent
    if _server is not None and _server[0] == os.getpid():
        _server[2].close()
        _server[1].wait()
        _spent = 0.0  # it is in this process's count of children now
    _server = None


class Child:
    """A running child, used as a `subprocess.Popen` of text; `cpu_s` once it has ended."""

    def __init__(
        self,
        arguments: Sequence[object],
        *,
        stdout: int | IO[str] | None = None,
        stderr: int | IO[str] | None = None,
        cwd: str | Path | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.args = [str(argument) for argument in arguments]
        self.returncode: int | None = None
        self.cpu_s = 0.0
        request = {"arguments": self.args, "cwd": str(cwd or Path.cwd()), "env": dict(os.environ if env is None else env)}
        reply, answer = os.pipe()
        self._reply = os.fdopen(reply)
        with contextlib.ExitStack() as given, tempfile.TemporaryFile() as request_file:
            given.callback(os.close, answer)
            nothing = given.enter_context(open(os.devnull, "r+b"))
            self.stdout, out = self._opened(stdout, 1, nothing.fileno(), given)
            self.stderr, err = self._opened(stderr, 2, nothing.fileno(), given)
            request_file.write(json.dumps(request).encode())
            request_file.flush()
            socket.send_fds(_connection(), [b"?"], [request_file.fileno(), answer, nothing.fileno(), out, err])
        self.pid = int(self._reply.readline())

    @staticmethod
    def _opened(wanted: int | IO[str] | None, own: int, nothing: int, given: contextlib.ExitStack) -> tuple[IO[str] | None, int]:
        """Return what to read from (None without a pipe), and the descriptor to write to."""
        if wanted == PIPE:
            reads, writes = os.pipe()
            given.callback(os.close, writes)
            return os.fdopen(reads), writes
        if wanted is None or isinstance(wanted, int):
            return None, own if wanted is None else nothing if wanted == DEVNULL else wanted
        return None, wanted.fileno()

    def poll(self) -> int | None:
        """Return the exit code, -N after signal N, None while it runs."""
        if self.returncode is None and select.select([self._reply], [], [], 0)[0]:
            self._end()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit code at the child's end. Raises TimeoutExpired."""
        if self.returncode is None:
            if not select.select([self._reply], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(self.args, timeout or 0)
            self._end()
        assert self.returncode is not None
        return self.returncode

    def _end(self) -> None:
        global _spent
        status, self.cpu_s = json.loads(self._reply.readline())
        self.returncode = os.waitstatus_to_exitcode(status)
        self._reply.close()
        _spent += self.cpu_s

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """Return all that the child writes into its pipes, and wait for it. Raises TimeoutExpired."""
        streams = ["", ""]

        def read(which: int, pipe: IO[str]) -> None:
            with pipe:
                streams[which] = pipe.read()

        readers = [
            threading.Thread(target=read, args=(which, pipe), daemon=True) for which, pipe in enumerate((self.stdout, self.stderr)) if pipe
        ]
        for reader in readers:
            reader.start()
        self.wait(timeout)
        for reader in readers:
            reader.join(timeout)
        return streams[0], streams[1]

    def send_signal(self, number: int) -> None:
        """Send the child a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def run(
    arguments: Sequence[object],
    *,
    cwd: str | Path | None = None,
    env: Mapping[str, str] | None = None,
    timeout: float | None = None,
    check: bool = False,
) -> subprocess.CompletedProcess[str]:
    """Run a child to its end; return its exit code and what it wrote. Raises TimeoutExpired (the child's group is killed) and, with
    `check`, CalledProcessError."""
    child = Child(arguments, stdout=PIPE, stderr=PIPE, cwd=cwd, env=env)
    try:
        stdout, stderr = child.communicate(timeout)
    except BaseException:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        raise
    done = subprocess.CompletedProcess(child.args, child.wait(), stdout, stderr)
    if check:
        done.check_returncode()
    return done


# ---- the server's side ----


def _serve(connection: socket.socket) -> list[str]:
    """Fork a child a request until the connection ends. Returns in every child, with its arguments; never in the server."""
    wakes, awake = os.pipe()
    os.set_blocking(awake, False)
    signal.set_wakeup_fd(awake, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal's is for the process that reads the requests
    answers: dict[int, int] = {}
    while True:
        ready = select.select([connection, wakes], [], [])[0]
        if wakes in ready:
            os.read(wakes, 1024)
            _reap(answers)
        if connection in ready:
            message, descriptors, _, _ = socket.recv_fds(connection, 1, 8)
            if not message:
                _leave(answers)
            request_file, answer, *streams = descriptors
            with os.fdopen(request_file) as file:
                file.seek(0)
                request = json.load(file)
            child = os.fork()
            if child == 0:
                for descriptor in (connection.detach(), wakes, awake, answer, *answers.values()):
                    os.close(descriptor)
                _become(request, streams)
                return list(request["arguments"])
            for descriptor in streams:
                os.close(descriptor)
            answers[child] = answer
            os.write(answer, b"%d\n" % child)


def _reap(answers: dict[int, int]) -> None:
    """Answer for all children that have ended: status, and CPU seconds."""
    while answers:
        child, status, usage = os.wait4(-1, os.WNOHANG)
        if not child:
            return
        with contextlib.suppress(BrokenPipeError), os.fdopen(answers.pop(child), "w") as answer:
            answer.write(json.dumps([status, usage.ru_utime + usage.ru_stime]) + "\n")


def _leave(answers: dict[int, int]) -> NoReturn:
    for child in answers:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
    for child in answers:
        os.waitpid(child, 0)
    os._exit(0)


def _become(request: dict[str, object], streams: list[int]) -> None:
    """Make a new process of a forked one: its session, signals, streams, folder and variables."""
    os.setsid()
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for own, descriptor in enumerate(streams):
        os.dup2(descriptor, own)
        os.close(descriptor)
    os.chdir(str(request["cwd"]))
    environment: dict[str, str] = request["env"]  # type: ignore[assignment]
    os.environ.clear()
    os.environ.update(environment)
    for entry in reversed(environment.get("PYTHONPATH", "").split(os.pathsep)):
        if entry and entry not in sys.path:
            sys.path.insert(0, entry)
    importlib.invalidate_caches()
    if THREADS in environment and "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(int(environment[THREADS]))


def _run(arguments: list[str]) -> None:
    """Do what Python does with its command line: `-c`, `-m`, or a file."""
    first, *rest = arguments
    if first == "-c":
        sys.argv = ["-c", *rest[1:]]
        sys.path.insert(0, "")
        main = sys.modules["__main__"] = ModuleType("__main__")
        exec(compile(rest[0], "<string>", "exec"), main.__dict__)
    elif first == "-m":
        sys.argv = rest
        sys.path.insert(0, "")
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    else:
        sys.argv = arguments
        sys.path.insert(0, str(Path(first).parent))
        runpy.run_path(first, run_name="__main__")


def _warm(name: str) -> None:
    """Import every module of the package that this machine can import."""
    package = importlib.import_module(name)
    for module in pkgutil.walk_packages(package.__path__, f"{name}."):
        if not module.name.endswith(".__main__"):
            with contextlib.suppress(ImportError):
                importlib.import_module(module.name)
    gc.collect()
    gc.freeze()  # children share its pages


def _live(arguments: list[str]) -> NoReturn:
    """Run a command line to its end as Python does, but for taking 4,000 modules apart."""
    code: int | str | None = 0
    try:
        try:
            _run(arguments)
        finally:
            threading._shutdown()  # type: ignore[attr-defined] (waits for threads)
    except SystemExit as left:
        code = left.code  # type: ignore[assignment]
        if isinstance(code, str):
            print(code, file=sys.stderr)
    except BaseException as error:
        code = 1
        sys.excepthook(type(error), error, error.__traceback__)
        if isinstance(error, KeyboardInterrupt):
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGINT)
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code if isinstance(code, int) else code is not None)


if __name__ == "__main__":
    _warm(sys.argv[1])
    _live(_serve(socket.socket(fileno=int(sys.argv[2]))))

"""Warm server: imports what tests and the package import, and forks a child for each line of requests; `twin.py` starts it in a copy.

A request is a JSON object on standard input: `tests`, `fast`, `full` (many drawn examples), `all` (go on after a failure), `limit_s`.
The answer is one line: `failed`, `slow` (of each of them), `passed`, `skipped`, `seconds`, `cpu`, `code` of pytest or 'limit'.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import json
import os
import resource
import select
import signal
import sys
import time
from pathlib import Path
from typing import Any

import psutil

COMMON = """torch numpy pandas scipy.sparse scipy.optimize scipy.stats pyarrow.parquet pytest _pytest.assertion.rewrite hypothesis
hypothesis.strategies yaml pydantic typer rich.table h5py simpy networkx matplotlib.figure psutil threadpoolctl"""
SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER, linux/prctl.h
OPTIONS = ["-q", "--tb=no", "-p", "no:cacheprovider", "-p", "no:budget", "--hypothesis-seed=0"]


class Notes:
    """Pytest plug-in: what is not slow comes first; notes what failed, passed and was skipped."""

    def __init__(self) -> None:
        self.failed: list[str] = []
        self.slow: list[bool] = []
        self.passed = self.skipped = 0

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        items.sort(key=lambda item: item.get_closest_marker("slow") is not None)

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            self._fail(report)

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            self._fail(report)
        elif report.skipped:
            self.skipped += 1
        elif report.when == "call":
            self.passed += 1

    def _fail(self, report: Any) -> None:
        self.failed.append(report.nodeid)
        self.slow.append("slow" in getattr(report, "keywords", {}))


def judge(request: dict[str, Any], package: Path) -> dict[str, Any]:
    """Run the tests in this process. What they imported must be the copy's."""
    import pytest  # noqa: PLC0415 (imported by now; not so where this module is only read)

    os.environ["HYPOTHESIS_PROFILE"] = "full" if request["full"] else "fast"
    notes = Notes()
    options = [*OPTIONS, *([] if request["all"] else ["-x"]), *(["-m", "not slow"] if request["fast"] else [])]
    code = pytest.main([*options, *request["tests"]], plugins=[notes])
    strange = [name for name, module in sys.modules.items() if name.partition(".")[0] == "chronoscale" and not _is_in(package, module)]
    assert not strange, f"not from the copy: {strange}"
    return {"failed": notes.failed, "slow": notes.slow, "passed": notes.passed, "skipped": notes.skipped, "code": int(code)}


def _is_in(package: Path, module: Any) -> bool:
    return getattr(module, "__file__", None) is None or Path(module.__file__).is_relative_to(package)


def answer(request: dict[str, Any], package: Path) -> dict[str, Any]:
    """Fork; the child's own process group ends with it, or at the limit."""
    begin = time.monotonic()
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)
        os.close(reader)
        code = 70
        with contextlib.suppress(BaseException):
            os.write(writer, json.dumps(judge(request, package)).encode())
            code = 0
        os._exit(code)
    os.close(writer)
    with contextlib.suppress(OSError):
        os.setpgid(child, child)
    received = b""
    ready = [reader]
    while ready and (left := begin + request["limit_s"] - time.monotonic()) > 0:
        ready, _, _ = select.select([reader], [], [], left)
        if not ready or not (more := os.read(reader, 1 << 16)):
            break
        received += more
    else:
        ready = []
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    _end_all()
    os.close(reader)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    processes = (
        json.loads(received)
        if received
        else {"failed": [], "slow": [], "passed": 0, "skipped": 0, "code": f"status {status}" if ready else "limit"}
    )
    cpu = used.ru_utime + used.ru_stime - spent.ru_utime - spent.ru_stime
    return {**processes, "seconds": time.monotonic() - begin, "cpu": cpu}


def _end_all() -> None:
    """Kill what a fault has let outlive its test: by now children of this process."""
    while children := psutil.Process().children(recursive=True):
        for process in children:
            with contextlib.suppress(psutil.Error):
                process.kill()
        psutil.wait_procs(children, timeout=5)


def main() -> None:
    ctypes.CDLL(None).prctl(SUBREAPER, 1)
    package = Path(sys.argv[1])
    for name in COMMON.split():
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    assert not [name for name in sys.modules if name.startswith("chronoscale")]
    answers = os.fdopen(os.dup(1), "w")
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 1)
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line), package)), file=answers, flush=True)


if __name__ == "__main__":
    main()

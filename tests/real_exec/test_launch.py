"""How a job of several ranks ends when one of them does: within a minute, with one line that names it."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from chronoscale.errors import MachineError, NotFiniteError, UserError
from chronoscale.real_exec.launch import _failure, start, wait

REFUSED = """[rank0]: Traceback (most recent call last):
[rank0]: RuntimeError: [gloo/transport/tcp/pair.cc:547] Connection closed by peer [127.0.0.1]:5436
"""
ACCOUNT = """torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
x FAILED
------------------------------------------------------------
Failures:
{others}------------------------------------------------------------
Root Cause (first observed failure):
{first}============================================================
"""


def entry(number: int, rank: int, code: int) -> str:
    """One rank of torchrun's account."""
    return (
        f"[{number}]:\n  time      : 2026-01-02_03:04:05\n  host      : here\n  rank      : {rank} (local_rank: {rank})\n"
        f"  exitcode  : {code} (pid: 12)\n  error_file: <N/A>\n  traceback : To enable traceback see: ...\n"
    )


@pytest.mark.parametrize(("operation", "ends"), [("all_to_all", 2), ("all_reduce", 0), ("wait", 1)])
def test_a_rank_that_is_killed_ends_all(tmp_path, monkeypatch, operation, ends):
    """While the others are in, or wait for, the same operation of gloo."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]))
    (tmp_path / "job").write_text(json.dumps({"operation": operation, "ends": ends}))
    begin = time.monotonic()
    with pytest.raises(MachineError) as raised:
        wait(start("lost_rank", tmp_path / "job", 3, 1), "train")
    assert str(raised.value) == f"rank {ends} of 'train' was lost (SIGKILL)" and time.monotonic() - begin < 60


@pytest.mark.parametrize("said", ["", "error: connection closed\n"])
def test_a_killed_rank_is_named_although_another_ended_first(said):
    """Of what torchrun finds at one look any may be its root cause, and ranks that lose another say so."""
    account = ACCOUNT.format(others=entry(1, 1, 1) + entry(2, 3, -9), first=entry(0, 0, 1))
    found = _failure("train", 1, said + REFUSED + account)
    assert (type(found), str(found)) == (MachineError, "rank 3 of 'train' was lost (SIGKILL)")


@pytest.mark.parametrize(
    ("code", "errors", "kind", "line"),
    [
        (2, "warning\nerror: no such key\n", UserError, "no such key"),
        (1, "error: disk full\n" + ACCOUNT.format(others="", first=entry(0, 1, 1)), MachineError, "disk full"),
        (1, "error: loss is NaN\n" + ACCOUNT.format(others="", first=entry(0, 1, 3)), NotFiniteError, "loss is NaN"),
        # gloo's threads may abort a rank that another, which says why, has left
        (1, "error: no such key\n" + ACCOUNT.format(others=entry(1, 1, -6), first=entry(0, 0, 2)), UserError, "no such key"),
        (1, ACCOUNT.format(others="", first=entry(0, 1, -11)), MachineError, "rank 1 of 'train' was lost (SIGSEGV)"),
        (1, ACCOUNT.format(others=entry(1, 2, -6), first=entry(0, 1, -11)), MachineError, "rank 1 of 'train' was lost (SIGSEGV)"),
        (-9, "", MachineError, "rank 0 of 'train' was lost (SIGKILL)"),
        (
            1,
            "Traceback (most recent call last):\nValueError: odd\n" + ACCOUNT.format(others="", first=entry(0, 1, 1)),
            MachineError,
            "a worker of 'train' ended with code 1: ValueError: odd",
        ),
        (1, "", MachineError, "a worker of 'train' ended with code 1: no message"),
    ],
)
def test_what_a_failure_is_told_as(code, errors, kind, line):
    found = _failure("train", code, errors)
    assert (type(found), str(found)) == (kind, line)

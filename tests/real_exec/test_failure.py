"""What a rank leaves when an exception ends it, and what its launcher makes of that."""

from __future__ import annotations

import errno
import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from chronoscale.errors import MachineError, NotFiniteError, UserError
from chronoscale.real_exec.execution.context import open_context
from chronoscale.real_exec.job import Settings
from chronoscale.real_exec.ranks import failure as failures
from chronoscale.real_exec.ranks import positions
from chronoscale.real_exec.ranks.failure import Failure, FailureKind, reserve


@pytest.mark.parametrize(
    ("error", "kind", "code", "raised", "line"),
    [
        (UserError("no such key"), FailureKind.USER, 2, UserError, "no such key"),
        (NotFiniteError("loss is NaN"), FailureKind.NOT_FINITE, 3, NotFiniteError, "loss is NaN"),
        (MachineError("disk\nof all"), FailureKind.MACHINE, 1, MachineError, "disk"),
        (OSError(errno.ENOSPC, "x", "a.npy"), FailureKind.MACHINE, 1, MachineError, "a.npy: the disk is full; free some space and give .*"),
        (MemoryError(), FailureKind.MEMORY, 1, MachineError, "rank 1 of 'train' is out of memory: memory could not be had .at row 3."),
        (torch.OutOfMemoryError("CUDA\nmore"), FailureKind.MEMORY, 1, MachineError, "rank 1 of 'train' is out of memory: CUDA .at row 3."),
        (RuntimeError("[x] DefaultCPUAllocator: can't allocate memory: 1"), FailureKind.MEMORY, 1, MachineError, ".* out of memory: .*"),
        (RuntimeError("[gloo/transport] closed"), FailureKind.PEER, 1, MachineError, "rank 1 of 'train' failed: RuntimeError: .gloo.*"),
        (dist.DistNetworkError("gone"), FailureKind.PEER, 1, MachineError, "rank 1 of 'train' failed: DistNetworkError: gone .at row 3."),
        (ValueError("odd\nand long"), FailureKind.UNEXPECTED, 1, MachineError, "rank 1 of 'train' failed: ValueError: odd .at row 3."),
        (KeyError(), FailureKind.UNEXPECTED, 1, MachineError, "rank 1 of 'train' failed: KeyError .at row 3."),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else "",
)
def test_an_exception_is_told_by_its_kind(tmp_path: Path, error, kind, code, raised, line) -> None:
    Failure.of(error, 1, "at row 3").save(tmp_path)
    result = Failure.load(tmp_path, 1)
    assert result is not None and (result.kind, result.code) == (kind, code)
    reported = result.error("train")
    assert type(reported) is raised
    with pytest.raises(raised, match=f"^{line}$"):
        raise reported
    assert bool(result.trace) == (kind is FailureKind.UNEXPECTED)
    assert Failure.load(tmp_path, 0) is None


def test_a_record_is_written_into_space_that_was_taken_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be that the disk is full: a file that is cut first would have to be given its space again."""
    reserve(tmp_path, 1)
    modes, open_ = list[str](), Path.open
    monkeypatch.setattr(Path, "open", lambda path, mode="r", *given, **named: modes.append(mode) or open_(path, mode, *given, **named))
    (part,) = tmp_path.iterdir()
    taken, size = part.stat().st_ino, part.stat().st_size
    (failure := Failure.of(OSError(errno.ENOSPC, "x"), 1, "at row 3")).save(tmp_path)
    (record,) = tmp_path.iterdir()
    assert modes == ["r+b"]
    assert Failure.load(tmp_path, 1) == failure
    assert record.stat().st_ino == taken and record.stat().st_size <= size


def test_a_record_beyond_that_space_goes_without_its_traceback(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reserve(tmp_path, 1)
    failure, write = replace(Failure.of(OSError(errno.ENOSPC, "x"), 1, "at row 3"), trace="long " * 2000), failures._write

    def full(path: Path, text: str) -> None:
        if len(text) > failures.RESERVED:
            raise OSError(errno.ENOSPC, "")
        write(path, text)

    monkeypatch.setattr(failures, "_write", full)
    failure.save(tmp_path)
    assert Failure.load(tmp_path, 1) == replace(failure, trace="")


def test_a_record_is_read_as_strictly_as_any_file(tmp_path: Path) -> None:
    (tmp_path / "failure-0.json").write_text(json.dumps({"rank": 0, "kind": "odd"}))
    with pytest.raises(UserError, match=r"failure-0\.json"):
        Failure.load(tmp_path, 0)


def test_what_ends_a_rank_is_told_before_what_is_open_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """By that others fail."""
    message: list[object] = []
    monkeypatch.setattr(positions.own_page(), "report", message.append)
    error = ValueError("odd")
    with pytest.raises(ValueError, match="odd"), open_context(Settings(device="cpu")) as context:
        context.stack.callback(message.append, "closed")
        raise error
    assert message == [error, "closed"]

"""The files in which ranks keep their memory: what a run that is killed finds, and what is said of a file that cannot be read."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
import torch

from chronoscale.errors import UserError
from chronoscale.real_exec.execution.context import Context
from chronoscale.real_exec.streams.spread import memory_files
from chronoscale.real_exec.streams.spread.memory_files import MemoryFiles


def context(rank: int) -> Context:
    return Context(rank=rank)


def tables(epochs: int, rank: int) -> Mapping[str, torch.Tensor]:
    return {"memory": torch.full((3, 2), float(10 * epochs + rank)), "sent": torch.tensor([True, False])}


class Killed(Exception):
    pass


@pytest.mark.parametrize("bests", [[0, 0, 0, 0, 0], [0, 1, 2, 3, 4], [0, 0, 2, 2, 2], [0, 1, 1, 3, 3]])
@pytest.mark.parametrize("stop", range(40))
def test_a_run_that_is_killed_finds_its_memory(tmp_path, monkeypatch, bests: list[int], stop: int) -> None:
    """Before any of the writes and deletions of two ranks, the checkpoint and the best model: what either says is there, of both ranks."""
    message: dict[str, Mapping[str, torch.Tensor]] = {}
    left, unlink, write = [stop], Path.unlink, memory_files.write_atomically

    def step() -> None:
        if not left[0]:
            raise Killed
        left[0] -= 1

    def counted(path: Path, content: bytes) -> None:
        step()
        write(path, content)

    def removed(path: Path, missing_ok: bool = False) -> None:
        if path.exists():
            step()
        unlink(path, missing_ok)

    monkeypatch.setattr(memory_files, "write_atomically", counted)
    monkeypatch.setattr(Path, "unlink", removed)
    sides = [MemoryFiles(tmp_path, context(rank)) for rank in (0, 1)]
    try:
        for done, best in enumerate(bests, 1):
            before = bests[done - 2] if done > 1 else -1
            for rank, each in enumerate(sides):
                each.write(done, tables(done, rank), {best + 1, before + 1})
            for label in ("best", "checkpoint"):
                if label == "checkpoint" or best == done - 1:
                    step()
                    message[label] = sides[0].record()
    except Killed:
        pass
    for label, record in message.items():
        for rank in (0, 1):
            result = MemoryFiles(tmp_path, context(rank)).read(record)
            expected = tables(int(record["epoch"]), rank)
            assert all(torch.equal(result[name], table) for name, table in expected.items()), label
    assert len([*(tmp_path / "memory").glob("[0-9]*")]) <= 8


def test_memory_that_cannot_be_read_is_one_line(tmp_path) -> None:
    single = MemoryFiles(tmp_path, context(0))
    for epochs in (1, 2):
        single.write(epochs, tables(epochs, 0), {1})
    first, second = (tmp_path / "memory" / f"00000{epochs}-0000.pt" for epochs in (1, 2))
    assert first.exists() and second.exists()
    remedy = "delete the training folder to train from the first epoch on"
    with pytest.raises(UserError) as result:
        single.read({"epoch": torch.tensor(7)})
    assert str(result.value) == f"{tmp_path}/memory/000007-0000.pt: no such file, a memory of this rank is expected; {remedy}"
    second.write_bytes(second.read_bytes()[:100])
    with pytest.raises(UserError) as result:
        single.read(single.record())
    message = str(result.value)
    assert message.startswith(f"{second}: not a readable memory of this rank (") and message.endswith(remedy) and "\n" not in message
    second.write_bytes(first.read_bytes())
    with pytest.raises(RuntimeError, match=r"000002-0000\.pt is of epoch 1, expected 2"):
        single.read(single.record())
    with pytest.raises(KeyError):
        single.read({})


def test_what_another_rank_is_writing_stays(tmp_path: Path) -> None:
    """Ranks of one machine write to one folder, side by side."""
    (tmp_path / memory_files.FOLDER).mkdir()
    draft = tmp_path / memory_files.FOLDER / ".000002-0001.pt"
    draft.write_bytes(b"")
    MemoryFiles(tmp_path, context(0)).write(5, tables(5, 0), {5})
    assert draft.exists()

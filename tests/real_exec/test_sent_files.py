"""Files of a job's folder on their way between ranks that share none: which, to whom, and whole."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from chronoscale.real_exec.communication import files
from chronoscale.real_exec.execution.context import Context, open_context
from chronoscale.real_exec.job import Settings
from chronoscale.real_exec.ranks.membership import Membership
from chronoscale.real_exec.ranks.virtual import VirtualRank, run_virtual

RANKS = 3
LONG = bytes(range(256)) * 3


@pytest.fixture
def apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ranks have met in a store, as on several machines; files go in pieces."""
    monkeypatch.setattr(Membership, "here", lambda: Membership(store="tcp://there:1/x"))
    monkeypatch.setattr(files, "CHUNK", 100)


def on_ranks(tmp_path: Path, work: Callable[[Context, Path], None]) -> list[dict[str, bytes]]:
    """Do something on every rank, each with a folder of its own: rank r has `all.bin`, and `<r>.bin` of 256 r bytes; return what each has
    then.
    """

    def rank(virtual: VirtualRank) -> dict[str, bytes]:
        folder = tmp_path / str(virtual.rank)
        (folder / "deep").mkdir(parents=True)
        (folder / "all.bin").write_bytes(b"of %d" % virtual.rank)
        (folder / "deep" / f"{virtual.rank}.bin").write_bytes(LONG[: 256 * virtual.rank])
        with open_context(Settings(device="cpu"), virtual) as context:
            work(context, folder)
        return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}

    return run_virtual(rank, RANKS, "job")


def test_the_first_rank_gathers_what_others_have_and_they_nothing(tmp_path: Path, apart: None) -> None:
    have = on_ranks(tmp_path, lambda context, folder: context.gather_files(folder, lambda rank: f"deep/{rank}.bin"))
    own = [{"all.bin": b"of %d" % rank, f"deep/{rank}.bin": LONG[: 256 * rank]} for rank in range(RANKS)]
    assert have == [own[0] | {f"deep/{rank}.bin": LONG[: 256 * rank] for rank in (1, 2)}, own[1], own[2]]


def test_all_ranks_get_the_first_ones(tmp_path: Path, apart: None) -> None:
    have = on_ranks(tmp_path, lambda context, folder: context.broadcast_files(folder, "all.bin", "deep/*", "nothing/*"))
    first = {"all.bin": b"of 0", "deep/0.bin": b""}
    assert have == [first, *(first | {f"deep/{rank}.bin": LONG[: 256 * rank]} for rank in (1, 2))]


def test_ranks_that_share_a_folder_send_nothing(tmp_path: Path) -> None:
    have = on_ranks(tmp_path, lambda context, folder: context.gather_files(folder, lambda rank: "*"))
    assert [len(each) for each in have] == [2] * RANKS

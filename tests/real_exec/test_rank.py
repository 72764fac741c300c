"""Where a rank runs, and by which backend it meets the others, on machines with more GPUs than this one, or fewer."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from chronoscale.errors import UserError
from chronoscale.real_exec.execution import context
from chronoscale.real_exec.job import Settings
from chronoscale.real_exec.ranks import rank
from chronoscale.real_exec.ranks.membership import Membership
from chronoscale.real_exec.ranks.rank import pick_device


def there(monkeypatch: pytest.MonkeyPatch, gpus: int) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: gpus > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    monkeypatch.setattr(torch.cuda, "set_device", lambda device: None)


@pytest.mark.parametrize(
    ("gpus", "device", "shares", "expected"),
    [
        (2, "auto", False, "cuda:1"),
        (2, "auto", True, "cuda:0"),
        (1, "cuda", True, "cuda:0"),
        (0, "auto", True, "cpu"),
        (1, "cpu", True, "cpu"),
    ],
)
def test_the_device_of_the_second_rank(monkeypatch: pytest.MonkeyPatch, gpus: int, device: str, shares: int, expected: str) -> None:
    there(monkeypatch, gpus)
    assert str(pick_device(device, 1, bool(shares))) == expected


def test_a_rank_without_a_gpu_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    there(monkeypatch, 1)
    with pytest.raises(UserError, match="rank 1 has no GPU: there are 1; run fewer ranks, or set device: cpu"):
        pick_device("auto", 1)
    there(monkeypatch, 0)
    with pytest.raises(UserError, match="device 'cuda' asked for, no CUDA device is available"):
        pick_device("cuda", 0, shares=True)


@pytest.mark.parametrize(
    ("gpus", "device", "shares", "backend", "pinned"),
    [
        (2, "auto", False, "nccl", False),
        (2, "auto", True, "gloo", False),  # also where each could have one
        (1, "auto", True, "gloo", False),
        (1, "auto", False, "gloo", True),  # and `pick_device` refuses
        (0, "auto", True, "gloo", True),
        (2, "cpu", True, "gloo", True),
    ],
)
def test_how_two_ranks_meet(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, gpus: int, device: str, shares: bool, backend: str, pinned: bool
) -> None:
    """On cores of their own where they compute on these; our launcher watches gloo."""
    there(monkeypatch, gpus)
    met, pins = [], []
    monkeypatch.setattr(rank, "pin_to_cores", lambda *given: pins.append(given))
    monkeypatch.setattr(dist, "init_process_group", lambda backend, meeting, timeout, **given: met.append((backend, timeout)))
    rank._meet(Membership(1, 2, 1, 2, str(tmp_path)), device, shares)
    assert met == [(backend, rank.WATCHED if backend == "gloo" else None)] and bool(pins) == pinned
    assert timedelta(days=1) < rank.WATCHED


@pytest.mark.parametrize(("gpus", "backend"), [(2, "nccl"), (1, "gloo"), (0, "gloo")])
def test_what_a_rank_of_the_second_machine_asks_of_it(monkeypatch: pytest.MonkeyPatch, gpus: int, backend: str) -> None:
    """Seats on its own machine: the fourth of four ranks, two a machine, is the second there."""
    there(monkeypatch, gpus)
    met, pins = [], []
    monkeypatch.setattr(rank, "pin_to_cores", lambda *given: pins.append(given))
    monkeypatch.setattr(dist, "init_process_group", lambda backend, meeting, timeout, **given: met.append((backend, meeting, given)))
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    rank._meet(Membership.of({"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}), "auto", False)
    assert met == [(backend, "env://", {"rank": 3, "world_size": 4})]
    assert pins == ([] if backend == "nccl" else [(1, 2, 3)])


def test_a_job_chooses_the_device_by_the_place_on_its_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen: list[int] = []

    def pick(name: str, local_rank: int, shares: bool) -> torch.device:
        chosen.append(local_rank)
        return torch.device("cpu")

    monkeypatch.setattr(context, "pick_device", pick)
    for name, value in (("RANK", "3"), ("WORLD_SIZE", "4"), ("LOCAL_RANK", "1"), ("LOCAL_WORLD_SIZE", "2")):
        monkeypatch.setenv(name, value)
    with context.open_context(Settings()):
        assert chosen == [1]


@pytest.mark.parametrize(("theirs", "agreed"), [(True, True), (False, False)])
def test_nccl_takes_a_gpu_for_every_rank_of_every_machine(theirs: bool, agreed: bool) -> None:
    store, members = dist.HashStore(), [Membership(each, 2, 0, 1, "f", "tcp://a:1/b") for each in range(2)]
    with ThreadPoolExecutor() as threads:
        other = threads.submit(rank._agree, store, members[1], theirs)
        assert rank._agree(store, members[0], True) == other.result() == agreed
    assert rank._agree(None, members[0], True)

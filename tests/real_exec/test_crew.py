"""Sampling threads of a rank, bound to processors, or not, and why."""

from __future__ import annotations

import os
import warnings
from pathlib import Path

import numpy as np
import pytest
from native_case import needs_cpu
from stream_case import choice, hyper, planned, prepared, program, stream

from chronoscale.cuda_ext import binding
from chronoscale.datasets.streams.prepared import Prepared
from chronoscale.errors import ChronoscaleWarning, UserError
from chronoscale.real_exec.context import Context
from chronoscale.real_exec.interpreter import execute
from chronoscale.real_exec.job import Settings
from chronoscale.real_exec.kernels import Unheard
from chronoscale.real_exec.lanes import CpuLanes
from chronoscale.real_exec.streams.crew import Crew
from chronoscale.strategies.workload import EventHyper

MINE = sorted(os.sched_getaffinity(0))
several = pytest.mark.skipif(len(MINE) < 2, reason="one CPU")


def described(folder: Path, siblings: bool, cpus: int = len(MINE)) -> str:
    """A file that says that this process's CPUs share cores in pairs, or that they share nothing but one L3."""
    path = folder / f"topology-{siblings}-{cpus}"
    rows = [f"{cpu},{at // 2 if siblings else at},0,0,{at}:{at}:{at // 2 if siblings else at}:0" for at, cpu in enumerate(MINE[:cpus])]
    path.write_text("\n".join(["# CPU,Core,Socket,Node,L1d:L1i:L2:L3", *rows]) + "\n")
    return str(path)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return prepared(tmp_path_factory.mktemp("crew"), stream(features=3, events=80))


def crew(folder: Path, threads: int, topology: str) -> Crew:
    return Crew(Prepared.load(folder), hyper("tgn"), False, Context(Settings(threads=threads, topology=topology)))


@several
@needs_cpu
def test_threads_that_share_a_core_are_bound_while_an_epoch_lasts(tmp_path: Path, folder: Path) -> None:
    chosen, given = choice("tgn"), hyper("tgn", events=EventHyper(presample=3))
    losses = {}
    for name in ("tgl", "fast"):
        schedule = planned(folder, chosen, given, name)
        made = program(folder, schedule, chosen, given, Context(Settings(threads=2, topology=described(tmp_path, True))))
        assert made.steps.threads == (0 if name == "fast" else 2)  # 0: those that are bound
        seen, run = set(), made.run
        made.run = lambda task, run=run, seen=seen: (seen.add((binding.threads(), tuple(sorted(os.sched_getaffinity(0))))), run(task))
        losses[name] = execute(schedule, made, CpuLanes(False), "cpu").losses
        assert seen == {(2 if name == "fast" else 0, tuple(MINE))} and binding.threads() == 0  # the thread that trains may go anywhere
    assert (losses["tgl"] == losses["fast"]).all()


@several
def test_where_nothing_is_shared_it_says_so_and_binds_nothing(tmp_path: Path, folder: Path) -> None:
    chosen, given = choice("tgat"), hyper("tgat")
    schedule = planned(folder, chosen, given, "fast")
    context = Context(Settings(threads=2, topology=described(tmp_path, False)))
    with pytest.warns(ChronoscaleWarning, match="sampling threads are not bound: no two of .* CPUs share a core or an L2"):
        made = program(folder, schedule, chosen, given, context)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # said once
        program(folder, schedule, chosen, given, context)
    assert np.isfinite(execute(schedule, made, CpuLanes(False), "cpu").losses).all() and binding.threads() == 0


def test_one_thread_has_nobody_to_be_near(folder: Path) -> None:
    made = crew(folder, 1, "")
    assert (made.cpus, made.note) == ((), "")


def test_what_cannot_be_had_is_one_line(tmp_path: Path, folder: Path) -> None:
    bad = tmp_path / "bad"
    bad.write_text("0,zero,0,0,0:0:0:0\n")
    with pytest.raises(UserError, match=rf"{bad}.*1"):
        crew(folder, 2, str(bad))
    with pytest.raises(UserError, match=f"{len(MINE) + 2} sampling threads for {len(MINE)} CPUs"):
        crew(folder, len(MINE) + 2, described(tmp_path, True))


@several
def test_ranks_of_one_machine_have_processors_of_their_own(tmp_path: Path, folder: Path) -> None:
    file, found = described(tmp_path, True, len(MINE) // 2 * 2), []
    for rank in range(2):
        context = Context(Settings(threads=len(MINE) // 2, topology=file), rank=rank, collective=Unheard(2))
        made = Crew(Prepared.load(folder), hyper("tgn"), False, context)
        found.append(set(made.cpus))
    assert not found[0] & found[1]

"""Training on a pretended GPU: the CPU's losses, and nothing that a GPU would mind; every model with every strategy of every family."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import family_jobs
import numpy as np
import pytest
import stream_case
import torch
from emulation import compiler, library
from lane_programs import blocks, cells, groups
from pretended import CUDA, Kind, pretended
from rank_cases import run_on_ranks

from chronoscale.cuda_ext.operators.graph import CSR
from chronoscale.real_exec.binding import bind_program
from chronoscale.real_exec.execution.context import Context
from chronoscale.real_exec.execution.lanes import make_lanes
from chronoscale.real_exec.execution.program import Program
from chronoscale.real_exec.job import Item, Job, Settings
from chronoscale.real_exec.measurement.kernels import AbsentPeers
from chronoscale.real_exec.snapshots.material import Full
from chronoscale.real_exec.snapshots.material_files import map_material, write_material
from chronoscale.real_exec.worker import run_job
from chronoscale.strategies import registry
from chronoscale.strategies.signals.forecasters import FORECASTERS
from chronoscale.strategies.snapshots.models import MODELS
from chronoscale.strategies.streams.models import STREAM_MODELS
from chronoscale.strategies.workload import EventHyper, SharingHyper

pytestmark = [
    pytest.mark.skipif(compiler() is None, reason="the kernels are emulated, which needs a C++ compiler"),
]
CLOSE = 1e-6  # of the largest loss: products of other shapes round otherwise
FORMS = ("all full", "all map", "all delta", "all rows")
PAIRS = [
    *((model, name) for model in MODELS for name in (*(key for key, one in registry.of("snapshots").items() if one.executes), *FORMS)),
    *((model, name) for model in FORECASTERS for name in registry.of("signals")),
    *((model, name) for model in STREAM_MODELS for name in registry.of("streams")),
]
FEW = [  # each kind of program once
    *(
        ("wd-gcn", "all rows"),
        ("gat-lstm", "all rows"),
        ("gat-lstm", "all delta"),
        ("evolvegcn-h", "distdgl"),
        ("t-gcn", "flaredtdg-remap"),
        ("t-gcn", "dynahb"),
    ),
    *(("t-gcn", "dynagraph"), ("pgt-dcrnn", "index"), ("pgt-dcrnn", "gpu-index"), ("pgt-dcrnn", "gen-dist-index")),
    *(("tgn", "fast"), ("dysat", "tgl"), ("apan", "memshare")),
]


ONCE = ("dynagraph", "gen-dist-index", "ddp")  # that wait before the first iteration: features are dealt anew, moments agreed upon
TOGETHER = [  # each kind of program that communicates
    *(("t-gcn", "esdg"), ("tgn", "memshare")),
    *(
        pytest.param(*case, marks=pytest.mark.slow)
        for case in (
            *(
                ("wd-gcn", "psg"),
                ("gat-lstm", "all rows"),
                ("evolvegcn-h", "distdgl"),
                ("t-gcn", "flaredtdg"),
                ("t-gcn", "flaredtdg-remap"),
            ),
            *(("evolvegcn-h", "full-history"), ("t-gcn", "dynahb"), ("t-gcn", "dynagraph"), ("dcrnn", "ddp")),
            *(
                ("dcrnn", "dist-index"),
                ("dcrnn", "gen-dist-index"),
                ("tgn", "tgl"),
                ("jodie", "fast"),
                ("apan", "memshare"),
                ("tgn", "memshare-shared"),
            ),
            *(("tgn", "tgl-dist"), ("jodie", "mspipe"), ("tgn", "disttgl")),
        )
    ),
]

SHARED = [
    ("t-gcn", "esdg"),
    *(
        pytest.param(*case, marks=pytest.mark.slow)
        for case in (("t-gcn", "flaredtdg"), ("evolvegcn-h", "distdgl"), ("tgn", "memshare"), ("jodie", "fast"), ("dcrnn", "dist-index"))
    ),
]


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Job]:
    return {job.model.name: job for job in family_jobs.jobs(tmp_path_factory.mktemp("cases"), family_jobs.REHEARSED)}


@pytest.fixture(scope="module")
def jobs_of_two(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Job]:
    return {job.model.name: job for job in family_jobs.jobs(tmp_path_factory.mktemp("cases"), family_jobs.REHEARSED, ranks=2)}


@pytest.mark.sample(4)
@pytest.mark.parametrize(("model", "name"), FEW)
def test_each_kind_of_program(jobs: dict[str, Job], model: str, name: str) -> None:
    check(jobs[model], name)


@pytest.mark.slow
@pytest.mark.parametrize(("model", "name"), PAIRS)
def test_a_gpu_has_the_losses_of_a_cpu_and_minds_nothing(jobs: dict[str, Job], model: str, name: str) -> None:
    check(jobs[model], name)


def check(job: Job, name: str) -> None:
    """Two passes of a strategy on both."""
    item = next((item for item in job.items if item.label == name), None)
    if item is None:
        pytest.skip("the strategy does not take the model")

    def losses(device: str) -> list[np.ndarray]:
        settings = Settings(seed=family_jobs.SEED, device=device)
        return [each.losses for each in run_job(replace(job, items=(item,), repeats=2, settings=settings))[name]]

    expected = losses("cpu")
    with pretended(library()) as findings:
        result = losses("cuda")
    assert not findings, str(findings)
    for here, there in zip(expected, result, strict=True):
        assert np.abs(here - there).max() <= CLOSE * np.abs(here).max()


def test_all_that_executes_is_among_the_cases(jobs: dict[str, Job]) -> None:
    """Every model, and every strategy with some model."""
    assert {model for model, _ in PAIRS} == set(jobs)
    assert {name for _, name in PAIRS} == {item.label for job in jobs.values() for item in job.items}
    assert set(PAIRS) >= set(FEW)


PROGRAMS: list[tuple[Callable[..., Program], str, str]] = [
    *((groups, model, way) for model in ("wd-gcn", "gat-lstm", "evolvegcn-h") for way in ("psg", "blad", "every")),
    *((cells, model, name) for model in ("t-gcn", "gat-lstm", "evolvegcn-h") for name in ("esdg", "distdgl")),
    *((blocks, model, name) for model in ("t-gcn", "evolvegcn-h") for name in ("flaredtdg", "flaredtdg-remap")),
]


def run(program: Program) -> None:
    """One pass of a rank's rows."""
    program.begin()
    make_lanes(CUDA).run(program.tasks, program.run)
    program.check()
    program.finish()


@pytest.mark.sample(2)
@pytest.mark.parametrize(("made", "model", "way"), PROGRAMS, ids=lambda value: getattr(value, "__name__", value))
def test_one_of_several_ranks_on_snapshots(made: Callable[..., Program], model: str, way: str) -> None:
    """The others say nothing."""
    with pretended(library()) as findings:
        run(made(model, way, ranks=3, device=CUDA))
    assert not findings, str(findings)


@pytest.mark.parametrize(("model", "name"), SHARED)
def test_two_ranks_that_share_a_gpu_have_the_losses_of_two_cpus(jobs_of_two: dict[str, Job], tmp_path: Path, model: str, name: str) -> None:
    """What they tell each other goes by way of the host, which waits for it, and for nothing else."""
    for minded in of_two(jobs_of_two[model], name, tmp_path, Settings(seed=family_jobs.SEED, share_gpu=True)):
        assert minded and all(Kind.WAIT in line and "at real_exec/communication/host_relay.py" in line for line in minded), "\n".join(
            minded
        )


@pytest.mark.parametrize(("model", "name"), TOGETHER)
def test_two_ranks_have_the_losses_of_two_cpus_and_mind_nothing(jobs_of_two: dict[str, Job], tmp_path: Path, model: str, name: str) -> None:
    """Over gloo, each with a GPU of its own."""
    for minded in of_two(jobs_of_two[model], name, tmp_path, Settings(seed=family_jobs.SEED)):
        results = [line for line in minded if name not in ONCE or Kind.WAIT not in line]
        assert not results, "\n".join(results)


def of_two(job: Job, name: str, folder: Path, settings: Settings) -> list[list[str]]:
    """Two passes of a strategy on two ranks, whose losses have to be the CPU's. Returns what each rank's GPU would have minded."""
    (item,) = (item for item in job.items if item.label == name)
    replace(job, items=(item,), repeats=2, settings=settings).save(folder / "job.json")
    run_on_ranks("pretended_ranks", folder, {2: ["job"]})
    for rank in range(2):
        here, there = np.load(folder / f"job-{rank}.npy")
        assert here.size and np.abs(here - there).max() <= CLOSE * np.abs(here).max()
    return [(folder / f"job-{rank}.txt").read_text().splitlines() for rank in range(2)]


@pytest.mark.parametrize("name", ["tgl", "fast", "memshare"])
@pytest.mark.parametrize("model", ["tgn", pytest.param("jodie", marks=pytest.mark.slow), pytest.param("apan", marks=pytest.mark.slow)])
def test_one_of_several_ranks_on_streams(tmp_path: Path, model: str, name: str) -> None:
    folder = stream_case.prepared(tmp_path, stream_case.stream(features=3))
    sharing = EventHyper(sharing=SharingHyper(shared=0.4, theta=0.5))
    chosen, arguments = stream_case.choice(model), stream_case.hyper(model, events=sharing)
    schedule, others = stream_case.planned(folder, chosen, arguments, name, 2), AbsentPeers(2)
    with pretended(library()) as findings:
        context = Context(device=CUDA, collective=others, exchange=others)
        run(bind_program(Item(name, "", str(folder), arguments), schedule, chosen, context))
    assert not findings, str(findings)


def test_what_another_process_ships_is_pinned(tmp_path: Path) -> None:
    graph = CSR(torch.tensor([0, 1, 1]), torch.tensor([1], dtype=torch.int32), None, 2)
    write_material(tmp_path / "forms", {"full": {(0,): Full(graph, torch.ones(2))}}, {})
    stores: dict[str, dict[tuple[int, ...], Full]] = {"full": {}}
    with pretended(library()):
        map_material(tmp_path / "forms", stores, pin=True)
        (form,) = stores["full"].values()
        assert form.scale is not None and form.scale.is_pinned() and form.graph.indices.is_pinned()


def test_nothing_of_it_is_left() -> None:
    with pretended(library()):
        assert torch.zeros(2, device=CUDA).is_cuda and str(torch.zeros(2).to("cuda").device) == "cuda:0"
    assert not torch.zeros(2).is_cuda

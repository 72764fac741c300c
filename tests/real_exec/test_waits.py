"""In an iteration the host never waits for a GPU, and no sum depends on the order of threads: looked for on a CPU, operation by operation.

Every program's rows run on CPU tensors, by the branches that a GPU takes, while a mode looks at what they dispatch.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import stream_case
import torch
from emulation.stand_in import emulated
from lane_programs import GRAPHS, NODES, blocks, cells, groups
from pairwise import fast, pairwise
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

import chronoscale
from chronoscale.cuda_ext.operators.aggregation import increment_
from chronoscale.cuda_ext.operators.graph import CSR
from chronoscale.cuda_ext.operators.shrink import shrink
from chronoscale.cuda_ext.reference import slots as slots_reference
from chronoscale.datasets import store
from chronoscale.datasets.signals.signal import Signal
from chronoscale.datasets.signals.statistics import SignalStatistics
from chronoscale.real_exec.binding import bind_program, run_preparation
from chronoscale.real_exec.execution.context import Context
from chronoscale.real_exec.execution.program import Program
from chronoscale.real_exec.job import Item
from chronoscale.real_exec.measurement.kernels import AbsentPeers
from chronoscale.real_exec.signals.forecast import walks
from chronoscale.real_exec.snapshots.material import SnapshotForm, SnapshotMaterial
from chronoscale.real_exec.snapshots.program import SnapshotProgram
from chronoscale.real_exec.snapshots.region import Route
from chronoscale.real_exec.snapshots.windows import remap
from chronoscale.real_exec.training.learner import Learner
from chronoscale.strategies.costs import UNUSED
from chronoscale.strategies.registry import strategy
from chronoscale.strategies.schedule import Op
from chronoscale.strategies.signals.forecasters import FORECASTERS, forecaster_shape
from chronoscale.strategies.snapshots.models import MODELS
from chronoscale.strategies.workload import Hyper, ModelChoice, Workload

WAITS = {  # operations of ATen after which the host waits for a GPU
    "_local_scalar_dense": "a number is read: item, int, float, bool, an if",
    "nonzero": "the size of the result is read",
    "nonzero_numpy": "as nonzero",
    "masked_select": "the size of the result is read",
    "bincount": "the largest value is read",
    "histc": "the range is read",
    "_unique": "the size of the result is read",
    "_unique2": "the size of the result is read",
    "unique_dim": "the size of the result is read",
    "unique_consecutive": "the size of the result is read",
    "equal": "the answer is read",
    "allclose": "the answer is read",
}
CALLS = {  # that no operation of a CPU tells of
    "cpu": "comes from the device",
    "tolist": "comes from the device",
    "numpy": "comes from the device",
}
MADE = ("tensor", "as_tensor")  # on a device, from memory that is not pinned
SUMS = ("index_add", "index_add_", "scatter_add", "scatter_add_", "scatter_reduce", "scatter_reduce_", "put", "put_")  # atomic on a GPU
Found = set[tuple[str, str, str]]  # file, function, operation
SOURCES = str(Path(chronoscale.__file__).parent)


def place() -> tuple[str, str]:
    """File and function of ours that the call comes from."""
    frame = sys._getframe(2)
    while frame is not None and not frame.f_code.co_filename.startswith(SOURCES):
        frame = frame.f_back  # type: ignore[assignment]
    assert frame is not None, "an operation of nobody's"
    return frame.f_code.co_filename.removeprefix(SOURCES + "/"), frame.f_code.co_name


class Dispatched(TorchDispatchMode):
    """Fills `found`. `counters`: an optimiser's, which stay on the host."""

    def __init__(self, findings: Found, optimizer: torch.optim.Optimizer) -> None:
        super().__init__()
        self.found, self._optimizer = findings, optimizer

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None) -> Any:
        name = func.overloadpacket.__name__
        if (name in WAITS and not self._counts(args[0])) or (
            name == "repeat_interleave" and (kwargs or {}).get("output_size") is None and "Tensor" in func._overloadname
        ):
            self.found.add((*place(), name))
        elif name.startswith(("index", "_index")) and len(args) > 1 and isinstance(args[1], (list, tuple)):
            if any(isinstance(index, Tensor) and index.dtype in (torch.bool, torch.uint8) for index in args[1]):
                self.found.add((*place(), f"{name} by a mask"))
        elif name in SUMS and args[0].is_floating_point():
            index = args[1] if name.startswith("put") else args[2]
            if len(index.unique()) < index.numel():
                self.found.add((*place(), name))
        return func(*args, **(kwargs or {}))

    def _counts(self, tensor: Tensor) -> bool:
        return any(tensor.data_ptr() == state["step"].data_ptr() for state in self._optimizer.state.values())


class Called(TorchFunctionMode):
    """Fills `found` with calls."""

    def __init__(self, findings: Found) -> None:
        super().__init__()
        self.found = findings

    def __torch_function__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None) -> Any:
        arguments, name = kwargs or {}, getattr(func, "__name__", "")
        ours = name in CALLS and func in (getattr(Tensor, name, None), getattr(torch, name, None))
        built = name in MADE and func is getattr(torch, name) and arguments.get("device", "cpu") != "cpu"  # as text it is the host
        moves = func is Tensor.to and any(isinstance(value, (str, torch.device)) for value in (*args[1:], *arguments.values()))
        if ours or built or (moves and not arguments.get("non_blocking")):
            self.found.add((*place(), name))
        return func(*args, **arguments)


def waits(program: Program, passes: int = 1) -> Found:
    """What rows of the device do; those of the host may wait, and what is read after a pass is."""
    result: Found = set()
    learner: Learner[Any] = program.learner  # type: ignore[attr-defined]
    learner.later, learner.optimizer.param_groups[0]["foreach"] = True, True  # as on a GPU
    getattr(program, "grid", program).shares = False
    for _ in range(passes):
        program.begin()
        for task in program.tasks:
            if task.hosted:
                program.run(task)
                continue
            with emulated(), Called(result), Dispatched(result, learner.optimizer):
                program.run(task)
        program.check()
        program.finish()
    return result


@pytest.fixture(scope="module")
def readings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A signal on a ring with readings missing, and a clock."""
    folder, ring = tmp_path_factory.mktemp("readings") / "ring", np.arange(6)
    values = np.random.default_rng(2).uniform(0, 1, (49, 6, 2)).astype(np.float32)
    missing = np.zeros(values.shape, bool)
    missing[::7, 1, 0] = True
    edges = np.stack([ring, (ring + 1) % 6]).astype(np.int32)
    store.save(folder, Signal(values, edges, np.ones(6, np.float32), missing, calendar=1))
    return folder


def windows(readings: Path, tmp_path: Path, model: str, feed: str, variant: str) -> Program:
    """An epoch, its preparation done."""
    taught = 30.0 * FORECASTERS[model].decodes
    hyper, planner = Hyper(batch_size=4, window=7, horizon=3, variant=variant, teacher_decay=taught), strategy(feed)
    choice = ModelChoice(model, 4, FORECASTERS[model].least_layers(hyper.window), hops=2, heads=2)
    shape = forecaster_shape(choice, 6, 2, hyper.window, hyper.horizon, variant, calendar=1)
    work = Workload("w", SignalStatistics(49, 6, 2, 6, calendar=1), shape, hyper)
    planner.prepare(work, 1, UNUSED).save(tmp_path / "before.parquet")
    item, context = Item("x", "", str(readings), hyper, prepare=str(tmp_path / "before.parquet")), Context()
    run_preparation(item, choice, context)
    return bind_program(item, planner.plan(work, 1, UNUSED), choice, context)


WAYS = [("groups", way) for way in ("psg", "blad", "every")] + [("cells", name) for name in ("esdg", "distdgl")]


@pytest.mark.sample(3)
@pytest.mark.parametrize(("way", "model"), fast(list(product(WAYS, MODELS)), lambda number, _: number % 3 == 0))
def test_snapshots(way: tuple[str, str], model: str) -> None:
    kind, name = way
    program = groups(model, name) if kind == "groups" else cells(model, name, 3)
    if name == "every":
        shape = {task.op for task in program.tasks}
        assert {Op.INCREMENT, Op.RECONSTRUCT} <= shape
    assert not waits(program)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "name", "ranks"), pairwise(product(("t-gcn", "mpnn-lstm", "evolvegcn-h"), ("flaredtdg", "flaredtdg-remap"), (1, 3)))
)
def test_blocks(model: str, name: str, ranks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remap, "kept_ids", remap.sorted_ids)  # as on a GPU
    result = waits(blocks(model, name, ranks), passes=2)
    if name == "flaredtdg-remap":  # a row that sends numbers what it sends, on the host
        checks = (("sparse_arrays", "check_ids"), ("sparse_arrays", "check_numbers"), ("graph", "_measure"))
        result -= {(f"cuda_ext/operators/{file}.py", check, "_local_scalar_dense") for file, check in checks}
    assert not result


FED = [*((model, "gpu-index") for model in FORECASTERS), *(("a3t-gcn", feed) for feed in ("pgt", "index", "dist-index", "gen-dist-index"))]
SIGNALS = [(model, feed, variant) for model, feed in FED for variant in ("exact", "as-published")]


@pytest.mark.parametrize(("model", "feed", "variant"), pairwise(SIGNALS, required=lambda case: case == ("dcrnn", "gpu-index", "exact")))
def test_signals(readings: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: str, feed: str, variant: str) -> None:
    monkeypatch.setattr(walks, "SPARSE", 0)  # as on a GPU
    assert not waits(windows(readings, tmp_path, model, feed, variant))


@pytest.mark.sample(4)
@pytest.mark.parametrize(("model", "ranks"), fast(list(product(stream_case.MODELS, (1, 2))), lambda number, _: number % 4 in (0, 3)))
def test_streams(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: str, ranks: int) -> None:
    monkeypatch.setattr(slots_reference, "check_rows", lambda given, slot: None)  # as on a GPU
    folder = stream_case.prepared(tmp_path, stream_case.stream())
    chosen, given = stream_case.choice(model), stream_case.hyper(model)
    schedule = stream_case.planned(folder, chosen, given, "tgl", ranks)
    assert not waits(stream_case.program(folder, schedule, chosen, given, Context(collective=AbsentPeers(ranks))))


def test_shrinking() -> None:
    """Of a checked snapshot; numbers of rows, columns and entries are the host's."""
    material, result = SnapshotMaterial(GRAPHS, 6), set[tuple[str, str, str]]()
    material.prepare([SnapshotForm(2)])
    graph = material.form(SnapshotForm(2)).graph.check()
    halo = CSR(graph.indptr[:31], graph.indices[: int(graph.indptr[30])], graph.values[: int(graph.indptr[30])], NODES).check()
    with emulated(), Called(result), Dispatched(result, torch.optim.Adam([torch.zeros(1, requires_grad=True)])):
        for whole, rest in ((graph, 0), (halo, 4)):
            shrink(whole, 20, rest, whole.nnz // 2).check()
    assert not result


MOVING = {
    "increments": lambda: groups("wd-gcn", "every"),
    "attention": lambda: groups("gat-lstm", "every"),
    "parts": lambda: cells("gat-lstm", "distdgl", 3),
}


@pytest.mark.parametrize("program", MOVING.values(), ids=MOVING)
def test_transfers_do_not_hold_the_host(program: Any) -> None:
    """To a device that is none: all that goes there is sent without waiting."""
    built, result, sent = program(), set[tuple[str, str, str]](), 0
    elsewhere = torch.device("meta")
    if isinstance(built, SnapshotProgram):
        built.device = elsewhere
    else:
        built.grid.device = elsewhere
    for task in built.tasks:
        if task.op is Op.H2D:
            with Called(result):
                built.run(task)
            sent += 1
    release = (
        [*built.device_state.features.values()]
        if isinstance(built, SnapshotProgram)
        else [features for _, features in built.grid._held.values()]
    )
    assert sent and release and all(features.device == elsewhere for features in release) and not result


def test_a_row_that_several_ranks_return_is_added_up_in_their_order() -> None:
    send = np.array([4, 0, 2, 0, 4, 4], np.int64)  # to three ranks, two each
    route = Route.of(send, [2, 2, 2], [1, 0, 0], 6, torch.device("cpu"))
    returned, own = torch.randn(6, 3), torch.randn(7, 3)
    expected = own.clone().index_add_(0, torch.from_numpy(send), returned)
    route.back.check()
    increment_(own, route.back, returned)
    torch.testing.assert_close(own, expected)
    nothing = Route.of(send[:0], [0, 0, 0], [1, 0, 0], 6, torch.device("cpu"))
    increment_(own, nothing.back, returned[:0])
    torch.testing.assert_close(own, expected)


OFFENCES: dict[str, Any] = {
    "_local_scalar_dense": lambda x: float(x.sum()),
    "nonzero": lambda x: x.nonzero(),
    "index by a mask": lambda x: x[x > 0],
    "masked_select": lambda x: x.masked_select(x > 0),
    "bincount": lambda x: x.long().clamp(min=0).bincount(),
    "repeat_interleave": lambda x: torch.repeat_interleave(torch.arange(3), torch.tensor([1, 2, 3])),
    "_unique2": lambda x: x.unique(),
    "cpu": lambda x: x.cpu(),
    "tolist": lambda x: x.tolist(),
    "to": lambda x: x.to("cpu"),
    "tensor": lambda x: torch.tensor([1.0], device=x.device),
    "index_add_": lambda x: x.index_add_(0, torch.zeros(2, dtype=torch.int64), x[:2].clone()),
}


@pytest.mark.parametrize("name", OFFENCES)
def test_violations_are_detected(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The looking itself: each once, in the place of a program."""
    monkeypatch.setattr(f"{__name__}.SOURCES", str(Path(__file__).parent))
    result: Found = set()
    optimizer = torch.optim.Adam([torch.zeros(1, requires_grad=True)])
    values = torch.randn(4)
    with Called(result), Dispatched(result, optimizer):
        OFFENCES[name](values)
    assert name in {operation for _, _, operation in result}

"""The emulation itself: orders do not matter to our kernels, what CUDA promises holds, and faults planted in the kernels are caught."""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from emulation import sanitizer
from emulation.builder import CSRC, HERE, NAME, PLAIN, PORTABLE, SANITIZED, build, compiler, library
from emulation.cases import one_row, outcomes
from emulation.convert import Unclear, convert
from emulation.stand_in import emulated
from torch import Tensor

from chronoscale.cuda_ext.native import loader
from chronoscale.cuda_ext.native.backend import backends
from chronoscale.cuda_ext.operators.aggregation import aggregate
from chronoscale.cuda_ext.operators.graph import CSR
from chronoscale.errors import MachineError

pytestmark = pytest.mark.skipif(compiler() is None or "cpu" not in backends(), reason="no C++ compiler, or no backend 'cpu'")
SEEDS = range(1, 5)
slow = pytest.mark.slow


def same(some: dict[str, list[Tensor]], others: dict[str, list[Tensor]]) -> list[str]:
    """The cases that differ by a bit."""
    return [name for name in some if not all(torch.equal(a, b) for a, b in zip(some[name], others[name], strict=True))]


@pytest.fixture(scope="module")
def expected(emulation: None) -> dict[str, list[Tensor]]:
    with emulated() as device:
        made = outcomes("cpu")
    assert not {f"cs_cuda_{name}" for name in loader._CUDA_KERNELS} - device.called, "kernels without a case"
    return made


@pytest.mark.slow
def test_the_cases_are_right(expected: dict[str, list[Tensor]]) -> None:
    for name, tensors in outcomes("reference").items():
        for actual, wanted in zip(expected[name], tensors, strict=True):
            torch.testing.assert_close(actual, wanted, rtol=1e-4, atol=1e-3, equal_nan=True, msg=lambda text, name=name: f"{name}: {text}")


@pytest.mark.slow
@pytest.mark.parametrize("seed", [SEEDS[0], *(pytest.param(seed, marks=slow) for seed in SEEDS[1:])])
def test_no_order_changes_a_bit(expected: dict[str, list[Tensor]], seed: int) -> None:
    with emulated(seed):
        assert not same(outcomes("cpu"), expected)


# ---- what CUDA promises ----


@pytest.fixture(scope="module", params=[PLAIN, pytest.param(PORTABLE, marks=slow)], ids=["own switch", "swapcontext"])
def probes(request: pytest.FixtureRequest) -> ctypes.CDLL:
    library = ctypes.CDLL(str(build(HERE / "probes", request.param) / NAME))
    library.error.restype = ctypes.c_char_p
    return library


def run(probes: ctypes.CDLL, name: str, *arguments: int | np.ndarray) -> None:
    given = [a.ctypes.data_as(ctypes.c_void_p) if isinstance(a, np.ndarray) else a for a in arguments]
    code = getattr(probes, f"probe_{name}")(*given)
    assert code == 0, probes.error(code)


@pytest.fixture(params=range(3))
def seeded(probes: ctypes.CDLL, request: pytest.FixtureRequest) -> ctypes.CDLL:
    probes.emu_seed(request.param)
    return probes


@pytest.mark.parametrize("lanes", [1, 2, 4, 8, 16, 32])
def test_groups_of_lanes_go_their_own_ways(seeded: ctypes.CDLL, lanes: int) -> None:
    out = np.zeros(256, np.int32)
    run(seeded, "groups", lanes, 256, out)
    assert np.array_equal(out, np.repeat(np.arange(256).reshape(-1, lanes).sum(1), lanes))


@pytest.mark.parametrize("width", [8, 32])
def test_shuffles_stay_in_their_segments(seeded: ctypes.CDLL, width: int) -> None:
    out, lane = np.zeros((6, 32)), np.arange(32)
    run(seeded, "shuffles", width, out)
    begin = lane // width * width
    assert np.array_equal(out[0], begin + 5 + 0.5)
    assert np.array_equal(out[1], np.where(lane - begin >= 3, lane - 3, lane))
    assert np.array_equal(out[2], np.where(lane - begin + 3 < width, lane + 3, lane))
    assert np.array_equal(out[3], lane ^ 6)
    assert np.array_equal(out[4], begin + 40 % width)
    assert np.array_equal(out[5], np.where((lane ^ 12) < begin + width, lane ^ 12, lane))


def test_votes(seeded: ctypes.CDLL) -> None:
    out, t = np.zeros(33, np.int32), np.arange(32)
    run(seeded, "votes", out)
    ballot = sum(1 << i for i in range(21, 32, 2)) | 1 | 4
    assert np.array_equal(out[:32].view(np.uint32), np.where(t % 2, ballot, t[::2].sum()))
    assert out[32] == 210101


def test_the_last_block_sees_the_others_work(seeded: ctypes.CDLL) -> None:
    blocks, rng = 37, np.random.default_rng(0)
    given, parts, count, out = rng.integers(0, 100, 64 * blocks).astype(float), np.zeros(blocks), np.zeros(1, np.uint32), np.zeros(1)
    for _ in range(2):  # the counter is back at zero
        run(seeded, "last_block", given, blocks, parts, count, out)
        assert out[0] == given.sum() and count[0] == 0


def test_shared_memory_begins_as_poison(seeded: ctypes.CDLL) -> None:
    out = np.zeros(1, np.int32)
    run(seeded, "leftovers", out)
    assert out[0] == 0


def test_atomics(seeded: ctypes.CDLL) -> None:
    i, u, f, d = np.array([0, 99, 0, 0, 0, 0], np.int32), np.zeros(1, np.uint64), np.zeros(1, np.float32), np.zeros(1)
    run(seeded, "atomics", i, u, f, d)
    assert i.tolist() == [960, 0, 479, 2**31 - 1, 0, 480]
    assert (u[0], f[0], d[0]) == (480 * 2**31, 240, 120)


def test_bfloat16_rounds_as_torch_does(seeded: ctypes.CDLL) -> None:
    raw = torch.randn(64, generator=torch.Generator().manual_seed(1)).bfloat16()
    upper = raw.view(torch.int16).int() << 16
    given = (upper | torch.tensor([0x8000, 0x8001, 0x7FFF, 0]).repeat(16).int()).view(torch.float32).clone()  # ties, and beside them
    given[:4] = torch.tensor([0x7F800001, 0x7F800000, -0x00800000, 0x7F7FFFFF], dtype=torch.int32).view(torch.float32)
    out, rounded = np.zeros(64, np.float32), np.zeros(64, np.uint16)
    run(seeded, "halves", raw.view(torch.int16).numpy(), out, given.numpy(), rounded)
    assert torch.equal(torch.from_numpy(out), raw.float())
    torch.testing.assert_close(
        torch.from_numpy(rounded.view(np.int16)).view(torch.bfloat16), given.bfloat16(), rtol=0, atol=0, equal_nan=True
    )


def test_orders_are_drawn(probes: ctypes.CDLL) -> None:
    orders = []
    for seed in (0, 1, 2, 3, 0):
        order, number = np.zeros(100, np.int32), np.zeros(1, np.int32)
        probes.emu_seed(seed)
        run(probes, "numbered", order, number)
        assert np.array_equal(np.bincount(order), np.full(50, 2))
        orders.append(order.tolist())
    assert orders[0] == orders[4] and len({tuple(order) for order in orders}) == 4
    assert max(orders[0][:3]) > 9  # blocks do not come in order
    assert any(a != b for order in orders for a, b in zip(order[::2], order[1::2], strict=True))  # nor without others in between


def test_a_block_can_meet_another_half_done(probes: ctypes.CDLL) -> None:
    complete = []
    for seed in range(40):
        parts, count, out = np.zeros(9, np.uint32), np.zeros(1, np.uint32), np.zeros(1, np.uint32)
        probes.emu_seed(seed)
        run(probes, "counted_early", parts, count, out)
        complete.append(int(out[0]))
    assert min(complete) < 9 and set(complete) - {min(complete)}


@pytest.mark.parametrize(
    ("which", "threads", "message"),
    [
        (0, 64, r"block \d: 61 of 64 threads wait at the barrier at faults.cu:\d+, which the others \(thread 0, for one\) never reach"),
        (1, 64, r"block \d: threads wait at different barriers, faults.cu:\d+ and faults.cu:\d+"),
        (2, 32, r"warp 0: __shfl_xor_sync at faults.cu:\d+: lane 7 of mask 0xffffffff has exited"),
        (2, 24, r"__shfl_xor_sync at faults.cu:\d+: lane (7 of mask 0xffffffff has exited|24 of mask 0xffffffff does not exist)"),
        (3, 32, r"lane \d+ of mask 0x(0000|ffff)ffff has come to __shfl_down_sync at faults.cu:\d+ with mask 0x(0000|ffff)ffff"),
        (4, 32, r"__ballot_sync at faults.cu:\d+: lane \d+ calls with mask 0x000000ff, without itself"),
        (5, 32, r"__any_sync at faults.cu:\d+: lane \d+ of mask 0xffffffff has come to __any_sync at faults.cu:\d+ with mask"),
        (6, 32, r"__syncwarp at faults.cu:\d+: lane 0 of mask 0xffffffff waits at the barrier at faults.cu:\d+"),
        (7, 32, r"a loop around an atomic or a fence that does not end"),
        (8, 32, r"56000 bytes of shared memory a block; there are 49152"),
        (0, 2000, "invalid configuration argument"),
    ],
)
def test_divergence_is_an_error_in_words(seeded: ctypes.CDLL, which: int, threads: int, message: str) -> None:
    out = np.zeros(4096, np.int32)
    code = seeded.fault(which, threads, out.ctypes.data_as(ctypes.c_void_p))
    assert code != 0 and re.search(message, seeded.error(code).decode())
    test_votes(seeded)  # and the device goes on


def test_a_failed_launch_gives_its_stacks_back(probes: ctypes.CDLL) -> None:
    out, maps = np.zeros(64, np.int32), []
    for _ in range(30):
        assert probes.fault(0, 64, out.ctypes.data_as(ctypes.c_void_p)) != 0
        maps.append(Path("/proc/self/maps").read_text().count("\n"))
    assert maps[-1] - maps[9] < 60  # they are drawn from a pool that has grown by then


def test_a_refused_launch_is_an_error_of_ours() -> None:
    with emulated() as device, pytest.raises(MachineError, match="no kernel image is available"):
        device.cuda.emu_refuse(209)
        try:
            aggregate(CSR(torch.tensor([0, 1]), torch.zeros(1, dtype=torch.int32), None, 1), torch.ones(1, 1), "cpu")
        finally:
            device.cuda.emu_refuse(0)


@pytest.mark.parametrize("text", ["k<<<1, 2>>>;", "<<<1, 2>>>(x);", "k<<<1, 2(x);", "__shared__ int a, b;", "__shared__ int a = 3;"])
def test_what_the_converter_cannot_read_it_says(text: str) -> None:
    with pytest.raises(Unclear, match=r"a\.cu:2"):
        convert(f"// <<<\n{text}\n", "a.cu")


# ---- faults planted in the real kernels: each is compiled ----


def planted(folder: Path, file: str, find: str, put: str, which: int = 0) -> Path:
    """A copy of the sources in which the `which`-th `find` of `file` is `put`."""
    copy = folder / "csrc"
    shutil.copytree(CSRC, copy)
    pieces = (copy / file).read_text().split(find)
    assert len(pieces) > which + 1, f"{file} has no '{find}' any more: plant the fault elsewhere"
    (copy / file).write_text(find.join(pieces[: which + 1]) + put + find.join(pieces[which + 1 :]))
    return copy


def barriers() -> list[tuple[str, int]]:
    files = sorted((CSRC / "cuda").glob("*.cu*"))
    return [(f"cuda/{path.name}", i) for path in files for i in range(path.read_text().count("__syncthreads();"))]


DIFFERS, REFUSED = 1, 2


def notices(cuda: ctypes.CDLL, expected: dict[str, list[Tensor]], seeds: Sequence[int] = (0, *SEEDS)) -> bool:
    """Whether faulty kernels give other results, a failed launch, or a crash: they run in a child, whose memory they may spoil."""
    child = os.fork()
    if child:
        status = os.waitpid(child, 0)[1]
        assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) in (0, DIFFERS, REFUSED), "the child itself has failed"
        return status != 0
    try:
        for number in (signal.SIGABRT, signal.SIGSEGV, signal.SIGBUS, signal.SIGALRM):
            signal.signal(number, signal.SIG_DFL)
        signal.alarm(240)
        torch.set_num_threads(1)  # a fork has none of its parent's others
        for seed in range(40):  # quick, and some faults show in one order of many
            with emulated(seed, cuda):
                if same(dict(one_row("cpu")), expected):
                    os._exit(DIFFERS)
        for seed in seeds:
            with emulated(seed, cuda):
                if same(outcomes("cpu"), expected):
                    os._exit(DIFFERS)
        os._exit(0)
    except MachineError:
        os._exit(REFUSED)
    finally:
        os._exit(255)


@slow
def test_sound_kernels_are_not_noticed(expected: dict[str, list[Tensor]]) -> None:
    assert not notices(library(), expected, [9])


@slow
@pytest.mark.parametrize(("file", "which"), barriers())
def test_a_missing_barrier_is_caught(tmp_path: Path, expected: dict[str, list[Tensor]], file: str, which: int) -> None:
    assert notices(library(planted(tmp_path, file, "__syncthreads();", ";", which)), expected)


def caught(tmp_path: Path, file: str, find: str, put: str) -> str:
    with emulated(cuda=library(planted(tmp_path, file, find, put))), pytest.raises(MachineError) as error:
        outcomes("cpu")
    return str(error.value)


@slow
def test_a_divergent_barrier_is_caught(tmp_path: Path) -> None:
    report = caught(tmp_path, "cuda/packs.cuh", "__syncthreads();", "if (threadIdx.x) __syncthreads();")
    assert re.search(r"native aggregate_f32 on cpu: the launch failed: block \d+: .*wait at .*barrier.* packs.cuh:\d+", report)


@slow
def test_a_shuffle_with_an_exited_lane_is_caught(tmp_path: Path) -> None:
    leads = "const bool leads = threadIdx.x % lanes == 0;"
    report = caught(tmp_path, "cuda/attention.cu", leads, f"{leads} if (threadIdx.x == 5) return;")
    assert re.search(
        r"the launch failed: block \d+, warp \d: __\w+_sync at pieces.cuh:\d+: lane 5 of mask 0x[0-9a-f]{8} has exited", report
    )


# One row of three edges, in memory that ends where the row's sums do.
SANITIZED_RUN = """
import ctypes, sys
import numpy as np
cuda = ctypes.CDLL(sys.argv[1])
indptr, indices, weights, x, out = np.array([0, 3]), np.zeros(3, np.int32), np.ones(3), np.ones((1, 600)), np.zeros(600)
arrays = [a.ctypes.data_as(ctypes.c_void_p) for a in (indptr, indices, weights, x, out)]
launch = (ctypes.c_int64(3), None, None, None, ctypes.c_int64(0), 0, None)
assert cuda.cs_cuda_weigh_f64(ctypes.c_int64(1), *arrays[:4], ctypes.c_int64(600), arrays[4], None, *launch) == 0
assert (out == 3).all()
"""


@slow
@pytest.mark.parametrize("sound", [True, False])
def test_a_write_out_of_bounds_is_caught(tmp_path: Path, sound: bool) -> None:
    if not sanitizer.libraries():
        pytest.skip("the compiler lacks libasan")
    given, beyond = "weights, x, width, out, nullptr", "weights, x, width, out + 1, nullptr"
    folder = build(CSRC if sound else planted(tmp_path, "cuda/aggregate.cu", given, beyond), SANITIZED)
    command = [sys.executable, "-c", SANITIZED_RUN, str(folder / NAME)]
    done = subprocess.run(command, env=sanitizer.environment(), capture_output=True, text=True, timeout=60)
    assert (done.returncode == 0) == sound, done.stderr
    assert sound or re.search(r"heap-buffer-overflow(?s:.)*WRITE of size (?s:.)*cuda/aggregate.cu:\d+", done.stderr), done.stderr

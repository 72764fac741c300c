"""Which devices a CUDA library is for, and what is said where it is for none."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

import chronoscale
from chronoscale import cuda_ext
from chronoscale.cuda_ext.native import backend, loader
from chronoscale.cuda_ext.native.devices import BuildInfo, Device, unavailable_reason
from chronoscale.errors import ChronoscaleWarning, UserError

WHEEL = "80,90-real,100-real"  # what CMakeLists.txt builds
NEW = 13000


@pytest.mark.parametrize(
    ("architectures", "driver", "capability", "runs"),
    [
        (WHEEL, NEW, 80, True),
        (WHEEL, NEW, 86, True),  # machine code of 8.0 runs on 8.6
        (WHEEL, NEW, 90, True),
        (WHEEL, NEW, 103, True),
        (WHEEL, NEW, 120, True),  # by PTX of 8.0
        (WHEEL, NEW, 75, False),
        ("90-real", NEW, 80, False),
        ("90-real", NEW, 100, False),
        ("86-real", NEW, 80, False),
        ("90-virtual", NEW, 100, True),
        ("90-virtual", NEW, 80, False),
        ("90a-real", NEW, 90, True),
        ("90a", NEW, 100, False),  # PTX of 9.0a is for 9.0 alone
        ("100f", NEW, 103, True),
        ("100f", NEW, 120, False),
        ("100a-real", NEW, 103, False),
        ("90", 13010, 120, True),
        ("all-major", NEW, 75, True),  # not told: a launch would tell
        ("", NEW, 75, True),
        ("", 12080, 90, False),  # the driver is told
        (WHEEL, 0, 90, False),
    ],
)
def test_what_runs_where(architectures: str, driver: int, capability: int, runs: bool) -> None:
    assert (unavailable_reason(BuildInfo(architectures, NEW), driver, Device("GPU", capability)) is None) == runs


def test_a_driver_of_the_same_major_version_runs_machine_code_and_not_newer_ptx() -> None:
    built = BuildInfo("90", 13010)
    assert unavailable_reason(built, NEW, Device("NVIDIA H100", 90)) is None
    assert unavailable_reason(built, NEW, Device("NVIDIA RTX 5090", 120)) == (
        "NVIDIA RTX 5090 (compute capability 12.0): this library holds code for 9.0 only, and the driver, of CUDA 13.0, does not "
        "compile the PTX of 13.1; update the driver, or build with CUDAARCHS=120"
    )


def test_what_is_missing_is_said_in_words() -> None:
    a100 = Device("NVIDIA A100", 80)
    assert unavailable_reason(BuildInfo("90-real", NEW), NEW, a100) == (
        "NVIDIA A100 (compute capability 8.0): this library holds code for 9.0 only; build with CUDAARCHS=80"
    )
    assert unavailable_reason(BuildInfo("90a-real,100-virtual", NEW), NEW, a100) == (
        "NVIDIA A100 (compute capability 8.0): this library holds code for 9.0a, 10.0 (PTX) only; build with CUDAARCHS=80"
    )
    assert unavailable_reason(BuildInfo(WHEEL, NEW), 12040, a100) == (
        "the driver supports CUDA 12.4, the library was built with 13.0; update the driver, or build with CUDA 12"
    )
    assert unavailable_reason(BuildInfo(WHEEL, NEW), 0, None) == "no NVIDIA driver"


class Library:
    """What the loader asks a CUDA library on a machine with these devices."""

    def __init__(self, architectures: str, driver: int, *devices: Device) -> None:
        self.cs_cuda_version = lambda: loader.ABI_VERSION
        self.cs_cuda_architectures = architectures.encode
        self.cs_cuda_toolkit = lambda: NEW
        self.cs_cuda_driver = lambda: driver
        self.cs_cuda_available = lambda: 0 if devices else 3
        self.cs_cuda_last_error = lambda: b"no CUDA-capable device is detected"
        self.devices = devices

    def cs_cuda_device(self, index: int, capability: object, name: ctypes.Array[ctypes.c_char], size: int) -> int:
        if index >= len(self.devices):
            return 1
        capability._obj.value, name.value = self.devices[index].capability, self.devices[index].name.encode()[: size - 1]
        return 0


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> Iterator[object]:
    """A function that puts a library, or None, in the place of this machine's; torch finds whatever devices it has."""
    cached = (loader.cuda_library, loader.cuda_unavailable_reason, backend.unavailable_reason, backend._begin, backend._default)

    def put(library: Library | None) -> None:
        monkeypatch.setattr(loader, "_cuda", lambda: library)
        monkeypatch.setattr(torch.version, "cuda", "13.0")
        monkeypatch.setattr(torch.cuda, "is_available", lambda: library is not None and bool(library.devices))
        for function in cached:
            function.cache_clear()

    yield put
    monkeypatch.undo()
    for function in cached:
        function.cache_clear()


def test_each_device_is_judged_by_its_own_capability(here) -> None:
    here(Library(WHEEL, NEW, Device("NVIDIA H100", 90), Device("Tesla T4", 75)))
    assert loader.cuda_unavailable_reason() is None and loader.cuda_unavailable_reason(0) is None
    assert loader.cuda_unavailable_reason(1).startswith("Tesla T4 (compute capability 7.5)")
    assert loader.cuda_unavailable_reason(2) == "no CUDA device 2"
    assert "cuda" in backend.backends() and loader.cuda_library() is not None
    assert loader.versions()["cuda"] == f"{loader.ABI_VERSION} ({WHEEL})"
    assert backend.select_kernels(torch.device("cuda", 0), None) is backend.abi
    assert backend.select_kernels(torch.device("cuda", 0), "cuda") is backend.abi
    with pytest.raises(
        UserError, match=r"^backend 'cuda' is not available here: Tesla T4 .* build with CUDAARCHS=75; available: reference"
    ):
        backend.select_kernels(torch.device("cuda", 1), "cuda")
    with pytest.warns(ChronoscaleWarning, match=r"^no native kernels for cuda tensors: Tesla T4 .*; running on the reference kernels"):
        assert backend.select_kernels(torch.device("cuda", 1), None) is backend.aggregation_reference


@pytest.mark.parametrize(
    ("library", "reason"),
    [
        (None, "no CUDA library was built"),
        (Library(WHEEL, 0), "no NVIDIA driver"),
        (Library(WHEEL, NEW), "no CUDA-capable device is detected"),
        (Library("90-real", NEW, Device("NVIDIA A100", 80), Device("NVIDIA A100", 80)), "NVIDIA A100 .8.0.*CUDAARCHS=80"),
    ],
)
def test_a_backend_that_is_missing_says_why(here, library: Library | None, reason: str) -> None:
    here(library)
    assert "cuda" not in backend.backends() and loader.cuda_library() is None
    assert loader.cuda_unavailable_reason().count("NVIDIA A100") < 2  # once for devices alike
    with pytest.raises(UserError, match=f"not available here: {reason.replace('.8.0', '.compute capability 8.0')}; available: reference"):
        backend.select_kernels(torch.device("cuda", 0), "cuda")


def test_a_torch_without_cuda_is_the_reason(here, monkeypatch: pytest.MonkeyPatch) -> None:
    here(Library(WHEEL, NEW, Device("NVIDIA H100", 90)))
    monkeypatch.setattr(torch.version, "cuda", None)
    assert backend.unavailable_reason("cuda") == f"torch {torch.__version__} is built without CUDA"


def test_asking_for_the_cpu_with_a_cuda_tensor_leaves_the_threads_alone(here, monkeypatch: pytest.MonkeyPatch) -> None:
    counts: list[int] = []
    monkeypatch.setattr(backend, "cpu_library", lambda: SimpleNamespace(cs_set_threads=counts.append))
    here(None)
    for device in (torch.device("cpu"), torch.device("cuda", 0), torch.device("cuda", 1)):
        if device.type == "cpu":
            backend.select_kernels(device, "cpu")
        else:
            with pytest.raises(UserError, match="expected cpu tensors"):
                backend.select_kernels(device, "cpu")
    assert len(counts) == 1


@pytest.mark.skipif(
    not any((Path(folder) / "libchronoscale_cuda.so").exists() for folder in cuda_ext.__path__), reason="no CUDA library was built"
)
def test_the_library_itself_loads_without_a_device() -> None:
    program = (
        "from chronoscale.cuda_ext.native import loader; from chronoscale.cuda_ext.native.devices import read_library;"
        "built, driver, found = read_library(loader._cuda()); assert built.codes() and built.toolkit >= 11000, built; assert not found;"
        "print('no NVIDIA driver' if driver == 0 else 'no CUDA-capable device is detected'); print(loader.cuda_unavailable_reason())"
    )
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": str(Path(chronoscale.__file__).parents[1])}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    expected, said = done.stdout.splitlines()
    assert said == expected

"""Fixtures that run a test on every backend that this machine has, and on the CUDA kernels emulated."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import pytest
import torch
from emulation.builder import compiler, library
from emulation.stand_in import EMULATED, emulated
from native_case import CTYPES, without_cpp_operators

from chronoscale.cuda_ext.native import abi
from chronoscale.cuda_ext.native.backend import NAMES, TRITON, backends, set_threads, triton_interpreted, unavailable_reason


@contextmanager
def on(param: str) -> Iterator[str]:
    """Make the backend work, or skip the test, while the block lasts.

    Yields the backend's name; the emulated kernels, and the CPU's without the operators in C++, go by 'cpu', whose tensors they take.
    """
    name = "cpu" if param in (EMULATED, CTYPES) else param
    if name not in backends():
        pytest.skip(f"backend '{name}' is not available on this machine: {unavailable_reason(name)}")
    if param != EMULATED:
        with without_cpp_operators() if param == CTYPES else nullcontext():
            yield name
        return
    if compiler() is None:
        pytest.skip("no C++ compiler")
    with emulated():
        yield name


@pytest.fixture(scope="session")
def emulation() -> None:
    """Compile the emulated kernels, where there is a compiler, so that no test pays for it."""
    if compiler() is not None:
        library()


@pytest.fixture(params=(*NAMES, CTYPES, EMULATED))
def backend(request: pytest.FixtureRequest) -> Iterator[str]:
    """Return the name of each backend in turn."""
    if request.param == EMULATED:
        request.getfixturevalue("emulation")
    with on(request.param) as name:
        yield name


@pytest.fixture(params=(*NAMES, CTYPES, TRITON, EMULATED))
def served(request: pytest.FixtureRequest) -> Iterator[tuple[str, str]]:
    """Return backend and device of an operator on edges."""
    if request.param == EMULATED:
        request.getfixturevalue("emulation")
    with on(request.param) as name:
        yield name, "cuda" if name == "cuda" or (name == TRITON and not triton_interpreted()) else "cpu"


@pytest.fixture
def python_operators() -> Iterator[None]:
    with on(CTYPES):
        yield


@pytest.fixture
def emulated_kernels(emulation: None) -> Iterator[None]:
    with on(EMULATED):
        yield


@pytest.fixture
def steps(backend: str) -> int:
    """Return how many of a thousand changes to make: the emulated kernels are slow, and the rest is the same as on other backends."""
    return 60 if abi.on_cuda(torch.empty(0)) else 1000


@pytest.fixture
def threads() -> Iterator[None]:
    """Give the kernels torch's number of threads again after a test that set it."""
    yield
    set_threads(torch.get_num_threads())


@pytest.fixture
def device(backend: str) -> str:
    return "cuda" if backend == "cuda" else "cpu"

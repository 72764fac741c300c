"""A test that asks for a backend runs on every one that this machine has, and on the CUDA kernels emulated."""

from collections.abc import Iterator

import pytest
import torch
from emulation.builder import compiler
from emulation.stand_in import EMULATED, emulated

from chronoscale.cuda_ext import native
from chronoscale.cuda_ext.backend import NAMES, backends, set_threads


@pytest.fixture(params=(*NAMES, EMULATED))
def backend(request: pytest.FixtureRequest) -> Iterator[str]:
    """Its name; the emulated kernels go by 'cpu', whose tensors they take."""
    name = "cpu" if request.param == EMULATED else request.param
    if name not in backends():
        pytest.skip(f"backend '{name}' is not available on this machine")
    if request.param != EMULATED:
        yield name
        return
    if compiler() is None:
        pytest.skip("no C++ compiler")
    with emulated():
        yield name


@pytest.fixture
def steps(backend: str) -> int:
    """How many of a thousand changes to make: the emulated kernels are slow, and the rest is the same as on other backends."""
    return 100 if native.on_cuda(torch.empty(0)) else 1000


@pytest.fixture
def threads() -> Iterator[None]:
    """Tests may set the kernels' threads: afterwards they have torch's number again."""
    yield
    set_threads(torch.get_num_threads())


@pytest.fixture
def device(backend: str) -> str:
    return "cuda" if backend == "cuda" else "cpu"

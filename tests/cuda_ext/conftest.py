"""A test that asks for a backend runs on every one that this machine has, and on the CUDA kernels emulated."""

from collections.abc import Iterator

import pytest
from emulation.builder import compiler
from emulation.stand_in import EMULATED, emulated

from chronoscale.cuda_ext.backend import NAMES, backends


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
def device(backend: str) -> str:
    return "cuda" if backend == "cuda" else "cpu"

"""A test that asks for a backend runs on every one that this machine has."""

import pytest

from chronoscale.cuda_ext.backend import NAMES, backends


@pytest.fixture(params=NAMES)
def backend(request: pytest.FixtureRequest) -> str:
    if request.param not in backends():
        pytest.skip(f"backend '{request.param}' is not available on this machine")
    return request.param


@pytest.fixture
def device(backend: str) -> str:
    return "cuda" if backend == "cuda" else "cpu"

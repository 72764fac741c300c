"""What several tests of execution share."""

import pytest
from rival_cases import run_everywhere


@pytest.fixture(scope="session")
def rivals(tmp_path_factory, request):
    """The folder of what rivals on windows gave on each rank, on as many ranks as tests of this session ask for."""
    using = [item for item in request.session.items if "rivals" in getattr(item, "fixturenames", ()) and hasattr(item, "callspec")]
    return run_everywhere(tmp_path_factory.mktemp("rivals"), sorted({item.callspec.params["ranks"] for item in using}))

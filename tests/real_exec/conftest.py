"""What several tests of execution share."""

import pytest
from rival_cases import everywhere


@pytest.fixture(scope="session")
def rivals(tmp_path_factory):
    """The folder of what rivals on windows gave on each rank."""
    return everywhere(tmp_path_factory.mktemp("rivals"))

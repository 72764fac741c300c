"""The seeded faults can be seeded: their text stands where they say, once, and the tests that notice them are there."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests" / "mutants"))
from fault import Fault, load  # noqa: E402 (a folder that is no package)


@pytest.mark.parametrize("fault", load([]), ids=lambda fault: fault.name)
def test_a_fault_fits_its_file_and_its_tests_exist(fault: Fault) -> None:
    assert fault.seeded((ROOT / "src" / "chronoscale" / fault.file).read_text())
    for test in fault.tests.split():
        file, _, name = test.partition("::")
        defined = [node.name for node in ast.parse((ROOT / file).read_text()).body if isinstance(node, ast.FunctionDef)]
        assert not name or name.partition("[")[0] in defined, test

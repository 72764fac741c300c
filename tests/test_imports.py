"""Imports go down the floors only; real_exec and simulator never meet; optional rooms stay optional."""

import ast
from pathlib import Path

import chronoscale

FLOORS = {"cuda_ext": 0, "datasets": 1, "strategies": 2, "simulator": 3, "real_exec": 3, "reports": 4, "harness": 5}
ROOT = Path(chronoscale.__file__).parent


def imports(path: Path) -> list[str]:
    tree = ast.parse(path.read_text())
    found = [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
    return found + [node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module]


def test_imports_go_down():
    climbing = []
    for room, floor in FLOORS.items():
        for path in (ROOT / room).rglob("*.py"):
            for name in imports(path):
                parts = name.split(".")
                if parts[0] == "chronoscale" and len(parts) > 1 and parts[1] in FLOORS:
                    other = parts[1]
                    if other != room and FLOORS[other] >= floor:
                        climbing.append(f"{path.relative_to(ROOT)} imports {name}")
    assert climbing == []


def test_every_room_is_checked():
    rooms = {path.name for path in ROOT.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert rooms == set(FLOORS)


def test_planning_needs_no_torch():
    for room in ("datasets", "simulator", "reports"):
        for path in (ROOT / room).rglob("*.py"):
            assert not any(name.split(".")[0] == "torch" for name in imports(path)), path


def test_no_relative_imports():
    for path in ROOT.rglob("*.py"):
        assert not any(isinstance(node, ast.ImportFrom) and node.level for node in ast.walk(ast.parse(path.read_text()))), path

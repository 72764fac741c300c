"""Rooms: imports go down, never in a circle and never deep; what plans needs no torch; links to rooms hide no other package."""

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import chronoscale

FLOORS = {"cuda_ext": 0, "datasets": 1, "batching": 2, "strategies": 3, "simulator": 4, "real_exec": 4, "reports": 5, "harness": 6}
ROOT = Path(chronoscale.__file__).parent
LAYERS = {"harness": 13}  # imports of one room, one above the other, at most
FILES = 28  # of one folder
TAKE_EXPERIMENTS = 32  # modules with a function to which a whole experiment file is handed, where some of its keys would not do


@cache
def modules() -> dict[str, ast.Module]:
    """Every module of the package, by its dotted name."""
    paths = (path.relative_to(ROOT).with_suffix("") for path in ROOT.rglob("*.py") if path.name != "__init__.py")
    return {".".join(path.parts): ast.parse((ROOT / path).with_suffix(".py").read_text()) for path in paths}


def imported(tree: ast.Module) -> Iterator[str]:
    """What a module imports: modules, and names that may be modules."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@cache
def arrows() -> dict[str, set[str]]:
    """From each module of the package to those of it that it imports, also within functions and for types alone."""
    trees = modules()
    inside = {name: {other.removeprefix("chronoscale.") for other in imported(tree)} for name, tree in trees.items()}
    return {name: {other for other in others if other in trees and other != name} for name, others in inside.items()}


@pytest.fixture(scope="module", autouse=True)
def package() -> None:
    """Read once for all of these tests."""
    arrows()


def test_imports_go_down() -> None:
    room = {name: name.split(".")[0] for name in arrows()}
    climbing = [
        f"{name} imports {other}"
        for name, others in arrows().items()
        for other in others
        if room[name] in FLOORS and room[other] in FLOORS and room[name] != room[other] and FLOORS[room[other]] >= FLOORS[room[name]]
    ]
    assert climbing == []


def test_no_circles() -> None:
    try:
        order = list(TopologicalSorter(arrows()).static_order())
    except CycleError as error:
        raise AssertionError(" > ".join(error.args[1])) from None
    assert set(order) == set(arrows())


def test_rooms_are_shallow_and_folders_small() -> None:
    deep: dict[str, int] = {}
    for name in TopologicalSorter(arrows()).static_order():
        deep[name] = 1 + max((deep[other] for other in arrows()[name] if other.split(".")[0] == name.split(".")[0]), default=0)
    for room, most in LAYERS.items():
        assert max(depth for name, depth in deep.items() if name.split(".")[0] == room) <= most
    folders = [name.rpartition(".")[0] for name in arrows()]
    assert {folder: count for folder in set(folders) if (count := folders.count(folder)) > FILES} == {}


def test_few_modules_take_a_whole_experiment() -> None:
    takes = [name for name, tree in modules().items() if any(takes_experiment(node) for node in ast.walk(tree))]
    assert len(takes) <= TAKE_EXPERIMENTS, takes


def takes_experiment(node: ast.AST) -> bool:
    return isinstance(node, ast.arg) and isinstance(node.annotation, ast.Name) and node.annotation.id == "Experiment"


def test_every_room_is_checked() -> None:
    rooms = {path.name for path in ROOT.iterdir() if path.is_dir() and any(path.rglob("*.py"))}  # studies are files of data
    assert rooms == set(FLOORS)


def test_planning_needs_no_torch() -> None:
    for name, tree in modules().items():
        if name.split(".")[0] in ("datasets", "batching", "simulator", "reports"):
            assert not any(other.split(".")[0] == "torch" for other in imported(tree)), name


def test_no_relative_imports() -> None:
    for name, tree in modules().items():
        assert not any(isinstance(node, ast.ImportFrom) and node.level for node in ast.walk(tree)), name


def test_links_to_rooms_hide_no_other_package(tmp_path: Path) -> None:
    """A script in the checkout's root that imports Hugging Face's `datasets`, or any package of a room's name, gets that package."""
    for room in FLOORS:
        (tmp_path / "installed" / room).mkdir(parents=True)
        (tmp_path / "installed" / room / "__init__.py").touch()
        (tmp_path / room).symlink_to(ROOT / room)
    script = tmp_path / "script.py"
    script.write_text("".join(f"import {room}; print({room}.__file__)\n" for room in FLOORS))
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "installed")}
    printed = subprocess.run([sys.executable, script], env=environment, capture_output=True, text=True, check=True).stdout
    assert printed.split() == [str(tmp_path / "installed" / room / "__init__.py") for room in FLOORS]

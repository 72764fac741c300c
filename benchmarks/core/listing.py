"""Listing: subjects by name, and what each says of itself, read from its source: importing all takes seconds."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "subjects"
CUDA = 3  # position of `cuda` among the parameters of core.case.Subject


def names() -> list[str]:
    """Return the names of all subjects."""
    return sorted(path.stem for path in FOLDER.glob("*.py") if path.stem != "__init__")


def lines() -> Iterator[str]:
    """Yield a line a subject: its name, whether it has cases for a GPU, and the first line of its docstring."""
    for name in names():
        tree = ast.parse((FOLDER / f"{name}.py").read_text(encoding="utf-8"))
        device = "cuda" if _has_cuda(tree) else ""
        yield f"{name:<16} {device:<5} {(ast.get_docstring(tree) or '').partition(chr(10))[0]}"


def _has_cuda(tree: ast.Module) -> bool:
    calls = (node.value for node in tree.body if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "SUBJECT")
    return any(isinstance(call, ast.Call) and (len(call.args) > CUDA or any(one.arg == "cuda" for one in call.keywords)) for call in calls)

"""Code: a digest of what a module runs: its own source and that of all of the package that it imports, without their prose."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

import chronoscale

PACKAGE = chronoscale.__name__
ROOT = Path(chronoscale.__file__).parent
# What modules read or load besides: native sources for CPUs, figures of machines and kernels.
BESIDE = ("cuda_ext/csrc/common/*", "cuda_ext/csrc/cpu/*", "cuda_ext/csrc/torch/*", "simulator/**/*.yaml", "strategies/**/*.yaml")
PROSE = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


class Source(NamedTuple):
    """Module of the package. digest: of its code without docstrings and comments. imports: names of what it imports, modules or
    not, and of others."""

    digest: str
    imports: frozenset[str]


@cache
def code_digest(*modules: str) -> str:
    """Return a digest of the code that modules of this package run, by which results of other code are known.

    It changes with their code and with that of every module of the package that they import, directly or not, also within functions; with
    the native sources for CPUs, and with the files that simulator and strategies read. It does not change with docstrings and comments of
    Python. Sources are read once a process. modules: dotted names; others than the package's own are left out.
    """
    digests: dict[str, str] = {}
    waiting = list(modules)
    while waiting:
        name = waiting.pop()
        if name not in digests and (source := _source(name)) is not None:
            digests[name] = source.digest
            waiting += source.imports
    return sha256("\n".join([_beside(), *(f"{name} {digests[name]}" for name in sorted(digests))]).encode()).hexdigest()[:20]


def path_of(module: str) -> Path | None:
    """Return the file of a module of this package, None where there is none of this name."""
    first, *names = module.split(".")
    place = ROOT.joinpath(*names)
    return next((file for file in (place.with_suffix(".py"), place / "__init__.py") if file.is_file()), None) if first == PACKAGE else None


@cache
def _source(module: str) -> Source | None:
    if (path := path_of(module)) is None:
        return None
    tree = ast.parse(path.read_bytes())
    imports = {PACKAGE, module.rpartition(".")[0]}  # packages that are imported with it
    for node in ast.walk(tree):
        if isinstance(node, PROSE) and ast.get_docstring(node, clean=False) is not None:
            del node.body[0]
        imports.update(_imported(node))
    return Source(sha256(ast.dump(tree).encode()).hexdigest(), frozenset(imports))


def _imported(node: ast.AST) -> Iterator[str]:
    """Yield what an import names, and the modules that a text names, such as a rank's entry; all of a folder where it ends with a dot."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and node.module:
        yield node.module
        yield from (f"{node.module}.{alias.name}" for alias in node.names)
    elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith(f"{PACKAGE}."):
        folder = ROOT.joinpath(*node.value.split(".")[1:])
        yield from [f"{node.value}{file.stem}" for file in folder.glob("*.py")] if node.value.endswith(".") else [node.value]


@cache
def _beside() -> str:
    hashed = sha256()
    for file in sorted({file for pattern in BESIDE for file in ROOT.glob(pattern) if file.is_file()}):
        hashed.update(f"{file.relative_to(ROOT)}\n".encode() + file.read_bytes())
    return hashed.hexdigest()

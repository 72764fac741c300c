"""Modules: the user's Python files, run once a process."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from importlib import util
from pathlib import Path
from types import ModuleType

from chronoscale.errors import UserError


@dataclass(frozen=True, slots=True)
class Source:
    """User's Python file as a process has run it, for processes that do not have it on their disk. name: of the module that it became."""

    file: str
    name: str
    content: bytes


_executed = list[str]()
_sources = dict[str, Source]()  # of modules that are loaded, by their names


def executed() -> tuple[str, ...]:
    """Return the files that this process has begun to run."""
    return tuple(_executed)


def sources() -> tuple[Source, ...]:
    """Return the files that this process has run, in this order, for another one to `run`."""
    return tuple(_sources.values())


def load(file: str | Path) -> ModuleType:
    """Run the file, unless this process has. Raises UserError in one line: the file, and what went wrong."""
    path = Path(file)
    if not path.is_file():
        raise UserError(f"{file}: no such file")
    name = f"chronoscale_outside_{sha256(str(path.resolve()).encode()).hexdigest()[:12]}"
    if name not in sys.modules:
        run(Source(str(file), name, path.read_bytes()))
    return sys.modules[name]


def run(source: Source) -> None:
    """Run a file's content as the module of its name, unless this process has. Raises UserError as `load`, and where this process has run
    another content under that name."""
    file, name = source.file, source.name
    if name in sys.modules:
        if name in _sources and _sources[name].content != source.content:
            raise UserError(f"{file}: a process that goes on from before has run what this file was then; start the Dask workers anew")
        return
    spec = util.spec_from_file_location(name, file)
    if spec is None:
        raise UserError(f"{file}: not a Python file")
    sys.modules[name] = module = util.module_from_spec(spec)  # known by its name while it runs, as dataclasses want
    _executed.append(file)
    try:
        exec(compile(source.content, file, "exec", dont_inherit=True), module.__dict__)  # not as an import: Ctrl-C is heard
    except (Exception, SystemExit) as error:  # whatever the user's code raises
        del sys.modules[name]
        raise UserError(f"{file}: not importable ({type(error).__name__}: {error})") from error
    _sources[name] = source


def fingerprints(files: Iterable[str]) -> dict[str, str]:
    """Return the SHA-256 of each file."""
    return {file: sha256(Path(file).read_bytes()).hexdigest() for file in files}

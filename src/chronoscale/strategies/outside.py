"""Outside: strategies from files and from installed packages, taken only if they are whole."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Collection
from hashlib import sha256
from importlib import metadata, util
from pathlib import Path

from chronoscale.errors import UserError
from chronoscale.strategies.strategy import Strategy

SUFFIX = ".py:"
NEEDED = ("name", "title", "source", "family", "kind")


def is_file(name: str) -> bool:
    """Whether a strategy is named by its file, as in `my_lab.py:Mine`."""
    return SUFFIX in name


def anchored(name: str, folder: Path) -> str:
    """The same, its file absolute; a relative one is relative to `folder`."""
    if not is_file(name):
        return name
    file, _, attribute = name.rpartition(":")
    return f"{(folder / file).absolute()}:{attribute}"


def of_file(name: str, taken: Collection[str]) -> Strategy:
    """The strategy `FILE.py:NAME`, a class that needs no arguments or an instance. The file is run, once a process.

    Raises UserError in one line: the file, and what is missing or wrong.
    """
    file, _, attribute = name.rpartition(":")
    path = Path(file)
    if not path.is_file():
        raise UserError(f"{file}: no such file (strategy '{name}')")
    module = f"chronoscale_outside_{sha256(str(path.resolve()).encode()).hexdigest()[:12]}"
    if module not in sys.modules:
        spec = util.spec_from_file_location(module, path)
        assert spec is not None and spec.loader is not None
        sys.modules[module] = loaded = util.module_from_spec(spec)  # known by its name while it runs, as dataclasses want
        try:
            spec.loader.exec_module(loaded)
        except Exception as error:
            del sys.modules[module]
            raise UserError(f"{file}: not importable ({type(error).__name__}: {error})") from error
    here = vars(sys.modules[module])
    if attribute not in here:
        own = [key for key, value in here.items() if inspect.isclass(value) and issubclass(value, Strategy) and value.__module__ == module]
        raise UserError(f"{file}: no '{attribute}' in it; strategies there: {', '.join(own) or 'none'}")
    found = whole(here[attribute], name)
    if found.name in taken:
        raise UserError(f"{file}: '{attribute}' is called '{found.name}', and that name is taken")
    if found.solves:
        raise UserError(f"{file}: '{attribute}' sets `solves`, which needs a process of its own: install it as a package")
    return found


def of_package(entry: metadata.EntryPoint) -> Strategy:
    """The strategy of an entry point. Raises UserError in one line: the entry point, and what is missing or wrong."""
    where = f"strategy '{entry.name}' ({entry.value})"
    try:
        loaded = entry.load()
    except Exception as error:
        raise UserError(f"{where}: not importable ({type(error).__name__}: {error})") from error
    found = whole(loaded, where)
    if found.name != entry.name:
        raise UserError(f"{where}: its name is '{found.name}', not the entry point's")
    return found


def whole(found: object, where: str) -> Strategy:
    """What was found, as a strategy. Raises UserError naming what it lacks."""
    if inspect.isclass(found):
        if issubclass(found, Strategy) and (absent := sorted(found.__abstractmethods__)):
            raise UserError(f"{where}: has no {', '.join(f'`{name}`' for name in absent)}")
        try:
            found = found()
        except TypeError as error:
            raise UserError(f"{where}: a strategy is an instance, or a class that needs no arguments ({error})") from error
    if not isinstance(found, Strategy):
        raise UserError(f"{where}: not a Strategy but {type(found).__name__}; derive it from `chronoscale.strategies.strategy.Strategy`")
    if lacking := [name for name in NEEDED if not isinstance(getattr(found, name, None), str)]:
        raise UserError(f"{where}: has no {', '.join(f'`{name}`' for name in lacking)}")
    return found

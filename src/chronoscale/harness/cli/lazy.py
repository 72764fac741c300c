"""Lazy groups of commands, which import a command's module when the command is called, and not before."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, ClassVar, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

from chronoscale.interruption import at_once


class Entry(NamedTuple):
    """Row of the table of commands, so that a command's module is imported only when it is called.

    target: `module:function`, or `module:class` of a LazyGroup. help: what the command does, in a line.
    """

    target: str
    help: str

    def command(self, name: str) -> Any:
        """Import the command's module, and return the command under this name."""
        module, _, attribute = self.target.partition(":")
        with at_once():
            target = getattr(import_module(module), attribute)
        app = typer.Typer(add_completion=False, no_args_is_help=True, help=self.help)
        if isinstance(target, type):
            app.callback(cls=target)(lambda: None)
        else:
            app.command(name)(target)
        command = typer.main.get_command(app)
        command.name = name
        return command


class Deferred(TyperCommand):
    """Stand-in of a command in `chronoscale --help`; once it is called, its module is imported and the command itself takes over."""

    def __init__(self, name: str, entry: Entry) -> None:
        super().__init__(name, help=entry.help)
        self._entry = entry

    def make_context(self, info_name: Any, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """Make the context of the command itself."""
        return self._entry.command(str(self.name)).make_context(info_name, args, parent, **extra)


class LazyGroup(TyperGroup):
    """Group of commands that are imported when they are called; subclasses list them, in order, in `entries`."""

    entries: ClassVar[Mapping[str, Entry]]

    def __init__(self, **settings: Any) -> None:
        super().__init__(**{**settings, "commands": {name: Deferred(name, entry) for name, entry in self.entries.items()}})

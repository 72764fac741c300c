"""Lazy: groups of commands that import a command's module when the command is called, and not before."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, ClassVar, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

from chronoscale.interruption import at_once


class Entry(NamedTuple):
    """A command as the table knows it: `module:function`, or `module:class` of a LazyGroup; and what it does, in a line."""

    target: str
    help: str

    def command(self, name: str) -> Any:
        """The command itself, imported now."""
        module, _, attribute = self.target.partition(":")
        with at_once():
            found = getattr(import_module(module), attribute)
        app = typer.Typer(add_completion=False, no_args_is_help=True, help=self.help)
        if isinstance(found, type):
            app.callback(cls=found)(lambda: None)
        else:
            app.command(name)(found)
        command = typer.main.get_command(app)
        command.name = name
        return command


class Deferred(TyperCommand):
    """Stands in the list of commands; once it is called, the command itself takes over."""

    def __init__(self, name: str, entry: Entry) -> None:
        super().__init__(name, help=entry.help)
        self._entry = entry

    def make_context(self, info_name: Any, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """Of the command itself."""
        return self._entry.command(str(self.name)).make_context(info_name, args, parent, **extra)


class LazyGroup(TyperGroup):
    """A subclass has a table: `entries` are its commands, in this order."""

    entries: ClassVar[Mapping[str, Entry]]

    def __init__(self, **settings: Any) -> None:
        super().__init__(**{**settings, "commands": {name: Deferred(name, entry) for name, entry in self.entries.items()}})

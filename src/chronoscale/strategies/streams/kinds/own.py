"""OwnKind: a model of event streams in a user's file, as planners count it."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING

from chronoscale import modules
from chronoscale.errors import UserError
from chronoscale.strategies.plugins import file_of, title_of
from chronoscale.strategies.streams.kinds.base import StreamKind, StreamShape
from chronoscale.strategies.streams.kinds.operations import Count, Work
from chronoscale.strategies.streams.kinds.tgn import TGN

if TYPE_CHECKING:
    from torch import nn


class OwnKind(StreamKind):
    """Model that an experiment names by file and class, `my_model.py:Mine`, as planners count it: parameters exactly, work by an estimate.

    It has layers over sampled neighbours where the class defines `forward`, and node memory where it defines `update`
    (`real_exec.streams.models.own`). The estimate is the work of TGN's attention and recurrence at these widths.
    """

    source = "a file of one's own"
    clock = True
    edges = True
    own = True

    def __init__(self, name: str, kind: type[nn.Module], forward: bool) -> None:
        self.name, self._class = name, kind
        self.memory = hasattr(kind, "update")
        self.spatial = "own" if forward else "none"
        self.temporal = "own" if self.memory else "none"

    @classmethod
    def load(cls, name: str) -> OwnKind:
        """Load the model `FILE.py:CLASS`; the file is run once a process. Raises UserError in one line: the file, and what is expected."""
        file, attribute = file_of(name), title_of(name)
        return _kind(name, file, getattr(modules.load(file), attribute, None))

    def module(self, shape: StreamShape) -> nn.Module:
        """Return the untrained module of the user's class, float32. Raises UserError for one that cannot be made of these sizes."""
        with errors_of(self.name, "__init__(shape)"):
            return self._class(shape)

    def mail(self, hidden: int, edge: int) -> int:
        return 2 * hidden + edge if self.memory else 0

    def parameters(self, shape: StreamShape) -> int:
        """Count the parameters of the user's module, of which one is made; nothing else that is drawn changes by that."""
        from torch import random  # noqa: PLC0415 (as below)

        with random.fork_rng(devices=[]):
            return sum(parameter.numel() for parameter in self.module(shape).parameters())

    def update(self, shape: StreamShape, rows: Count) -> Work:
        return TGN().update(shape, rows)


@cache
def _kind(name: str, file: str, member: object) -> OwnKind:
    from torch import nn  # noqa: PLC0415 (for models in files, which import it themselves)

    attribute = title_of(name)
    if not (inspect.isclass(member) and issubclass(member, nn.Module)):
        what = f"no '{attribute}' in it" if member is None else f"'{attribute}' is not a class of modules"
        raise UserError(f"{file}: {what}; expected `class {attribute}(torch.nn.Module)` with `forward` or `update`, see docs/extending.md")
    kind = OwnKind(name, member, member.forward is not nn.Module.forward)
    if not (kind.aggregates or kind.memory):
        raise UserError(f"{file}: '{attribute}' defines neither `forward`, which reads neighbours, nor `update`, which makes node memory")
    return kind


@contextmanager
def errors_of(name: str, part: str) -> Iterator[None]:
    """Turn what a user's class raises into a UserError of one line: the file, the line in it, the method and the reason.

    name: `FILE.py:CLASS`; part: the method, as it is called. Errors of memory and of ours stay what they are.
    """
    try:
        yield
    except (UserError, MemoryError):
        raise
    except Exception as error:
        file, attribute = file_of(name), title_of(name)
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
        where = f"{file}:{lines[-1]}" if lines else file
        reason = next(iter(str(error).splitlines()), "")
        raise UserError(f"{where}: {attribute}.{part}: {type(error).__name__}: {reason}") from error

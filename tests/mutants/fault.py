"""Fault: one small wrong change of the package, and the tests that must notice it."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cache

import anchor
import tokens
import yaml
from anchor import Place, Unfit

LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
PYTHON = cache(anchor.Source)
OTHER = cache(tokens.Source)


@dataclass(frozen=True, slots=True)
class Fault:
    """In the function `scope` of `file` (under src/chronoscale), what fits `find` becomes `put`; `wrong`: what that breaks, in
    words; `tests`: arguments of pytest, as few as notice it. `nth`, from 1, tells equal places apart."""

    name: str
    file: str
    scope: str
    find: str
    put: str
    wrong: str
    tests: str
    nth: int = 0

    @property
    def native(self) -> bool:
        """Whether the library of the CPU kernels has to be built anew."""
        return self.file.endswith((".cpp", ".h")) and not self.operators

    @property
    def operators(self) -> bool:
        """Whether the operators in C++ have to be compiled anew."""
        return self.file.startswith("cuda_ext/csrc/torch/")

    def place(self, text: str) -> tuple[Place, str]:
        """Where the fault stands in the file's text, and what comes there. Raises Unfit where that is not one place, or nothing changes."""
        try:
            places, put = self._in_python(text) if self.file.endswith(".py") else self._in_tokens(text)
        except Unfit as reason:
            raise Unfit(f"{self.file}: {reason}") from None
        except SyntaxError as error:
            raise Unfit(f"{self.file}: find or put is no Python ({error.msg})") from None
        if len(places) < max(self.nth, 1) or (len(places) > 1 and not self.nth):
            raise Unfit(f"{self.file}: {len(places)} places in '{self.scope}' fit, expected {self.nth or 'one'}")
        return places[max(self.nth, 1) - 1], put

    def _in_python(self, text: str) -> tuple[list[Place], str]:
        find, put = anchor.read_pattern(self.find), anchor.read_pattern(self.put)
        if anchor.fits(find, put) and anchor.fits(put, find):
            raise Unfit("the replacement changes nothing")
        if isinstance(find, ast.expr) and isinstance(put, ast.expr):
            return PYTHON(text).find(self.scope, find), f"({self.put.strip()})"
        return PYTHON(text).find(self.scope, anchor.as_statements(find)), self.put.strip()

    def _in_tokens(self, text: str) -> tuple[list[Place], str]:
        find, put = ([token.text for token in tokens.tokens_of(source)] for source in (self.find, self.put))
        if find == put:
            raise Unfit("the replacement changes nothing")
        return OTHER(text).find(self.scope, find), self.put

    def seeded(self, text: str) -> str:
        """The file's text with the fault. Raises Unfit as `place` does, and for what is no Python."""
        at, put = self.place(text)
        raw = text.encode()
        put = put.replace("\n", "\n" + " " * at.indent) if self.file.endswith(".py") else put
        changed = (raw[: at.begin] + put.encode() + raw[at.end :]).decode()
        if self.file.endswith(".py"):
            try:
                ast.parse(changed)
            except SyntaxError as error:
                raise Unfit(f"{self.file}: with the fault it is no Python ({error})") from None
        return changed


def read(text: str) -> list[Fault]:
    return [Fault(**{"scope" if key == "in" else key: value for key, value in entry.items()}) for entry in yaml.load(text, LOADER)]

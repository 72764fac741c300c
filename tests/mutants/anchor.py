"""Where a fault stands in Python: statements or an expression of a function, found by its syntax tree and not by its text."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

Pattern = ast.expr | list[ast.stmt]
SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
WILD = "_"


class Unfit(Exception):
    """A fault that cannot be seeded, or tests that cannot judge it."""


@dataclass(frozen=True, slots=True)
class Place:
    """What a pattern fits: bytes `begin` to `end` of the file, `indent` columns from the margin."""

    begin: int
    end: int
    indent: int


def read_pattern(text: str) -> Pattern:
    """The expression or, where it is none, the statements that a text says."""
    try:
        return ast.parse(text.strip(), mode="eval").body
    except SyntaxError:
        return ast.parse(text).body


def as_statements(pattern: Pattern) -> list[ast.stmt]:
    return pattern if isinstance(pattern, list) else [ast.Expr(pattern)]


def fits(pattern: object, node: object) -> bool:
    """Whether a node is what the pattern says; the name `_` of a pattern fits any expression."""
    if isinstance(pattern, ast.Name) and pattern.id == WILD and isinstance(node, ast.expr):
        return True
    if type(pattern) is not type(node):
        return False
    if isinstance(pattern, list):
        return len(pattern) == len(node) and all(map(fits, pattern, node))
    if isinstance(pattern, ast.AST):
        return all(field == "ctx" or fits(getattr(pattern, field, None), getattr(node, field, None)) for field in pattern._fields)
    return bool(pattern == node)


class Source:
    """A Python file, parsed once: the nodes and the lists of statements of each function, by its qualified name."""

    def __init__(self, text: str) -> None:
        self.bytes = text.encode()
        self.nodes: dict[str, list[ast.expr]] = {}
        self.bodies: dict[str, list[list[ast.stmt]]] = {}
        self._starts = [0]
        for line in self.bytes.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))
        self._walk(ast.parse(text), "")

    def _walk(self, node: ast.AST, scope: str) -> None:
        """Decorators, arguments and bases belong to the function or class that they stand at; what is defined in it has its own scope."""
        if isinstance(node, ast.expr):
            self.nodes.setdefault(scope, []).append(node)
            if isinstance(node, ast.JoinedStr):
                return  # before Python 3.12 the places of what stands in it are wrong
        for _, value in ast.iter_fields(node):
            children = value if isinstance(value, list) else [value]
            if children and isinstance(children[0], ast.stmt):
                self.bodies.setdefault(scope, []).append(children)
            for child in children:
                if isinstance(child, SCOPES):
                    self._walk(child, f"{scope}.{child.name}".lstrip("."))
                elif isinstance(child, ast.AST):
                    self._walk(child, scope)

    def find(self, scope: str, pattern: Pattern) -> list[Place]:
        """All places in a scope, and in none that is defined in it, that a pattern fits. Raises Unfit where there is no such scope."""
        if scope not in self.bodies and scope not in self.nodes:
            raise Unfit(f"no function or class '{scope}'")
        if isinstance(pattern, ast.expr):
            return sorted((self._place(node, node) for node in self.nodes.get(scope, []) if fits(pattern, node)), key=lambda at: at.begin)
        return sorted(self._runs(scope, pattern), key=lambda at: at.begin)

    def _runs(self, scope: str, pattern: list[ast.stmt]) -> Iterator[Place]:
        count = len(pattern)
        for body in self.bodies.get(scope, []):
            for at in range(len(body) - count + 1):
                if fits(pattern, body[at : at + count]):
                    yield self._place(body[at], body[at + count - 1])

    def _place(self, first: ast.expr | ast.stmt, last: ast.expr | ast.stmt) -> Place:
        assert last.end_lineno is not None and last.end_col_offset is not None
        row, column = first.lineno, first.col_offset
        for decorator in getattr(first, "decorator_list", []):
            row = min(row, decorator.lineno)
        begin = self._starts[row - 1] + column
        return Place(begin, self._starts[last.end_lineno - 1] + last.end_col_offset, column)

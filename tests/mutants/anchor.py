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


def definitions(node: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef]:
    """Functions and classes that a node's statements define, and none that these define."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, SCOPES):
            yield child
        elif not isinstance(child, ast.expr):
            yield from definitions(child)


def own(node: ast.AST) -> Iterator[ast.AST]:
    """A node and all below, with decorators, arguments and bases; not what functions and classes defined in it consist of."""
    yield node
    if isinstance(node, ast.JoinedStr):
        return  # before Python 3.12 the places of what stands in it are wrong
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, SCOPES):
            yield from own(child)


class Source:
    """A Python file, parsed once: what stands in each function or class, by its qualified name ('' for the module)."""

    def __init__(self, text: str) -> None:
        self.bytes = text.encode()
        self.tree = ast.parse(text)
        self._starts = [0]
        for line in self.bytes.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))

    def find(self, scope: str, pattern: Pattern) -> list[Place]:
        """All places in a scope, and in none that is defined in it, that a pattern fits. Raises Unfit where there is no such scope."""
        roots: list[ast.AST] = [self.tree]
        for name in scope.split(".") if scope else []:
            roots = [node for root in roots for node in definitions(root) if node.name == name]
        if not roots:
            raise Unfit(f"no function or class '{scope}'")
        search = self._runs if isinstance(pattern, list) else self._expressions
        return sorted((place for root in roots for node in own(root) for place in search(node, pattern)), key=lambda at: at.begin)

    def _expressions(self, node: ast.AST, pattern: Pattern) -> Iterator[Place]:
        if isinstance(node, ast.expr) and fits(pattern, node):
            yield self._place(node, node)

    def _runs(self, node: ast.AST, pattern: Pattern) -> Iterator[Place]:
        assert isinstance(pattern, list)
        for _, body in ast.iter_fields(node):
            if isinstance(body, list) and body and isinstance(body[0], ast.stmt):
                for at in range(len(body) - len(pattern) + 1):
                    if fits(pattern, run := body[at : at + len(pattern)]):
                        yield self._place(run[0], run[-1])

    def _place(self, first: ast.expr | ast.stmt, last: ast.expr | ast.stmt) -> Place:
        assert last.end_lineno is not None and last.end_col_offset is not None
        row, column = first.lineno, first.col_offset
        for decorator in getattr(first, "decorator_list", []):
            row = min(row, decorator.lineno)
        begin = self._starts[row - 1] + column
        return Place(begin, self._starts[last.end_lineno - 1] + last.end_col_offset, column)

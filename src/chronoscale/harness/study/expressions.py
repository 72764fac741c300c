"""Expressions and templates of study files: Python's, of which imports, private attributes and statements are left out."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from statistics import median
from types import CodeType
from typing import Any

import numpy as np

from chronoscale.errors import UserError
from chronoscale.harness.study.findings import AGREES, NAN, NOT_PRINTED, SOLVED, UNKNOWN, by_copies
from chronoscale.reports.published import Range

Names = Mapping[str, Any]
ALLOWED = (
    ast.Expression, ast.Constant, ast.Name, ast.Load, ast.Store, ast.Attribute, ast.Subscript, ast.Slice, ast.Call, ast.keyword,
    ast.Starred, ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.ListComp, ast.DictComp, ast.GeneratorExp,
    ast.comprehension, ast.List, ast.Tuple, ast.Dict, ast.Set, ast.JoinedStr, ast.FormattedValue, ast.operator, ast.unaryop, ast.boolop,
    ast.cmpop,
)  # fmt: skip
HIDDEN = ("_", "to_", "gi_", "cr_", "ag_", "f_", "tb_", "co_")  # attributes that begin so: private, files, frames and code
FORBIDDEN = frozenset({"format", "format_map", "tofile", "dump", "dumps", "eval", "query", "pipe"})  # they reach further than their value


def within(ratio: float) -> bool:
    """Say whether a row of a study needs no explanation: ours over the published is within 5 % of 1. For expressions of study files."""
    return abs(ratio - 1) <= AGREES


def finite(values: Sequence[float]) -> list[float]:
    """Return the values without NaN and infinity, for expressions of study files."""
    return [value for value in values if math.isfinite(value)]


def mean(values: Sequence[float]) -> float:
    """Return the arithmetic mean by NumPy's pairwise sum, for expressions of study files."""
    return float(np.mean(list(values)))


def unique(values: Sequence[Any]) -> list[Any]:
    """Return each value once, in order, for expressions of study files."""
    return list(dict.fromkeys(values))


def pick(rows: Sequence[Mapping[str, Any]], **wanted: Any) -> Mapping[str, Any]:
    """Return the first row of a published table with these values, for expressions of study files.

    wanted: column -> value. Raises UserError where there is none.
    """
    for row in rows:
        if all(row.get(name) == value for name, value in wanted.items()):
            return row
    raise UserError(f"no row with {', '.join(f'{name} {value}' for name, value in wanted.items())}")


def plural(count: int, noun: str) -> str:
    """Return the noun with an s, unless `count` is 1, for sentences of study files."""
    return noun if count == 1 else f"{noun}s"


NAMES: Names = {
    **{one.__name__: one for one in (within, finite, mean, unique, pick, plural, median, by_copies, Range)},
    **{one.__name__: one for one in (abs, all, any, bool, dict, enumerate, float, int, len, list, max, min, range, round, set)},
    **{one.__name__: one for one in (sorted, str, sum, tuple, zip)},
    **{"NAN": NAN, "INF": math.inf, "UNKNOWN": UNKNOWN, "NOT_PRINTED": NOT_PRINTED, "SOLVED": SOLVED, "AGREES": AGREES},
    **{"True": True, "False": False, "None": None, "log": math.log, "isfinite": math.isfinite},
}


@lru_cache(4096)
def _code(text: str) -> CodeType:
    try:
        tree = ast.parse(text.strip(), "<study>", "eval")
    except SyntaxError as error:
        raise UserError(f"'{text}': not an expression: {error.msg}") from None
    for node in ast.walk(tree):
        if not isinstance(node, ALLOWED):
            raise UserError(f"'{text}': {type(node).__name__} is not for a study")
        if isinstance(node, ast.Attribute) and (node.attr.startswith(HIDDEN) or node.attr in FORBIDDEN):
            raise UserError(f"'{text}': .{node.attr} is not for a study")
    return compile(tree, "<study>", "eval")


def value(text: Any, names: Names) -> Any:
    """Evaluate an expression of a study's YAML file, such as `points.at('epoch_s', gpus=4)`; return numbers, lists and None unchanged.

    names: name -> value, what it may use besides the built-in `NAMES`. Python's syntax without imports and private attributes. Raises
    UserError with the expression and what is wrong.
    """
    if not isinstance(text, str):
        return text
    code = _code(text)
    try:
        return eval(code, {"__builtins__": {}, **NAMES, **names})  # of a tree that holds nothing but `ALLOWED`
    except UserError:
        raise
    except Exception as error:  # a study's mistake may raise anything
        raise UserError(f"'{text}': {type(error).__name__}: {error}") from error


def filled(text: str, names: Names) -> str:
    """Return a sentence or title of a study's YAML file with its `{expression}` or `{expression:format}` replaced by values.

    names: name -> value, what expressions may use. Braces that stay are doubled. Raises UserError with the expression that fails.
    """
    parts = ((part, None) if not is_expression else _split(part) for part, is_expression in _parts(text))
    return "".join(part if how is None else _shown(part, how, names) for part, how in parts)


def read_by(text: str) -> set[str]:
    """Return what an expression or template of a study file reads: names, attributes, keywords and words in quotes; nothing of prose."""
    try:
        tree = ast.parse(text.removeprefix("=").strip(), mode="eval")
    except SyntaxError:
        try:
            return {word for part, is_expression in _parts(text) if is_expression for word in read_by(_split(part)[0])}
        except UserError:
            return set()
    read: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            read |= {node.value, *read_by(node.value)}
        else:
            read |= {str(word) for key in ("id", "attr", "arg") if (word := getattr(node, key, None))}
    return read


def _shown(expression: str, how: str, names: Names) -> str:
    given = value(expression, names)
    try:
        return format(given, how)
    except (TypeError, ValueError) as error:
        raise UserError(f"'{expression}': {error}") from error


@lru_cache(4096)
def _parts(text: str) -> tuple[tuple[str, bool], ...]:
    """A template's texts and expressions (True), in turn."""
    parts, at, literal = [], 0, ""
    while at < len(text):
        if text.startswith(("{{", "}}"), at):
            literal, at = literal + text[at], at + 2
        elif text[at] == "{":
            end = _closing(text, at + 1, "}")
            parts += [(literal, False), (text[at + 1 : end], True)]
            literal, at = "", end + 1
        else:
            literal, at = literal + text[at], at + 1
    return (*parts, (literal, False))


def _closing(text: str, at: int, ends: str) -> int:
    """Where one of `ends` stands that is in no brackets and no quotes; the text's length where none does."""
    depth, quote = 0, ""
    for i in range(at, len(text)):
        if quote:
            quote = "" if text[i] == quote else quote
        elif text[i] in "'\"":
            quote = text[i]
        elif not depth and text[i] in ends:
            return i
        else:
            depth += (text[i] in "([{") - (text[i] in ")]}")
    if "}" in ends:
        raise UserError(f"'{text}': a brace is not closed")
    return len(text)


def _split(part: str) -> tuple[str, str]:
    """An expression and its format."""
    colon = _closing(part, 0, ":")
    return part[:colon], part[colon + 1 :]


def loops(over: Mapping[str, Any], names: Names) -> Iterator[dict[str, Any]]:
    """Run through the nested loops (`for`) of an entry of a study file: yield, for each turn, all names with the loop variables added.

    over: variable -> expression that gives its values; several variables with commas take a tuple apart; an expression may use the
    variables before it.
    """
    if not over:
        yield dict(names)
        return
    (variable, text), *rest = over.items()
    for item in value(text, names):
        bound = {variable: item} if "," not in variable else dict(zip(map(str.strip, variable.split(",")), item, strict=True))
        yield from loops(dict(rest), {**names, **bound})

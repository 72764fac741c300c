"""YAML files that people write: keys and values."""

from __future__ import annotations

import re
from contextlib import suppress
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

import yaml

from chronoscale.errors import UserError, in_words

try:
    from yaml import CSafeLoader as QuickParser
except ImportError:  # a PyYAML that was built without libyaml
    from yaml import SafeLoader as QuickParser  # type: ignore[assignment]

DEEPEST = 32  # mappings and lists in one another; deeper ones would exhaust Python's stack


class _Composer(yaml.composer.Composer):
    """YAML that says where a key stands twice and where it is nested too deep."""

    peek_event: Any  # the parser's
    _depth = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        self._depth += 1
        if self._depth > DEEPEST:
            raise yaml.composer.ComposerError(None, None, f"nested deeper than {DEEPEST} levels", self.peek_event().start_mark)
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node

    def compose_mapping_node(self, anchor: Any) -> Any:
        node = super().compose_mapping_node(anchor)
        seen: dict[tuple[str, str], int] = {}
        for key in (key for key, _ in node.value if isinstance(key, yaml.ScalarNode)):
            if (name := (key.tag, key.value)) in seen:
                problem = f"key '{key.value}' stands twice, first in line {seen[name] + 1}"
                raise yaml.composer.ComposerError(None, None, problem, key.start_mark)
            seen[name] = key.start_mark.line
        return node


class _Constructor(yaml.constructor.SafeConstructor, yaml.resolver.Resolver):
    """YAML that reads 1e9 as a number, as YAML 1.2 does."""


_Constructor.add_implicit_resolver("tag:yaml.org,2002:float", re.compile(r"[-+]?\d+(\.\d*)?[eE][-+]?\d+$", re.ASCII), list("-+0123456789"))


class _Loader(_Composer, _Constructor, yaml.SafeLoader):
    """PyYAML's own parser, whose messages people know."""


class _QuickLoader(_Composer, _Constructor, QuickParser):
    """The parser in C of libyaml, five times as fast."""

    def __init__(self, text: str) -> None:
        QuickParser.__init__(self, text)
        _Composer.__init__(self)


def read(path: Path | Traversable, kind: str) -> Any:
    """Read a YAML file. Raises UserError in one line: the file, the line in it, and what is wrong; `kind` names the file in it."""
    try:
        text = path.read_text(encoding="utf-8")
        with suppress(Exception):  # the other parser says what is wrong
            return yaml.load(text, _QuickLoader)
        return yaml.load(text, _Loader)
    except FileNotFoundError:
        raise UserError(f"{path}: no such {kind}") from None
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not text in UTF-8 (byte {error.start})") from None
    except OSError as error:
        raise UserError(f"{path}: not readable: {in_words(error)}") from error
    except yaml.MarkedYAMLError as error:
        at = "" if error.problem_mark is None else f"line {error.problem_mark.line + 1}: "
        raise UserError(f"{path}: not valid YAML: {at}{error.problem or error.context}") from error
    except Exception as error:  # PyYAML's constructors raise anything where a tag or a date does not fit
        raise UserError(f"{path}: not valid YAML: {str(error).splitlines()[0] if str(error) else type(error).__name__}") from error


def mapping(path: Path, kind: str, expected: str) -> dict[Any, Any]:
    """Read the keys and values of a YAML file. Raises UserError as `read`, and where it holds something else.

    kind: what the file is, for messages. expected: ends the message on another content, after "expected keys and values"; '' for nothing.
    """
    data = read(path, kind)
    if not isinstance(data, dict):
        raise UserError(f"{path}: expected keys and values{expected}")
    if strange := [key for key in data if not isinstance(key, str)]:
        raise UserError(f"{path}: expected text as a key, got {strange[0]!r}")
    return data

"""Where a fault stands in C++, CUDA or YAML: a run of tokens, white space and comments aside, in a function that its name says."""

from __future__ import annotations

import re
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

from anchor import Place, Unfit

TOKEN = re.compile(
    r"""(?P<space>\s+|//[^\n]*|/\*.*?\*/)|(?P<token>"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])+'|0[xX][\da-fA-F']+\w*|\d[\w.']*(?:(?<=[eE])[+-]\d+)?\w*|\.\d+\w*|\w+"""
    r"""|<<=|>>=|->|::|\+\+|--|<<|[-+*/%&|^!=<>]=|&&|\|\||.)""",
    re.DOTALL | re.VERBOSE,
)
CONTROL = {"if", "for", "while", "switch", "catch", "else", "do", "try", "=", "return", "__launch_bounds__", "__attribute__", "alignas"}
KINDS = {"struct", "class", "union", "enum", "namespace"}
INNER = {"{", "}", ";"}


class Token(NamedTuple):
    text: str
    begin: int
    end: int


def tokens_of(text: str) -> list[Token]:
    return [Token(m["token"], m.start(), m.end()) for m in TOKEN.finditer(text) if m["token"] is not None]


def name_of(header: list[str]) -> str:
    """What is defined by the tokens before a brace: the word before the first parenthesis, or after struct
    and its kin; '' for no definition."""
    if "(" in header:
        for at, word in enumerate(header):
            if at and word == "(" and header[at - 1] not in CONTROL and re.match(r"[A-Za-z_]", header[at - 1]):
                return "" if CONTROL & set(header[:at]) - {"__launch_bounds__", "__attribute__", "alignas"} else header[at - 1]
        return ""
    return next((name for kind, name in pairwise(header) if kind in KINDS and name not in KINDS), "")


class Source:
    """A file's tokens, and the ranges of them that are definitions, by name."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = tokens_of(text)
        self.texts = [token.text for token in self.tokens]

    @cached_property
    def scopes(self) -> dict[str, list[tuple[int, int]]]:
        places: dict[str, list[tuple[int, int]]] = {}
        opened: list[tuple[str, int]] = []
        start = 0
        for at, token in enumerate(self.tokens):
            if token.text == "{":
                opened.append((name_of(self.texts[start:at]), start))
            elif token.text == "}" and opened:
                name, begin = opened.pop()
                if name:
                    places.setdefault(name, []).append((begin, at + 1))
            if token.text in INNER:
                start = at + 1
        return places

    def find(self, scope: str, pattern: list[str]) -> list[Place]:
        """All places in definitions of that name, or in the file if it is '', where the pattern's tokens stand.

        Raises Unfit where nothing has that name.
        """
        if scope and scope not in self.scopes:
            raise Unfit(f"no function or type '{scope}'")
        if not pattern:
            raise Unfit("nothing to find")
        texts = self.texts
        begins = set()
        for begin, end in self.scopes[scope] if scope else [(0, len(texts))]:
            for at in range(begin, end - len(pattern) + 1):
                if texts[at] == pattern[0] and texts[at : at + len(pattern)] == pattern:
                    begins.add(at)
        return [
            Place(len(self.text[: self.tokens[at].begin].encode()), len(self.text[: self.tokens[at + len(pattern) - 1].end].encode()), 0)
            for at in sorted(begins)
        ]

"""Converter of CUDA's own syntax into C++: launches, and declarations of shared memory. Lines stay where they are."""

from __future__ import annotations

import re

_SKIPPED = re.compile(r'//[^\n]*|/\*.*?\*/|("(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\')', re.S)
_SHARED = re.compile(r"(extern\s+)?__shared__\s+((?:alignas|__align__)\s*\([^)]*\)\s+)?([^;=]*?)\b(\w+)((?:\s*\[[^\]]*\])*)\s*;")
_PAIRS = {")": "(", ">": "<", "]": "["}


class Unclear(Exception):
    """CUDA syntax that this converter does not know."""


def convert(text: str, name: str) -> str:
    """Return the C++ of a CUDA source or header called `name`. Raises Unclear for a launch or a declaration that it cannot read."""
    text = _SKIPPED.sub(lambda m: m[1] or " " + "\n" * m[0].count("\n"), text)
    text = _SHARED.sub(_shared, text)
    while (at := text.find("<<<")) >= 0:
        text = _launch(text, at, f"{name}:{text.count(chr(10), 0, at) + 1}")
    if "__shared__" in text:
        raise Unclear(f"{name}:{text.count(chr(10), 0, text.index('__shared__')) + 1}: a __shared__ that declares more than one variable")
    return text


def _shared(found: re.Match[str]) -> str:
    dynamic, alignment, kind, name, extent = found.groups(default="")
    kind = kind.strip()
    lines = "\n" * found[0].count("\n")
    if "," in re.sub(r"<[^<>]*(?:<[^<>]*>[^<>]*)*>", "", kind) or not kind:
        return found[0]
    if dynamic:
        return f"{kind}* const {name} = static_cast<{kind}*>(emu::dynamic_shared());{lines}"
    aligned = f"alignof({name}_shared)"
    if alignment:
        aligned = f"std::max<size_t>({aligned}, {alignment[alignment.index('(') + 1 : alignment.rindex(')')]})"
    return (
        f"typedef {kind} {name}_shared{extent}; static const char {name}_key = 0; "
        f"{name}_shared& {name} = *static_cast<{name}_shared*>(emu::shared(&{name}_key, sizeof({name}_shared), {aligned}));{lines}"
    )


def _launch(text: str, at: int, where: str) -> str:
    """Replace kernel<<<configuration>>>(arguments), whose "<<<" stands at `at`."""
    close = text.find(">>>", at)
    opened = re.compile(r"\s*\(").match(text, close + 3) if close >= 0 else None
    if opened is None:
        raise Unclear(f"{where}: a launch without its end")
    end, depth = opened.end(), 1
    while depth and end < len(text):
        depth += {"(": 1, ")": -1}.get(text[end], 0)
        end += 1
    begin = _kernel(text, at)
    if depth or not text[begin:at].strip():
        raise Unclear(f"{where}: a launch of no kernel, or without its end")
    arguments = text[opened.end() : end - 1]
    given = f", {arguments}" if arguments.strip() else ""
    return f"{text[:begin]}emu::launch(emu::Config({text[at + 3 : close]}), {text[begin:at].strip()}{given}){text[end:]}"


def _kernel(text: str, end: int) -> int:
    """Return where the expression begins that ends before `end`: a name, with or without template arguments, or one in parentheses."""
    at = len(text[:end].rstrip())
    stack: list[str] = []
    while at > 0 and (stack or text[at - 1] in _PAIRS):
        last = text[at - 1]
        if last in _PAIRS:
            stack.append(_PAIRS[last])
        elif stack and last == stack[-1]:
            stack.pop()
        at -= 1
    while at > 0 and (text[at - 1].isalnum() or text[at - 1] in "_:."):
        at -= 1
    return at

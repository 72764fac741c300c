"""Imported: a function that is imported when it is called, as a study draws in all that trains and simulates."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from chronoscale.harness.study.findings import Findings, Told

HERE = "chronoscale.harness.reproduce"


class Imported:
    """`target`: `module:function` of this folder, called with `arguments` first."""

    def __init__(self, target: str, *arguments: Any) -> None:
        self._module, _, self._function = target.partition(":")
        self._arguments = arguments

    def __call__(self, told: Told, quick: bool) -> Findings:
        found: Findings = getattr(import_module(f"{HERE}.{self._module}"), self._function)(*self._arguments, told, quick)
        return found

"""Attachment: a file in a report's folder with the results of runs in the form of somebody else's benchmark."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Attachment:
    """File of a report for programs other than ours. name: in the report's folder. sentences: what it holds, for the report's notes."""

    name: str
    text: str
    sentences: tuple[str, ...]

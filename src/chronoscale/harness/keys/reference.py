"""Reference of the keys of an experiment file, read off the models that validate it."""

from __future__ import annotations

import json
from types import NoneType, UnionType
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from chronoscale.errors import unknown
from chronoscale.harness.keys.families import FAMILIES
from chronoscale.validation_messages import part_of

HEAD = """# The experiment file

Every key that an experiment file (YAML) may have; `chronoscale keys [KEY]` prints the same. The model decides the family, and with it which
keys are read: a key of another family alone is refused. An unknown key, a wrong value or an unknown name ends the command with one line
that says where and what was expected. `dataset: NAME` and `model: NAME` are short for mappings with that
name.

This page is generated from the models that validate the file: `chronoscale keys --markdown > docs/experiments.md`.

| key | type | default | family | meaning |
|---|---|---|---|---|
"""


class Key(NamedTuple):
    """Line of docs/experiments.md and of `chronoscale keys`: one key of an experiment file.

    family: the one that reads it, or "all". default: a number, list or truth value as JSON.
    """

    key: str
    type: str
    default: str
    family: str
    meaning: str

    @property
    def value(self) -> object:
        """Default of the key as JSON has it; in words where it is text."""
        try:
            return json.loads(self.default)
        except ValueError:
            return self.default


def keys(start: str = "") -> list[Key]:
    """Return the keys of an experiment file for `chronoscale keys`: all, or those that are `start` or stand under it, such as "training".

    Raises UserError where there is none, with the nearest.
    """
    start = start.rstrip(".")
    by_family = {name: dict(_leaves(family.keys, "")) for name, family in FAMILIES.items()}
    merged: dict[tuple[str, str, str, str], list[str]] = {}
    for family, leaves in by_family.items():
        for path, (kind, default, meaning) in leaves.items():
            merged.setdefault((path, kind, default, meaning), []).append(family)
    order = {path: place for place, path in enumerate(dict.fromkeys(path for leaves in by_family.values() for path in leaves))}
    rows = [
        Key(path, kind, default, "all" if len(families) == len(FAMILIES) else ", ".join(families), meaning)
        for (path, kind, default, meaning), families in merged.items()
    ]
    rows.sort(key=lambda row: (_place(row.key, order), row.family))
    chosen = [row for row in rows if not start or row.key == start or row.key.startswith(f"{start}.")]
    if not chosen:
        raise unknown("key", start, order)
    return chosen


def document() -> str:
    """Return the text of docs/experiments.md, written from the classes of an experiment's keys."""
    cells = [(f"`{row.key}`", row.type.replace(" | ", " or "), row.default, row.family, row.meaning) for row in keys()]
    return HEAD + "".join(f"| {' | '.join(row)} |\n" for row in cells)


def _place(path: str, order: dict[str, int]) -> tuple[int, int]:
    """Parts of a mapping stand together, in the order of the first family that has them."""
    first = path.split(".")[0]
    return min(place for other, place in order.items() if other.split(".")[0] == first), order[path]


def _leaves(part: type[BaseModel], above: str) -> list[tuple[str, tuple[str, str, str]]]:
    leaves = []
    for name, field in part.model_fields.items():
        path, inner = f"{above}{name}", part_of(part, name)
        kind = _shown(field) or _type(field.annotation)
        if inner is not None and not _shown(field):
            kind = "text or mapping" if "name" in inner.model_fields else "mapping"
        default = "its keys'" if isinstance(field.default, BaseModel) else _default(field)
        leaves.append((path, (kind, default, _meaning(part, name))))
        if inner is not None:
            leaves += _leaves(inner, f"{path}.")
    return leaves


def _shown(field: FieldInfo) -> str:
    """Return what a file may have for a key, where that is more than the key's type."""
    return str((field.json_schema_extra or {}).get("shown", "")) if isinstance(field.json_schema_extra, dict) else ""


def _meaning(part: type[BaseModel], name: str) -> str:
    """Return a key's description, or that of the key which it overrides in a base model."""
    for model in part.__mro__:
        fields: dict[str, FieldInfo] = getattr(model, "model_fields", {})
        if name in fields and fields[name].description:
            return str(fields[name].description)
    raise ValueError(f"{part.__name__}.{name} has no description")


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    if value is None or value is PydanticUndefined:
        return "none"
    return value if isinstance(value, str) else json.dumps(list(value) if isinstance(value, tuple) else value)


def _type(kind: Any) -> str:
    """Write a type for people."""
    origin, inner = get_origin(kind), [part for part in get_args(kind) if part is not NoneType]
    if origin is Literal:
        return " | ".join(map(str, inner))
    if origin in (Union, UnionType):
        return " | ".join(map(_type, inner))
    if origin is tuple:
        return f"list of {_type(inner[0])}"
    if origin is dict:
        return "mapping"
    if origin is not None:  # Annotated
        return _type(inner[0])
    return {str: "text", int: "integer", float: "number", bool: "true | false"}.get(kind, getattr(kind, "__name__", str(kind)))

"""Messages about values that do not validate: what pydantic finds wrong, in our own words."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from inspect import isclass
from reprlib import Repr
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from chronoscale.errors import unknown

Context = Mapping[str, Any]
# Of a union or a key, in pydantic's account of where.
TYPES = frozenset({"str", "int", "float", "bool", "constrained-float", "json-or-python", "[key]"})
_SHORT = Repr()  # of what was given, which may be long, or hold itself
_SHORT.maxstring = _SHORT.maxother = _SHORT.maxlong = 60


def _expected(what: str) -> Callable[[Context], str]:
    return lambda said: f"expected {what.format(**{key: _number(value) for key, value in said.items()})}"


def _number(value: object) -> object:
    return int(value) if isinstance(value, float) and value.is_integer() else value


# The sentence of an error by its type, and by the start of its type where several say the same.
SENTENCES: Mapping[str, Callable[[Context], str]] = {
    "missing": lambda said: "required, and not there",
    "extra_forbidden": lambda said: "unknown",
    "invalid_key": _expected("text as a key"),
    "value_error": lambda said: str(said["error"]),
    "json_invalid": lambda said: f"not JSON, {said['error']}",
    "greater_than_equal": _expected("at least {ge}"),
    "less_than_equal": _expected("at most {le}"),
    "greater_than": _expected("more than {gt}"),
    "less_than": _expected("less than {lt}"),
    "finite_number": _expected("a finite number"),
    "literal_error": _expected("{expected}"),
    "union_tag": _expected("another kind"),
    "too_short": _expected("at least {min_length} entries"),
    "too_long": _expected("at most {max_length} entries"),
    "missing_argument": lambda said: "not all there",
    "int": _expected("a whole number"),
    "float": _expected("a number"),
    "bool": _expected("true or false"),
    "string": _expected("text"),
    "tuple": _expected("a list"),
    "list": _expected("a list"),
    "dict": _expected("keys and values"),
    "mapping": _expected("keys and values"),
    "model": _expected("keys and values"),
    "dataclass": _expected("keys and values"),
    "none_required": _expected("nothing"),
}


def sentence(error: ErrorDetails) -> str:
    """Describe the expected value, without the given one."""
    kind = error["type"]
    template = SENTENCES.get(kind) or next((said for start, said in SENTENCES.items() if kind.startswith(start)), None)
    return template(error.get("ctx", {})) if template else "not what is expected here"


def mistake(error: ValidationError, keys: type[BaseModel] | None = None) -> str:
    """Describe the first mistake in one line: the key, what was expected, what was given; of an unknown key of `keys` the nearest one."""
    first = error.errors(include_url=False)[0]
    models = set() if keys is None else set(_models(keys))  # a model of a union is no key
    if first["type"] == "extra_forbidden" and keys is not None:
        *above, last = (str(part) for part in first["loc"])
        where = [*(part for part in above if not part.startswith("_") and part not in models), last]
        return str(unknown("key", ".".join(where), _valid(keys, where[:-1])))
    where = [
        str(part)
        for part in first["loc"]
        if isinstance(part, int) or not (part in TYPES or part in models or part.startswith(("_", "function-", "[key]")))
    ]
    given = "" if first["type"] in ("missing", "json_invalid") else f" (got {shown(first['input'])})"
    return f"{'.'.join(where)}{': ' if where else ''}{sentence(first)}{given}"


def _models(keys: type[BaseModel]) -> Iterator[str]:
    """Yield the names of the models that stand under keys."""
    for name in keys.model_fields:
        if (below := part_of(keys, name)) is not None:
            yield below.__name__
            yield from _models(below)


def _valid(keys: type[BaseModel], above: Sequence[str]) -> list[str]:
    """Keys beside an unknown one, with what stands above them."""
    for step in above:
        keys = part_of(keys, step) or keys
    return [".".join([*above, name]) for name in keys.model_fields]


def part_of(keys: type[BaseModel], key: str) -> type[BaseModel] | None:
    """Return the keys of a mapping that stands under a key; None where there is none."""
    field = keys.model_fields.get(key)
    kinds = () if field is None else (field.annotation, *get_args(field.annotation))
    return next((kind for kind in kinds if isclass(kind) and issubclass(kind, BaseModel)), None)


def shown(value: object) -> str:
    """Write what was given as YAML does, and not more of it than a line holds."""
    return "nothing" if value is None else str(value).lower() if isinstance(value, bool) else _SHORT.repr(value)

"""Options of readers, which are their keyword parameters; annotations say what values they take, on a command line and in experiment
files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import Parameter, signature
from typing import Any, get_type_hints

from pydantic import ConfigDict, PydanticUserError, TypeAdapter, ValidationError

from chronoscale.errors import UserError, unknown
from chronoscale.validation_messages import sentence


def option_names(read: Callable[..., Any]) -> list[str]:
    """Return the names of the options that a dataset reader takes: all of its parameters but the first, which is the path. A parameter that
    would be a word of Python has an underscore after it, which is not part of the option's name: `as_` is `as`."""
    return list(_parameters(read))


def _parameters(read: Callable[..., Any]) -> dict[str, str]:
    """Return the parameters of a dataset reader by the names of their options."""
    parameters = list(signature(read).parameters.values())[1:]
    kinds = (Parameter.KEYWORD_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
    return {parameter.name.removesuffix("_"): parameter.name for parameter in parameters if parameter.kind in kinds}


def validate_options(format: str, read: Callable[..., Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Check options for a dataset reader, from a command line or an experiment file, and convert them to the types that its parameters are
    annotated with (text such as "3" or "true" will do); return them by parameter.

    format: the reader's name, for errors. Raises UserError for an option that the reader does not have, with those that it has, and for a
    value that its annotation does not allow.
    """
    if not values:
        return {}
    known = _parameters(read)
    for name in values:
        if name not in known:
            message = str(unknown(f"option of format '{format}':", name, known))
            raise UserError(message if "valid:" in message else f"{message} valid: {', '.join(sorted(known)) or 'none'}")
    hints = get_type_hints(read, include_extras=True)
    return {known[name]: _value(name, hints.get(known[name], Any), value) for name, value in values.items()}


def _value(name: str, kind: Any, value: Any) -> Any:
    try:
        return TypeAdapter(kind, config=ConfigDict(coerce_numbers_to_str=True)).validate_python(value)
    except PydanticUserError:  # a type with a configuration of its own
        return TypeAdapter(kind).validate_python(value)
    except ValidationError as error:
        raise UserError(f"option {name}: {sentence(error.errors()[0])}, got {value!r}") from None

"""Sizes in bytes, as people write them."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import BeforeValidator, ValidationInfo

from chronoscale.errors import UserError

SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(|k|M|G|T)(i?)B?\s*", re.ASCII)


def _bytes(value: Any, info: ValidationInfo) -> Any:
    """Bytes of 2000000000, "2GB" or "1.5 GiB"."""
    match = SIZE.fullmatch(str(value)) if isinstance(value, (int, float, str)) and not isinstance(value, bool) else None
    size = int(float(match[1]) * (1024 if match[3] else 1000) ** " kMGT".index(match[2] or " ")) if match else 0
    if size < 1:
        raise UserError(f"{info.field_name}: expected bytes or a size such as 2GB, 512MB or 1.5GiB, got {value!r}")
    return size


Bytes = Annotated[int, BeforeValidator(_bytes)]

"""Study rows: the numbers of a study's rows and tables, and where they differ from those that were kept."""

import json
import math
from collections.abc import Iterator
from typing import Any

import pandas as pd

from chronoscale.harness.study.findings import Findings

MEASURED = "of it compressing, s"  # a column, which seconds hang on
VARY = (
    "executed",
    "simple's bytes over",
    ", METIS,",
    ", metis",
    "I/O speedup",
    "seconds over fast's",
    "fast's seconds of",
    "unbound over bound",
)


def table(frame: pd.DataFrame) -> dict[str, list[Any]]:
    """Columns by name, as JSON has them, without reasons, and without what is another time different."""
    lines = [line for line in frame.to_dict("records") if not varies(line)]
    left_out = {"why", "note", "aside"} | ({"seconds", MEASURED} if MEASURED in frame else set())
    left_out |= {"metis", "metis_shared"} if "metis_shared" in frame else set()  # which cuts a stream, too
    return {str(key): [plain(line[key]) for line in lines] for key in frame if key not in left_out}


def varies(line: dict[str, Any]) -> bool:
    """Whether a line is executed, of rates that are measured, of METIS, which is not seeded where it cuts a stream, or of what SIMPLE sends
    row by row: which of the rows that are needed equally soon its cache keeps is the processor's choice (`np.argpartition`)."""
    return ("GiB" in line and line.get("strategy") == "simple") or any(
        word in str(line.get(key, "")) for key in ("what", "how") for word in VARY
    )


def plain(value: Any) -> Any:
    value = value.item() if hasattr(value, "item") else value
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def numbers(findings: Findings) -> dict[str, Any]:
    """Rows and tables of what a study found, without its claims, which `small_studies` does not simulate."""
    tables = {name: table(one) for name, one in findings.tables.items() if name != "conclusions"}
    return json.loads(json.dumps({"rows": table(findings.rows), "tables": tables}))


def numbers_of_frames(golden: dict[str, Any]) -> dict[str, Any]:
    """The same of a file that holds frames as pandas writes them, split."""

    def frame(split: dict[str, Any]) -> pd.DataFrame:
        return pd.DataFrame(split["data"], columns=split["columns"], dtype=object)

    tables = {name: table(frame(one)) for name, one in golden["tables"].items()}
    return {"rows": table(frame(golden["rows"])), "tables": tables}


def differences(expected: Any, given: Any, where: str = "", rounded: float = 0.0) -> Iterator[str]:
    """Where two differ: text by its words, numbers bit by bit, or up to what was lost where they were `rounded`."""
    if isinstance(expected, dict) and isinstance(given, dict):
        for key in [*expected, *(key for key in given if key not in expected)]:
            if key not in given or key not in expected:
                yield f"{where}.{key}: only {'expected' if key in expected else 'given'}"
            else:
                yield from differences(expected[key], given[key], f"{where}.{key}", rounded)
    elif isinstance(expected, list) and isinstance(given, list) and len(expected) == len(given):
        for i, (one, other) in enumerate(zip(expected, given, strict=True)):
            yield from differences(one, other, f"{where}[{i}]", rounded)
    elif isinstance(expected, int | float) and isinstance(given, int | float):
        if expected != given and not (rounded and math.isclose(expected, given, rel_tol=rounded, abs_tol=rounded)):
            yield f"{where}: {expected!r}, not {given!r}"
    elif expected != given:
        yield f"{where}: {expected!r}, not {given!r}"
